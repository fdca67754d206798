// What a process has used so far, as the kernel counts it. A few small files of /proc, read at once: some 50 µs.
import { readFileSync } from 'node:fs';

/** Clock ticks of /proc are hundredths of a second on every Linux that there is. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export type ProcessUsage = {
  /** CPU time of all its threads. */
  readonly cpuMs: number;
  /** Memory that is present, what it shares with others included. */
  readonly residentBytes: number;
  /** Of that, its own alone, of no file and no shared memory. */
  readonly privateBytes: number;
  /** What storage was asked for on its behalf; what the page cache had is not in it. */
  readonly readBytes: number;
  readonly writtenBytes: number;
};

/** Of exactly this process; undefined when it is gone. */
export function readProcessUsage(
  { pid, startTicks }: { readonly pid: number; readonly startTicks: number },
  procDir = '/proc',
): ProcessUsage | undefined {
  const dir = `${procDir}/${pid}`;
  try {
    const stat = readFileSync(`${dir}/stat`, 'latin1');
    // The second field is the name in parentheses and may hold anything.
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

/** Of a link in the network namespace that the process is in, as the host's side counts; undefined where there is none. */
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
