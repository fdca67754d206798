// Processes of an earlier daemon on the same data directory that nothing accounts for: its run directory, with the
// records of processes, was emptied, or it was killed before it had written one. They are found by the leases of their
// user ids, which are elsewhere.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import { isRunning, listPidsOfUser, type ProcessId, readStartTicks, readUids } from '../../lib/proc.ts';
import { endProcess } from '../../lib/process-record.ts';
import { LEASES_DIR, readLeases } from './uid-leases.ts';

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
  const { owner, isKnown, users, log, dir = LEASES_DIR } = options;
  for (const [uid, { holder, tag }] of await readLeases(dir)) {
    // What a daemon or a command that runs has taken is its own.
    if (tag?.owner !== owner || isRunning(tag.daemon)) continue;
    const { record } = tag;
    const processes = processesOf(uid, holder);
    const orphans = processes.filter((process) => !isKnown(process, record));
    if (orphans.length === 0) continue;
    const about = { uid, pids: orphans.map(({ pid }) => pid), ...(record !== undefined && { record }) };
    try {
      await Promise.all(orphans.map(endProcess));
      log.warn(about, 'ended a process of an earlier daemon that no record accounts for');
      if (orphans.length === processes.length) await users.giveBack(uid, holder);
    } catch (error) {
      log.error({ ...about, reason: firstLine(error) }, 'cannot end a process of an earlier daemon');
    }
  }
}

/** The holder of a lease that was handed over; else what a daemon had started by its end. */
function processesOf(uid: number, holder: ProcessId): ProcessId[] {
  const isHolders = readUids(holder.pid)?.every((each) => each === uid) === true && isRunning(holder);
  if (isHolders) return [holder];
  return listPidsOfUser(uid).flatMap((pid) => {
    const startTicks = readStartTicks(pid);
    return startTicks === undefined ? [] : [{ pid, startTicks }];
  });
}
