// Processes of an earlier daemon on the same data directory that nothing accounts for: its run directory, with the
// records of processes, was emptied, or it was killed before it had written one. They are found by the leases of their
// user ids, which are elsewhere.
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import { isRunning, listPidsOfUser, type ProcessId, readStartTicks, readUids } from '../../lib/proc.ts';
import { endProcess } from '../../lib/process-record.ts';
import { LEASES_DIR, type Lease, readLease, readLeases } from './uid-leases.ts';

export type OrphansOptions = {
  /** Of this daemon, which has its data directory alone; see `leaseOwner`. */
  readonly owner: string;
  /** `record`: path of the process record of a helper; undefined: it is a VMM, or a program of the daemon. */
  readonly isKnown: (process: ProcessId, record: string | undefined) => boolean;
  readonly users: { giveBack(uid: number, holder: ProcessId): Promise<void> };
  readonly log: Pick<Logger, 'warn' | 'error'>;
  readonly dir?: string;
};

/** Ends those that are not known, and releases their user ids. What does not end is for the next start. */
export async function endOrphans(options: OrphansOptions): Promise<void> {
  const { owner, users, log, dir = LEASES_DIR } = options;
  for (const [uid, lease] of await readLeases(dir)) {
    if (lease.tag?.owner !== owner) continue;
    const { holder, tag } = lease;
    const processes = findProcesses(uid, lease, options);
    // Another daemon that has the id by now has another lease.
    if (processes.length === 0 || !isDeepStrictEqual(await readLease(uid, dir), lease)) continue;
    const about = { uid, pids: processes.map(({ pid }) => pid), ...(tag.record && { record: tag.record }) };
    try {
      await Promise.all(processes.map(endProcess));
      log.warn(about, 'ended a process of an earlier daemon that no record accounts for');
      await users.giveBack(uid, holder);
    } catch (error) {
      log.error({ ...about, reason: firstLine(error) }, 'cannot end a process of an earlier daemon');
    }
  }
}

/** The holder of a lease that was handed over; else what a daemon had started by its end. Empty if one is known. */
function findProcesses(
  uid: number,
  { holder, tag }: Lease,
  { isKnown }: Pick<OrphansOptions, 'isKnown'>,
): ProcessId[] {
  // Mostly that is all; what a daemon or a command that runs has taken is its own.
  if (tag === undefined || isKnown(holder, tag.record) || isRunning(tag.daemon)) return [];
  const isHolders = readUids(holder.pid)?.every((each) => each === uid) === true && isRunning(holder);
  if (isHolders) return [holder];
  // Its holder has ended. What has the id is of a daemon that does not see these leases.
  if (!isDeepStrictEqual(holder, tag.daemon)) return [];
  const found = listPidsOfUser(uid).flatMap((pid) => {
    const startTicks = readStartTicks(pid);
    return startTicks === undefined ? [] : [{ pid, startTicks }];
  });
  return found.some((process) => isKnown(process, tag.record)) ? [] : found;
}
