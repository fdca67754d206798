// Leases of user ids, one for each VMM and each port holder. No other process of the host, of any daemon, has the same
// id. A file per lease names the process that holds it, and whose it is. The directory is host-wide and cleared by a
// reboot, as processes are.
import { randomInt } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { AppError, errnoOf } from '../../lib/errors.ts';
import { lockDirectory } from '../../lib/instance-lock.ts';
import { lazy } from '../../lib/lazy.ts';
import {
  hasProcess,
  isRunning,
  listPidsOfUser,
  listUsers,
  type ProcessId,
  readStartTicks,
} from '../../lib/proc.ts';
import type { CgroupLimits, Cgroups } from './cgroups.ts';

export const LEASES_DIR = '/run/sandboxd-uids';

/** While another daemon looks for ids that are free. */
const LOCK_TRIES = 20;
const LOCK_RETRY_MS = 100;
/** A lease is written at once. One that is not after this time is of a daemon that was killed meanwhile. */
const WRITTEN_MS = 60_000;

export type UidRange = { readonly base: number; readonly count: number };

/** Removes what a user id without processes still has. False: it could not; it does not reject. */
type Release = (uid: number) => Promise<boolean>;

/** Whose a lease is, for a later daemon; JSON-safe. */
export type LeaseTag = {
  /** See `leaseOwner`. */
  readonly owner: string;
  /** That took it. */
  readonly daemon: ProcessId;
  /** Path of the process record of the helper that has it; absent: a VMM, or a program of the daemon. */
  readonly record?: string;
};

export type Lease = {
  readonly holder: ProcessId;
  /** Absent in those of earlier versions. */
  readonly tag?: LeaseTag;
};

/** Tells daemons apart: one at a time has a data directory. */
export async function leaseOwner(dataDir: string): Promise<string> {
  const { dev, ino } = await stat(dataDir, { bigint: true });
  return `${dev}:${ino}`;
}

export class UidLeases {
  readonly #range: UidRange;
  readonly #owner: string;
  readonly #dir: string;
  #next: number;
  /** User ids whose processes have exited. */
  readonly freed: readonly number[];

  private constructor(range: UidRange, owner: string, dir: string, freed: readonly number[]) {
    this.#range = range;
    this.#owner = owner;
    this.#dir = dir;
    this.freed = freed;
    // A random start, so that daemons that start together rarely try the same id.
    this.#next = randomInt(range.count);
  }

  /**
   * Removes leases of processes that have exited, too. `owner`: see `leaseOwner`. `release`: of what an id has besides,
   * before its lease ends.
   */
  static async open(range: UidRange, owner: string, dir = LEASES_DIR, release?: Release): Promise<UidLeases> {
    await ensureLeases(range, dir);
    return new UidLeases(range, owner, dir, await sweep(dir, release));
  }

