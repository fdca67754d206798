// Removes what an earlier daemon left: VMMs, directories and records of sandboxes that nobody looks after any more.
import { readdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import { isId } from '../lib/ids.ts';
import { isRunning, signalProcess } from '../lib/proc.ts';
import { deadline, poll } from '../lib/wait.ts';
import type { Table } from '../store/store.ts';
import { type Directories, removeSandboxDirs, sandboxesRoot, sandboxPaths } from './paths.ts';
import type { SandboxRecord } from './record.ts';

const KILL_TIMEOUT_MS = 10_000;

/** Returns how many sandboxes were removed. Only processes that a record names exactly are touched. */
export async function sweepLeftovers(
  directories: Directories,
  records: Table<SandboxRecord>,
  log: Logger,
): Promise<number> {
  const known = new Map(records.all().map(({ id, record }) => [id, record]));
  const onDisk = await Promise.all([sandboxesRoot(directories), directories.runDir].map(listIds));
  const ids = new Set([...known.keys(), ...onDisk.flat()]);
  for (const id of ids) {
    const vmm = known.get(id)?.vmm;
    if (vmm && signalProcess(vmm, 'SIGKILL')) {
      using limit = deadline(KILL_TIMEOUT_MS, () => new Error(`process ${vmm.pid} does not end`));
      await poll(async () => (isRunning(vmm) ? undefined : true), 5, limit.signal);
    }
    await removeSandboxDirs(sandboxPaths(directories, id));
    await records.remove(id);
    log.info({ sandbox: id }, 'removed a sandbox of an earlier run');
  }
  return ids.size;
}

async function listIds(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(() => []);
  return names.filter((name) => isId('sbx', name));
}
