// Resource usage of a process, as the kernel counts it. Reads a few small files of /proc synchronously: about 50 µs.
import { readFileSync } from 'node:fs';

/** USER_HZ is 100 on every supported Linux. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export type ProcessUsage = {
  /** CPU time of all threads. */
  readonly cpuMs: number;
  /** Resident memory, shared pages included. */
  readonly residentBytes: number;
  /** Private anonymous part of the resident memory. */
  readonly privateBytes: number;
  /** Bytes read from storage; page cache hits are not counted. */
  readonly readBytes: number;
  readonly writtenBytes: number;
};

/** Usage of exactly this process; undefined if it has exited. */
export function readProcessUsage(
  { pid, startTicks }: { readonly pid: number; readonly startTicks: number },
  procDir = '/proc',
): ProcessUsage | undefined {
  const dir = `${procDir}/${pid}`;
  try {
    const stat = readFileSync(`${dir}/stat`, 'latin1');
    // The second field is the name in parentheses and may contain any character.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (Number(fields[19]) !== startTicks) return undefined;
    const [, resident = 0, shared = 0] = readFileSync(`${dir}/statm`, 'latin1').split(' ').map(Number);
    const io = readFileSync(`${dir}/io`, 'latin1');
    return {
      cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
      residentBytes: resident * PAGE_BYTES,
      privateBytes: Math.max(0, resident - shared) * PAGE_BYTES,
      readBytes: readField(io, 'read_bytes'),
      writtenBytes: readField(io, 'write_bytes'),
    };
  } catch {
    return undefined;
  }
}

export type LinkUsage = {
  readonly receivedBytes: number;
  readonly receivedPackets: number;
  readonly sentBytes: number;
  readonly sentPackets: number;
};

/**
 * Counters of a link in the process's network namespace, from the host's side; undefined if the link does not exist.
 */
export function readLinkUsage(pid: number, link: string, procDir = '/proc'): LinkUsage | undefined {
  try {
    const lines = readFileSync(`${procDir}/${pid}/net/dev`, 'latin1').split('\n');
    const line = lines.find((each) => each.trimStart().startsWith(`${link}:`));
    if (line === undefined) return undefined;
    const numbers = line
      .slice(line.indexOf(':') + 1)
      .trim()
      .split(/\s+/)
      .map(Number);
    const [receivedBytes = 0, receivedPackets = 0, , , , , , , sentBytes = 0, sentPackets = 0] = numbers;
    return { receivedBytes, receivedPackets, sentBytes, sentPackets };
  } catch {
    return undefined;
  }
}

function readField(text: string, name: string): number {
  return Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(text)?.[1] ?? 0);
}
