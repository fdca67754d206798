// Creates directories and small files atomically, and sweeps the temporary files of crashed processes.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasErrno } from '../errors.ts';

const TEMPORARY_NAME = /^\.tmp-(\d+)-(\d+)-/;

/** A new temporary directory in `parent`. Its name says which process makes it: others sweep it after its end. */
export async function createWorkDirectory(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true });
  const path = temporaryPath(parent);
  await mkdir(path);
  return path;
}

export function temporaryPath(parent: string): string {
  return join(parent, `.tmp-${process.pid}-${startTicks(process.pid)}-${randomBytes(4).toString('hex')}`);
}

/** When the process was started, since boot: in a container, each daemon has the same id. Undefined: there is none. */
function startTicks(pid: number | string): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is a name in parentheses, of any characters.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

/** Removes temporary files of processes that no longer exist. */
export async function sweepWorkDirectories(parent: string): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    const [, pid, ticks] = TEMPORARY_NAME.exec(name) ?? [];
    if (pid !== undefined && startTicks(pid) !== ticks) {
      // A child of the dead process may still write into it. Then a later sweep removes it.
      await rm(join(parent, name), { recursive: true, force: true }).catch(() => {});
    }
  }
}

/** Renames a finished directory to its final name. False when another process has published it first. */
export async function publishDirectory(workDirectory: string, target: string): Promise<boolean> {
  await mkdir(dirname(target), { recursive: true });
  try {
    await rename(workDirectory, target);
  } catch (error) {
    if (!hasErrno(error, 'ENOTEMPTY') && !hasErrno(error, 'EEXIST')) throw error;
    await rm(workDirectory, { recursive: true, force: true });
    return false;
  }
  await syncPath(dirname(target));
  return true;
}

/** Removes a directory in a way that no reader sees it partly empty. */
export async function retireDirectory(path: string): Promise<void> {
  const aside = temporaryPath(dirname(path));
  try {
    await rename(path, aside);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return;
    throw error;
  }
  await rm(aside, { recursive: true, force: true });
}

export async function writeFileAtomically(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = temporaryPath(dirname(path));
  try {
    await writeFile(temporary, content, { flag: 'wx', mode: 0o644, flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** fsync of a file or directory by path. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
