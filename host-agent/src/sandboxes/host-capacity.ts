// Memory and disk of the host for sandboxes. A limit on the daemon's own cgroup counts as the host's: VMMs are in
// that cgroup, and beyond the limit the kernel's OOM killer ends one.
import { readFile, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export type HostCapacity = {
  readonly memoryTotalBytes: number;
  readonly memoryAvailableBytes: number;
  readonly diskFreeBytes: number;
};

type Memory = { readonly totalBytes: number; readonly availableBytes: number };

/** `procDir` and `cgroupDir`: mount points of those file systems. */
export async function readHostCapacity(
  dataDir: string,
  procDir = '/proc',
  cgroupDir = '/sys/fs/cgroup',
): Promise<HostCapacity> {
  const [{ bavail, bsize }, host, groups] = await Promise.all([
    statfs(dataDir),
    readHostMemory(procDir),
    readGroupLimits(procDir, cgroupDir),
  ]);
  return {
    memoryTotalBytes: Math.min(host.totalBytes, ...groups.map(({ totalBytes }) => totalBytes)),
    memoryAvailableBytes: Math.min(
      host.availableBytes,
      ...groups.map(({ availableBytes }) => Math.max(0, availableBytes)),
    ),
    diskFreeBytes: bavail * bsize,
  };
}

async function readHostMemory(procDir: string): Promise<Memory> {
  const text = await readFile(join(procDir, 'meminfo'), 'latin1');
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
  return { totalBytes: field('MemTotal'), availableBytes: field('MemAvailable') };
}

/** Limits of this process's cgroup and of its ancestors that have one (cgroups v2). */
async function readGroupLimits(procDir: string, cgroupDir: string): Promise<Memory[]> {
  const path = /^0::(\/.*)$/m.exec(await readOptional(join(procDir, 'self/cgroup')))?.[1];
  const found: Memory[] = [];
  for (let at = path; at !== undefined; at = at === '/' ? undefined : dirname(at)) {
    const dir = join(cgroupDir, at);
    const limit = (await readOptional(join(dir, 'memory.max'))).trim();
    if (!/^\d+$/.test(limit)) continue;
    const [current, stat] = await Promise.all(
      ['memory.current', 'memory.stat'].map((name) => readOptional(join(dir, name))),
    );
    // The kernel reclaims inactive file pages before it kills a process.
    const reclaimable = Number(/^inactive_file (\d+)$/m.exec(stat ?? '')?.[1] ?? 0);
    const totalBytes = Number(limit);
    found.push({ totalBytes, availableBytes: totalBytes - Number(current) + reclaimable });
  }
  return found;
}

function readOptional(path: string): Promise<string> {
  return readFile(path, 'latin1').catch(() => '');
}
