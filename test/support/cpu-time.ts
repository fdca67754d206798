// What work costs this process, for tests that compare costs: elapsed time is also that of other processes.

/** CPU time of `work` in milliseconds; at least 20, as less is noise. */
export function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return Math.max(20, (user + system) / 1000);
}
