// Facts about processes from /proc, safe against pid reuse.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** USER_HZ, the same on every Linux architecture that Node runs on. */
const TICKS_PER_S = 100;
const MAX_DESCRIBED_THREADS = 16;

/** Identifies a process of this boot, even if its pid is reused. */
export type ProcessId = { readonly pid: number; readonly startTicks: number };

/**
 * Start time in clock ticks since boot (field 22 of stat); undefined if the process does not exist or is a zombie. A
 * process whose first thread has exited is not a zombie yet: its other threads hold its memory, files and sockets.
 */
export function readStartTicks(pid: number): number | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // The second field is the name in parentheses and may contain any character.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const isEnded = fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1);
  return isEnded ? undefined : Number(fields[19]);
}

/** State and CPU time of each thread, such as `CPU 0/TCG: state R, 12.3 s`: whether a silent VMM computes or waits. */
export function describeThreads(pid: number): string {
  const describe = (thread: number): string => {
    try {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const cpuS = (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
      return `${stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))}: state ${fields[0]}, ${cpuS} s`;
    } catch {
      return 'gone';
    }
  };
  return listThreads(pid).slice(0, MAX_DESCRIBED_THREADS).map(describe).join('; ');
}

/** Arguments of a process; empty for kernel threads, zombies and processes that have exited. */
export function readArguments(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}

/** Thread ids of a process; empty if it has exited. */
export function listThreads(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

function listPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Real, effective, saved and file system user ids; undefined if the process has exited. */
export function readUids(pid: number): readonly number[] | undefined {
  try {
    const line = /^Uid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return line?.split(/\s+/).map(Number);
  } catch {
    return undefined;
  }
}

/** All user ids that any process of this host has. */
export function listUsers(): Set<number> {
  return new Set(listPids().flatMap((pid) => readUids(pid) ?? []));
}

/** Whether any process that has not ended has that user id. */
export function hasProcess(uid: number): boolean {
  return listPids().some((pid) => readUids(pid)?.includes(uid) && readStartTicks(pid) !== undefined);
}

/** Processes with that user id in all four fields, in the user and PID namespaces of this process. */
export function listPidsOfUser(uid: number): number[] {
  const own = readNamespaces('self');
  return listPids().filter(
    (pid) => readUids(pid)?.every((each) => each === uid) === true && readNamespaces(pid) === own,
  );
}

/** Undefined if the process has exited or may not be inspected. */
function readNamespaces(pid: number | 'self'): string | undefined {
  try {
    return ['user', 'pid'].map((kind) => readlinkSync(`/proc/${pid}/ns/${kind}`)).join();
  } catch {
    return undefined;
  }
}

/** Changes with every boot of the host: pids of an earlier boot are invalid. */
export function readBootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
}

export function isRunning(process: ProcessId): boolean {
  return readStartTicks(process.pid) === process.startTicks;
}

/** Signals exactly this process; false if it has exited. */
export function signalProcess(target: ProcessId, signal: NodeJS.Signals): boolean {
  if (!isRunning(target)) return false;
  try {
    process.kill(target.pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Descriptors other than 0 to 2 without close-on-exec, which every child inherits. */
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
        // The descriptor of the directory listing itself.
        return false;
      }
    });
}
