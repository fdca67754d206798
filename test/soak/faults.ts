// What goes wrong while a soak runs: each fault is injected, and undone, and what it may cost is checked.
import { execFile } from 'node:child_process';
import { rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ChaosLoad } from '../support/chaos.ts';
import type { Daemon } from '../support/daemon.ts';
import { listVmms } from '../support/vmms.ts';

const run = promisify(execFile);
const FULL_MS = 3000;
const LOST_MS = 4000;
const CLOCK_MS = 5000;
const HOUR_MS = 3_600_000;
const FAILED_MS = 120_000;

export type Target = {
  readonly daemon: Daemon;
  readonly load: ChaosLoad;
  /** A file of the milliseconds by which the daemon's clock is off. */
  readonly clockPath: string;
};

export type FaultName = 'vmm' | 'guest' | 'disk' | 'network' | 'clock';

/** Each resolves with what it found wrong. A kill of the daemon is the caller's. */
export const FAULTS: Readonly<Record<FaultName, (target: Target) => Promise<string[]>>> = {
  vmm: (target) =>
    withVictim(target, async (id) => {
      const vmms = (await listVmms()).filter(({ socketPath }) => socketPath.includes(`/${id}/`));
      for (const { pid } of vmms) process.kill(pid, 'SIGKILL');
      return vmms.length > 0;
    }),

  // The agent is process 1 of its guest, which cannot be killed from within.
  guest: (target) =>
    withVictim(target, async (id) => {
      const crash = 'echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger';
      await target.daemon.api.sh(id, crash).catch(() => undefined);
      return true;
    }),

  disk: async ({ daemon, load }) => {
    const { dataDir } = daemon.directories;
    const path = join(dataDir, 'faults');
    load.expected = /\b50[037]\b.*(?:space|disk|full|ENOSPC|paused|io)|No space|exhausted/i;
    load.mayLoseLog = true;
    try {
      const { bavail, bsize } = await statfs(dataDir);
      await run('fallocate', ['-l', String(Math.max(0, bavail * bsize - 4096)), path]).catch(() => undefined);
      await sleep(FULL_MS);
    } finally {
      await rm(path, { force: true });
    }
    // What was refused is answered by then.
    await sleep(FULL_MS);
    load.expected = undefined;
    return [];
  },

  network: async ({ load }) => {
    load.expected = /getent|exit|network/;
    await run('ip', ['link', 'set', 'eth0', 'down']);
    await sleep(LOST_MS);
    await run('ip', ['link', 'set', 'eth0', 'up']);
    await run('ip', ['route', 'replace', '45.33.10.1', 'dev', 'eth0', 'scope', 'link']);
    await run('ip', ['route', 'replace', 'default', 'via', '45.33.10.1', 'dev', 'eth0']);
    await sleep(LOST_MS);
    load.expected = undefined;
    return [];
  },

  clock: async ({ clockPath }) => {
    for (const offsetMs of [HOUR_MS, -HOUR_MS, 0]) {
      await writeFile(clockPath, String(offsetMs));
      await sleep(CLOCK_MS);
    }
    return [];
  },
};

/** A sandbox ends; the daemon has to notice, and a delete has to work. */
async function withVictim(
  { daemon: { api }, load }: Target,
  end: (id: string) => Promise<boolean>,
): Promise<string[]> {
  const id = load.take();
  if (id === undefined) return [];
  const readState = async () => (await api.ask('getSandbox', { params: { id } })).state;
  // One that is resuming has no VMM yet.
  if (!(await end(id))) return [`${id} had no VMM`];
  const endAt = performance.now() + FAILED_MS;
  let state = await readState();
  for (; state !== 'failed' && performance.now() < endAt; state = await readState()) await sleep(100);
  await api.delete(id);
  load.gone.add(id);
  return state === 'failed' ? [] : [`${id} is ${state} after its end`];
}
