// Computes a command's usage from the kernel's counters. Each number comes from the more complete source: a cgroup also
// counts running and unreaped processes, rusage also counts what a cgroup does not.
import type { ResourceUsage } from '@sandboxd/proto';
import type { CgroupUsage } from './cgroups.ts';

/** The number after `key` in a flat keyed file ("key 12"); 0 when absent. */
export function keyedNumber(text: string, key: string): number {
  const at = text.startsWith(`${key} `) ? 0 : text.indexOf(`\n${key} `) + 1;
  if (at === 0 && !text.startsWith(`${key} `)) return 0;
  return Number.parseInt(text.slice(at + key.length + 1), 10) || 0;
}

/** Sum over all devices of `key` in io.stat ("8:0 rbytes=1 wbytes=2 …"). */
export function sumIo(text: string, key: string): number {
  let sum = 0;
  for (const match of text.matchAll(new RegExp(`\\b${key}=([0-9]+)`, 'g'))) sum += Number(match[1]);
  return sum;
}

export function toResourceUsage(usage: CgroupUsage): ResourceUsage {
  const { processes } = usage;
  return {
    cpuUserUs: Math.max(keyedNumber(usage.cpuStat, 'user_usec'), processes.cpuUserUs),
    cpuSysUs: Math.max(keyedNumber(usage.cpuStat, 'system_usec'), processes.cpuSystemUs),
    peakMemoryBytes: Number.parseInt(usage.memoryPeak, 10) || 0,
    pageFaultsMajor: Math.max(keyedNumber(usage.memoryStat, 'pgmajfault'), processes.majorFaults),
    contextSwitchesInvoluntary: processes.involuntarySwitches,
    ioReadBytes: Math.max(sumIo(usage.ioStat, 'rbytes'), processes.readBytes),
    ioWriteBytes: Math.max(sumIo(usage.ioStat, 'wbytes'), processes.writtenBytes),
  };
}

/** Whether the kernel's OOM killer ended a process of this command. */
export function wasOomKilled(usage: CgroupUsage): boolean {
  return keyedNumber(usage.memoryEvents, 'oom_kill') > 0;
}
