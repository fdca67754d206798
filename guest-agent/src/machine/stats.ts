// Resource usage of the agent, its guest, and running processes.
import { readdirSync } from 'node:fs';
import type { StatsResult } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Reading costs the kernel time for each process; for a service with more processes, only the first ones count. */
const MAX_PROCESSES = 512;

type StatsContext = { readonly execCgroups: number; readonly streams: number };

/** Bytes of `key` in a file of "Key:   12 kB" lines; 0 when absent. */
export function kibibyteField(text: string, key: string): number {
  const match = new RegExp(`^${key}:\\s+([0-9]+) kB$`, 'm').exec(text);
  return Number(match?.[1] ?? 0) * 1024;
}

export function readStats({ execCgroups, streams }: StatsContext): StatsResult {
  const own = addon.readText(NO_DIRECTORY, '/proc/self/smaps_rollup');
  const memory = addon.readText(NO_DIRECTORY, '/proc/meminfo');
  return {
    agentRssBytes: kibibyteField(own, 'Rss'),
    agentPssBytes: kibibyteField(own, 'Pss'),
    agentAnonBytes: kibibyteField(own, 'Anonymous'),
    memoryTotalBytes: kibibyteField(memory, 'MemTotal'),
    memoryAvailableBytes: kibibyteField(memory, 'MemAvailable'),
    openFds: readdirSync('/proc/self/fd').length - 1,
    execCgroups,
    streams,
    processes: readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).length,
  };
}

/** Sums over the processes, as `ps` counts: current resident memory, and the peak of each. */
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
