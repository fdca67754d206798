// Leases of user ids, one for each VMM and each port holder. No other process of the host, of any daemon, has the same
// id. A file per lease names the process that holds it. The directory is host-wide and cleared by a reboot, as
// processes are.
import { randomInt } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, errnoOf } from '../../lib/errors.ts';
import { lockDirectory } from '../../lib/instance-lock.ts';
import { lazy } from '../../lib/lazy.ts';
import { isRunning, listUsers, type ProcessId, readStartTicks } from '../../lib/proc.ts';
import type { CgroupLimits, Cgroups } from './cgroups.ts';

export const LEASES_DIR = '/run/sandboxd-uids';

export type UidRange = { readonly base: number; readonly count: number };

export class UidLeases {
  readonly #range: UidRange;
  readonly #dir: string;
  #next: number;
  /** User ids whose processes have exited. */
  readonly freed: readonly number[];

  private constructor(range: UidRange, dir: string, freed: readonly number[]) {
    this.#range = range;
    this.#dir = dir;
    this.freed = freed;
    // A random start, so that daemons that start together rarely try the same id.
    this.#next = randomInt(range.count);
  }

  /** Also removes the leases of processes that have exited. */
  static async open(range: UidRange, dir = LEASES_DIR): Promise<UidLeases> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    return new UidLeases(range, dir, await sweep(dir));
  }

  /** Leases an id to this process until it is handed over or given back. AppError exhausted. */
  async take(): Promise<number> {
    const { base, count } = this.#range;
    const text = describe({ pid: process.pid, startTicks: readStartTicks(process.pid) ?? -1 });
    for (let tries = 0; tries < count; tries++) {
      const uid = base + this.#next;
      this.#next = (this.#next + 1) % count;
      try {
        await using file = await open(join(this.#dir, String(uid)), 'wx', 0o600);
        await file.writeFile(text);
        return uid;
      } catch (error) {
        // Purging the package removes the directory if there are no leases.
        if (errnoOf(error) === 'ENOENT') await mkdir(this.#dir, { recursive: true, mode: 0o700 });
        else if (errnoOf(error) !== 'EEXIST') throw error;
      }
    }
    throw new AppError('exhausted', `all ${count} user ids for VMMs are taken; raise --jail-uid-count`);
  }

  /** From now on the lease lasts as long as that process, independent of this one. */
  async handOver(uid: number, holder: ProcessId): Promise<void> {
    const path = join(this.#dir, String(uid));
    await writeFile(`${path}.new`, describe(holder), { mode: 0o600 });
    await rename(`${path}.new`, path);
  }
}

type Groups = Pick<Cgroups, 'make' | 'remove'>;

/** Opens the leases and the control groups at the first request for one. `openGroups`: undefined: there are none. */
export function leaseUsers(range: UidRange, dir = LEASES_DIR, openGroups?: () => Promise<Groups>) {
  const leases = lazy(() => UidLeases.open(range, dir));
  const groups = lazy(async () => openGroups?.());
  return {
    take: async (): Promise<number> => (await leases()).take(),
    /** A control group for a process of that user; undefined: the host has none. */
    group: async (uid: number, limits: Pick<CgroupLimits, 'memoryMib' | 'threads'>) =>
      (await groups())?.make(helperGroupOf(uid), { ...limits, vcpus: 1, overheadMib: 0 }),
    handOver: async (uid: number, holder: ProcessId): Promise<void> => (await leases()).handOver(uid, holder),
    giveBack: async (uid: number, holder?: ProcessId): Promise<void> => {
      // Where the id may be another process's, so may the group: the next of that id replaces it.
      if (holder !== undefined) return giveBackOf(holder, uid, dir);
      await (await groups())?.remove(helperGroupOf(uid));
      return giveBackUid(uid, dir);
    },
  };
}

export function helperGroupOf(uid: number): string {
  return `helper-${uid}`;
}

export async function giveBackUid(uid: number, dir = LEASES_DIR): Promise<void> {
  await rm(join(dir, String(uid)), { force: true });
}

/** Under the lock of `sweep`, after which the id could be another process's. */
async function giveBackOf(holder: ProcessId, uid: number, dir: string): Promise<void> {
  const lease = join(dir, String(uid));
  const isHis = async () => (await readFile(lease, 'latin1').catch(() => '')) === describe(holder);
  if (!(await isHis())) return;
  await using lock = await tryLock(dir);
  if (lock !== undefined && (await isHis())) await giveBackUid(uid, dir);
}

/** Undefined: another process has it, and sweeps. */
async function tryLock(dir: string): Promise<AsyncDisposable | undefined> {
  try {
    return await lockDirectory(dir);
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict') return undefined;
    throw error;
  }
}

function describe({ pid, startTicks }: ProcessId): string {
  return `${pid} ${startTicks}\n`;
}

/** Under a lock: two concurrent sweeps could remove a lease that was created after the first one's check. */
async function sweep(dir: string): Promise<number[]> {
  await using lock = await tryLock(dir);
  if (lock === undefined) return [];
  const freed: number[] = [];
  // A daemon that was killed while it started a process has not handed over its lease, so ids in use are checked as
  // well.
  let users: ReadonlySet<number> | undefined;
  for (const name of await readdir(dir)) {
    const path = join(dir, name);
    const [pid, startTicks] = (await readFile(path, 'latin1').catch(() => '')).trim().split(' ').map(Number);
    // A lease file that is being written is still empty.
    if (pid === undefined || startTicks === undefined) continue;
    if (isRunning({ pid, startTicks })) continue;
    users ??= listUsers();
    if (users.has(Number(name))) continue;
    await rm(path, { force: true });
    freed.push(Number(name));
  }
  return freed;
}