  /**
   * Leases an id to this process until it is handed over or given back. `record`: path of the process record of a
   * helper that gets it. AppError exhausted.
   */
  async take(record?: string): Promise<number> {
    const { base, count } = this.#range;
    for (let tries = 0; tries < count; tries++) {
      const uid = base + this.#next;
      this.#next = (this.#next + 1) % count;
      if (await this.#lease(uid, record)) return uid;
    }
    throw new AppError('exhausted', `all ${count} user ids for VMMs are taken; raise --jail-uid-count`);
  }

  /** Runs `work` if the id is free; meanwhile no daemon can take it. */
  async whileFree(uid: number, work: () => Promise<void>): Promise<void> {
    if (!(await this.#lease(uid))) return;
    try {
      await work();
    } finally {
      await giveBackUid(uid, this.#dir);
    }
  }

  /** False: it has a lease. */
  async #lease(uid: number, record?: string): Promise<boolean> {
    const daemon = { pid: process.pid, startTicks: readStartTicks(process.pid) ?? -1 };
    const tag = { owner: this.#owner, daemon, ...(record !== undefined && { record }) };
    try {
      await using file = await open(join(this.#dir, String(uid)), 'wx', 0o600);
      try {
        await file.writeFile(toText({ holder: daemon, tag }));
      } catch (error) {
        await giveBackUid(uid, this.#dir);
        throw error;
      }
      return true;
    } catch (error) {
      // Purging the package removes the directory if there are no leases.
      if (errnoOf(error) === 'ENOENT') await ensureLeases(this.#range, this.#dir);
      else if (errnoOf(error) !== 'EEXIST') throw error;
      return false;
    }
  }

  /** From now on the lease lasts as long as that process, independent of this one. */
  async handOver(uid: number, holder: ProcessId): Promise<void> {
    const path = join(this.#dir, String(uid));
    const lease = { ...(await readLease(uid, this.#dir)), holder };
    await writeFile(`${path}.new`, toText(lease), { mode: 0o600 });
    await rename(`${path}.new`, path);
  }
}

/** Makes the directory. If it was removed, processes that had leases get new ones: their ids are not free. */
async function ensureLeases({ base, count }: UidRange, dir: string): Promise<void> {
  if ((await mkdir(dir, { recursive: true, mode: 0o700 })) === undefined) return;
  for (const uid of listUsers()) {
    if (uid < base || uid >= base + count) continue;
    for (const pid of listPidsOfUser(uid)) {
      const startTicks = readStartTicks(pid);
      if (startTicks === undefined) continue;
      const text = toText({ holder: { pid, startTicks } });
      await writeFile(join(dir, String(uid)), text, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
        if (errnoOf(error) !== 'EEXIST') throw error;
      });
    }
  }
}

export async function giveBackUid(uid: number, dir = LEASES_DIR): Promise<void> {
  await rm(join(dir, String(uid)), { force: true });
}

/** After `release`, unless that left a process of the id. */
async function releaseUid(uid: number, dir: string, release: Release): Promise<void> {
  if ((await release(uid)) || !hasProcess(uid)) await giveBackUid(uid, dir);
}

/**
 * For a holder that has exited: releases the id if the lease is still the holder's. Under the lock of `sweep`, after
 * which the id could be another process's.
 */
async function releaseUidOf(holder: ProcessId, uid: number, dir: string, release: Release): Promise<void> {
  const isHis = async () => {
    const { pid, startTicks } = (await readLease(uid, dir))?.holder ?? {};
    return pid === holder.pid && startTicks === holder.startTicks;
  };
  for (let tries = 0; tries < LOCK_TRIES && (await isHis()); tries++) {
    await using lock = await tryLock(dir);
    if (lock !== undefined && (await isHis())) return releaseUid(uid, dir, release);
    await sleep(LOCK_RETRY_MS);
  }
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

/** Of one line; earlier versions read its two numbers alone. */
function toText({ holder: { pid, startTicks }, tag }: Lease): string {
  return `${pid} ${startTicks}${tag === undefined ? '' : ` ${JSON.stringify(tag)}`}\n`;
}

/** Undefined: there is none, or it is being written. */
export async function readLease(uid: number | string, dir = LEASES_DIR): Promise<Lease | undefined> {
  return parseLease((await readText(join(dir, String(uid)))) ?? '');
}

/** Undefined: it cannot be read, or does not exist. */
async function readText(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}

function parseLease(text: string): Lease | undefined {
  const [, pid, startTicks, tag] = /^(\d+) (-?\d+)(?: (\{.*\}))?\n/.exec(text) ?? [];
  if (pid === undefined || startTicks === undefined) return undefined;
  const holder = { pid: Number(pid), startTicks: Number(startTicks) };
  try {
    return { holder, ...(tag !== undefined && { tag: JSON.parse(tag) as LeaseTag }) };
  } catch {
    return { holder };
  }
}

/** By user id; those that are being written are missing. */
export async function readLeases(dir = LEASES_DIR): Promise<Map<number, Lease>> {
  const leases = new Map<number, Lease>();
  for (const name of await readdir(dir).catch(() => [])) {
    const lease = /^\d{1,10}$/.test(name) ? await readLease(name, dir) : undefined;
    if (lease !== undefined) leases.set(Number(name), lease);
  }
  return leases;
}

/** Under a lock: two concurrent sweeps could remove a lease that was created after the first one's check. */
async function sweep(dir: string, release?: Release): Promise<number[]> {
  await using lock = await tryLock(dir);
  if (lock === undefined) return [];
  const freed: number[] = [];
  // A daemon that was killed while it started a process has not handed over its lease, so ids in use are checked as
  // well.
  let users: ReadonlySet<number> | undefined;
  for (const name of await readdir(dir)) {
    if (!/^\d{1,10}$/.test(name)) continue;
    const path = join(dir, name);
    const text = await readText(path);
    // Whose it is may be found later, as when this process has no descriptor left.
    if (text === undefined) continue;
    const lease = parseLease(text);
    // A lease file that is being written is still empty.
    if (lease === undefined && !(await isAbandoned(path))) continue;
    if (lease !== undefined && isRunning(lease.holder)) continue;
    users ??= listUsers();
    if (users.has(Number(name))) continue;
    await release?.(Number(name));
    await rm(path, { force: true });
    freed.push(Number(name));
  }
  return freed;
}

/** A file that is older than it takes to write it. */
async function isAbandoned(path: string): Promise<boolean> {
  const file = await stat(path).catch(() => undefined);
  return file?.isFile() === true && Date.now() - file.mtimeMs > WRITTEN_MS;
}

// Control groups of leased user ids. A group ends before its lease does: a process of another daemon that gets the id
// must not lose its own.

type Log = Pick<Logger, 'warn'>;
type Groups = Pick<Cgroups, 'make' | 'remove'>;

export function vmmGroupOf(uid: number): string {
  return `vmm-${uid}`;
}

function helperGroupOf(uid: number): string {
  return `helper-${uid}`;
}

/** Leases user ids for helpers. Leases and control groups are opened at the first request for one. */
export function leaseUsers(
  range: UidRange,
  /** See `leaseOwner`. */
  owner: string,
  dir = LEASES_DIR,
  /** Absent: there are none. */
  cgroups?: { open(): Promise<Groups>; readonly log: Log },
) {
  const groups = lazy(async () => cgroups?.open());
  const release: Release = async (uid) =>
    removeGroups(uid, { remove: async (name) => (await groups())?.remove(name) }, cgroups?.log);
  const leases = lazy(() => UidLeases.open(range, owner, dir, release));
  // Two of this process would find each other's lock.
  let last: Promise<void> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };
  return {
    take: async (record?: string): Promise<number> => (await leases()).take(record),
    /** A control group for a process of that user; undefined: the host has none. */
    group: async (uid: number, limits: Pick<CgroupLimits, 'memoryMib' | 'threads'>) =>
      (await groups())?.make(helperGroupOf(uid), { ...limits, vcpus: 1, overheadMib: 0 }),
    handOver: async (uid: number, holder: ProcessId): Promise<void> => (await leases()).handOver(uid, holder),
    giveBack: async (uid: number, holder?: ProcessId): Promise<void> => {
      if (holder === undefined) return releaseUid(uid, dir, release);
      return inTurn(() => releaseUidOf(holder, uid, dir, release));
    },
  };
}

/** Those of a VMM and of a helper. False: not all could be. */
export async function removeGroups(
  uid: number,
  cgroups: Pick<Cgroups, 'remove'>,
  log: Log | undefined,
): Promise<boolean> {
  let isDone = true;
  for (const group of [vmmGroupOf(uid), helperGroupOf(uid)])
    await cgroups.remove(group).catch((error: unknown) => {
      isDone = false;
      log?.warn({ err: error, group }, 'a control group of a process that has ended was not removed');
    });
  return isDone;
}

/** Removes groups whose user id has no lease, as an earlier daemon may have left them. */
export async function sweepGroups(
  cgroups: Pick<Cgroups, 'list' | 'removeEmpty'>,
  leases: Pick<UidLeases, 'whileFree'>,
  log: Log | undefined,
): Promise<void> {
  for (const group of await cgroups.list()) {
    const uid = /^(?:vmm|helper)-(\d{1,10})$/.exec(group)?.[1];
    if (uid === undefined) continue;
    // One with a process may be of a daemon whose leases this one does not see.
    const remove = () =>
      cgroups.removeEmpty(group).catch((error: unknown) => {
        log?.warn({ err: error, group }, 'a control group without a lease was not removed');
      });
    await leases.whileFree(Number(uid), remove);
  }
}
