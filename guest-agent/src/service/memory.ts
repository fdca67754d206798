// What running processes have in memory, as `ps` counts it.
import { kibibyteField } from '../machine/stats.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Each costs the kernel some work; a service with more processes is measured by its first ones. */
const MAX_PROCESSES = 512;

/** Sums over the processes: resident now, and the most that each ever had. */
export function readMemory(pids: readonly number[]): { liveRssBytes: number; livePeakRssBytes: number } {
  let liveRssBytes = 0;
  let livePeakRssBytes = 0;
  for (const pid of pids.slice(0, MAX_PROCESSES)) {
    const text = addon.readText(NO_DIRECTORY, `/proc/${pid}/status`);
    liveRssBytes += kibibyteField(text, 'VmRSS');
    livePeakRssBytes += kibibyteField(text, 'VmHWM');
  }
  return { liveRssBytes, livePeakRssBytes };
}
