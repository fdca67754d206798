// Facts about processes from /proc, safe against reuse of process ids.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** A process of this boot of the host, and no other that has its number later. */
export type ProcessId = { readonly pid: number; readonly startTicks: number };

/**
 * Start time in clock ticks since boot (field 22 of stat), or undefined when there is no such process, or a zombie. One
 * whose first thread ended is no zombie yet: the others still hold its memory, files and sockets.
 */
export function readStartTicks(pid: number): number | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // The second field is the name in parentheses and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const isEnded = fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1);
  return isEnded ? undefined : Number(fields[19]);
}

/** Its arguments; empty for kernel threads, zombies and processes that are gone. */
export function readArguments(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}

export function listPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Its real, effective, saved and file system user; undefined when it is gone. */
export function readUids(pid: number): readonly number[] | undefined {
  try {
    const line = /^Uid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return line?.split(/\s+/).map(Number);
  } catch {
    return undefined;
  }
}

/** Everybody whom a process of this host is, in some way. */
export function listUsers(): Set<number> {
  return new Set(listPids().flatMap((pid) => readUids(pid) ?? []));
}

/** Processes that are that user in every way, and not only within a user namespace of somebody's. */
export function listPidsOfUser(uid: number): number[] {
  const own = readNamespace('self');
  return listPids().filter(
    (pid) => readUids(pid)?.every((each) => each === uid) === true && readNamespace(pid) === own,
  );
}

/** Undefined when it is gone, or is not ours to look at. */
function readNamespace(pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/user`);
  } catch {
    return undefined;
  }
}

/** Different after every boot of the host: process ids of another boot mean nothing. */
export function readBootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
}

/** Whether exactly this process still runs. */
export function isRunning(process: ProcessId): boolean {
  return readStartTicks(process.pid) === process.startTicks;
}

/** Signals exactly this process; false when it is gone. */
export function signalProcess(target: ProcessId, signal: NodeJS.Signals): boolean {
  if (!isRunning(target)) return false;
  try {
    process.kill(target.pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Our descriptors, standard ones apart, that every process we start gets: those without close-on-exec. */
export function listInheritable(): number[] {
  const CLOSE_ON_EXEC = 0o2000000;
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => {
      if (fd <= 2) return false;
      try {
        const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
        return (Number.parseInt(flags ?? '0', 8) & CLOSE_ON_EXEC) === 0;
      } catch {
        // The one of the directory itself.
        return false;
      }
    });
}
