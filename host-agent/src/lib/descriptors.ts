// Who gets the descriptors that this process may have. Where they are short, clients get fewer: a VMM or the registry that
// finds none left would fail for everybody.
import { readFileSync } from 'node:fs';

/** Programs, libraries, the registry, and files that are open for a moment. */
const OWN = 128;
/** Its agent, its VMM, its log, and more while it is made, saved or forked. */
const PER_SANDBOX = 8;

export type DescriptorShares = { readonly connections: number; readonly sandboxes: number };

/** At most what is wanted; connections have half of what there is, sandboxes what connections leave. */
export function shareDescriptors(limit: number, wanted: DescriptorShares): DescriptorShares {
  const connections = Math.min(wanted.connections, Math.max(1, Math.floor((limit - OWN) / 2)));
  const left = Math.floor((limit - OWN - connections) / PER_SANDBOX);
  return { connections, sandboxes: Math.min(wanted.sandboxes, Math.max(1, left)) };
}

/** Infinity where there is no limit, or none that can be read. */
export function readDescriptorLimit(limits = readFileSync('/proc/self/limits', 'latin1')): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}
