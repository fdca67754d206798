// Control groups of leased user ids. A group ends before its lease does: a process of another daemon that gets the id
// must not lose its own.
import type { Logger } from 'pino';
import { lazy } from '../../lib/lazy.ts';
import type { ProcessId } from '../../lib/proc.ts';
import type { CgroupLimits, Cgroups } from './cgroups.ts';
import {
  LEASES_DIR,
  type Release,
  releaseUid,
  releaseUidOf,
  UidLeases,
  type UidRange,
} from './uid-leases.ts';

type Log = Pick<Logger, 'warn'>;
type Groups = Pick<Cgroups, 'make' | 'remove'>;

export function vmmGroupOf(uid: number): string {
  return `vmm-${uid}`;
}

export function helperGroupOf(uid: number): string {
  return `helper-${uid}`;
}

/** Leases user ids for helpers. Leases and control groups are opened at the first request for one. */
export function leaseUsers(
  range: UidRange,
  dir = LEASES_DIR,
  /** Absent: there are none. */
  cgroups?: { open(): Promise<Groups>; readonly log: Log },
) {
  const groups = lazy(async () => cgroups?.open());
  const release: Release = async (uid) =>
    removeGroups(uid, { remove: async (name) => (await groups())?.remove(name) }, cgroups?.log);
  const leases = lazy(() => UidLeases.open(range, dir, release));
  // Two of this process would find each other's lock.
  let last: Promise<void> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };
  return {
    take: async (): Promise<number> => (await leases()).take(),
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
