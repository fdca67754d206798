// Port holders that a daemon of version 0.1.0 started, as `nobody` and without a record. They are found by their arguments, which any
// process can have, and believed for what none can: they listen on sockets that root made, in the daemon's own mounts.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { listPids, type ProcessId, readArguments, readStartTicks } from '../lib/proc.ts';

/** What a holder is called. */
export const ARGV0 = 'sandboxd-portd';
const LISTENING = '0A';
const ROOT = '0';

export type EarlierHolder = ProcessId & { readonly namespace: string };

/** Those of one slot, or of all slots in a directory, whose path then ends with a slash. */
export function findEarlierHolders(place: string): EarlierHolder[] {
  const named = listPids().flatMap((pid) => {
    const [argv0, namespace = ''] = readArguments(pid);
    const isMeant = place.endsWith('/') ? namespace.startsWith(place) : namespace === place;
    return argv0 === ARGV0 && isMeant ? [{ pid, namespace }] : [];
  });
  if (named.length === 0) return [];
  const sockets = new Set(['tcp', 'tcp6'].flatMap(readRootsListeners));
  return named.flatMap(({ pid, namespace }) => {
    const startTicks = readStartTicks(pid);
    const isOurs = hasOwnMounts(pid) && listSockets(pid).some((inode) => sockets.has(inode));
    return isOurs && startTicks !== undefined ? [{ pid, startTicks, namespace }] : [];
  });
}

/** Inodes of sockets that root made and that are listened on. */
function readRootsListeners(name: string): string[] {
  try {
    const lines = readFileSync(`/proc/net/${name}`, 'latin1').split('\n').slice(1);
    return lines.flatMap((line) => {
      const [, , , state, , , , uid, , inode = ''] = line.trim().split(/\s+/);
      return state === LISTENING && uid === ROOT ? [inode] : [];
    });
  } catch {
    // A host without IPv6.
    return [];
  }
}

function listSockets(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap(
      (fd) => /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${fd}`))?.[1] ?? [],
    );
  } catch {
    // It has ended.
    return [];
  }
}

function hasOwnMounts(pid: number): boolean {
  return readLink(`/proc/${pid}/ns/mnt`) === readLink('/proc/self/ns/mnt');
}

/** Empty when it is gone. */
function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
