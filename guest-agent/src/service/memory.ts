// Memory of running processes, as `ps` counts it.
import { kibibyteField } from '../machine/stats.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Reading costs the kernel time for each process; for a service with more processes, only the first ones count. */
const MAX_PROCESSES = 512;

/** Sums over the processes: current resident memory, and the peak of each. */
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
