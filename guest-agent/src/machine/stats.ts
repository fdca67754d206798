// Resource usage of the agent and its guest.
import { readdirSync } from 'node:fs';
import type { StatsResult } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';

export type StatsContext = { readonly execCgroups: number; readonly streams: number };

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
