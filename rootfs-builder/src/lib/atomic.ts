// Creates directories and small files atomically, and sweeps the temporary files of crashed processes.
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasErrno } from '../errors.ts';
import { tryLock } from './lock.ts';
import { judgeMark, processMark } from './process-mark.ts';

const TEMPORARY = '.tmp-';
/** Small files, which are not locked, are written within this time. */
const FILE_WRITTEN_MS = 3_600_000;
const TRIES = 10;

/** Of work directories of this process, by path. */
const locks = new Map<string, Disposable>();

/**
 * A new temporary directory in `parent`. Its name says which process makes it, and it is locked, for processes that do
 * not see this one: others sweep it after the end of this process.
 */
export async function createWorkDirectory(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true });
  for (const path of locks.keys()) if (!existsSync(path)) unlock(path);
  for (let tries = 0; tries < TRIES; tries++) {
    const path = temporaryPath(parent);
    await mkdir(path);
    const lock = await lockNew(path);
    if (lock === undefined) continue;
    locks.set(path, lock);
    return path;
  }
  throw new Error(`directories in ${parent} are removed as soon as they are made`);
}

/** Undefined: another process took it for one that is left, and removes it. */
async function lockNew(path: string): Promise<Disposable | undefined> {
  try {
    const lock = await tryLock(path);
    if (existsSync(path)) return lock;
    lock?.[Symbol.dispose]();
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    await rm(path, { recursive: true, force: true });
    throw error;
  }
  return undefined;
}

function unlock(path: string): void {
  locks.get(path)?.[Symbol.dispose]();
  locks.delete(path);
}

export function temporaryPath(parent: string): string {
  return join(parent, `${TEMPORARY}${processMark()}-${randomBytes(4).toString('hex')}`);
}

/** Removes temporary files of processes that no longer exist. */
export async function sweepWorkDirectories(parent: string): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.startsWith(TEMPORARY)) continue;
    const path = join(parent, name);
    const owner = judgeMark(name.slice(TEMPORARY.length));
    if (owner === 'foreign') await sweepForeign(path);
    // A child of the dead process may still write into it. Then a later sweep removes it.
    else if (owner === 'dead') await rm(path, { recursive: true, force: true }).catch(() => {});
  }
}

async function sweepForeign(path: string): Promise<void> {
  try {
    const found = await lstat(path);
    if (!found.isDirectory() && Date.now() - found.mtimeMs < FILE_WRITTEN_MS) return;
    using lock = await tryLock(path);
    if (lock !== undefined) await rm(path, { recursive: true, force: true });
  } catch {
    // A later sweep removes it.
  }
}

/** Renames a finished directory to its final name. False when another process has published it first. */
export async function publishDirectory(workDirectory: string, target: string): Promise<boolean> {
  await mkdir(dirname(target), { recursive: true });
  try {
    await rename(workDirectory, target);
    unlock(workDirectory);
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
