// Divides the process's file descriptor limit. If it is low, fewer connections are accepted: a VMM or the registry that
// cannot open a file would fail for all clients.
import { readFileSync } from 'node:fs';

/** Reserved for programs, libraries, the registry, and files that are open briefly. */
const OWN = 128;
/** Agent connection, VMM, log, and more during creation, save and fork. */
const PER_SANDBOX = 8;

type DescriptorShares = { readonly connections: number; readonly sandboxes: number };

/** Reduces the requested shares to fit: connections get at most half of the limit, sandboxes the rest. */
export function shareDescriptors(limit: number, wanted: DescriptorShares): DescriptorShares {
  const connections = Math.min(wanted.connections, Math.max(1, Math.floor((limit - OWN) / 2)));
  const left = Math.floor((limit - OWN - connections) / PER_SANDBOX);
  return { connections, sandboxes: Math.min(wanted.sandboxes, Math.max(1, left)) };
}

/** Infinity if the limit is unlimited or cannot be read. */
export function readDescriptorLimit(limits = readFileSync('/proc/self/limits', 'latin1')): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}
