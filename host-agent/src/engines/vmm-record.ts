// The record that a daemon writes before it starts a VMM, from which the next daemon finds VMMs without a sandbox.
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { findRecorded, readProcessRecord, removeProcessRecord } from '../lib/process-record.ts';
import type { VmmKind } from './control.ts';
import type { FoundVmm, VmPaths } from './engine.ts';

const SUFFIX = '.vmm';
/** Sockets of a probe are in `<run-dir>/probe/<trial>`. */
const DEPTH = 2;

/** Beside the socket directory, which the VMM may own for a while; the directory above belongs to the daemon only. */
export function vmmRecordPath({ socketDir }: Pick<VmPaths, 'socketDir'>): string {
  return `${socketDir}${SUFFIX}`;
}

/**
 * Running VMMs of this kind whose socket directory is in `dir`, found by their records. The record of a VMM that has
 * exited is removed.
 */
export function findVmms({ name }: Pick<VmmKind, 'name'>, dir: string): FoundVmm[] {
  return listRecords(dir, DEPTH).flatMap((path) => {
    const record = readProcessRecord(path);
    if (record?.what !== name) return [];
    const found = findRecorded(record);
    if (found.length === 0) removeProcessRecord(path);
    return found.map((process) => ({ ...process, socketDir: path.slice(0, -SUFFIX.length) }));
  });
}

function listRecords(dir: string, depth: number): string[] {
  return listNames(dir).flatMap((name) => {
    const path = join(dir, name);
    if (name.endsWith(SUFFIX)) return [path];
    return depth > 0 && lstatSync(path, { throwIfNoEntry: false })?.isDirectory()
      ? listRecords(path, depth - 1)
      : [];
  });
}

function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
