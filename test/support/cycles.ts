// Repeated create, exec and delete, and the resources that remain in the daemon.
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from './daemon.ts';

/** Delay before descriptors and memory are measured, so that deleted objects are closed and collected. */
const SETTLE_MS = 6000;

type DaemonLevels = { readonly descriptors: number; readonly anonymousMib: number };

export async function runCycles({ api }: Daemon, count: number, concurrent = 3): Promise<void> {
  let started = 0;
  const work = async (): Promise<void> => {
    while (started < count) {
      const text = `cycle ${started++}`;
      const { id } = await api.create({ memory_mib: 128 });
      const said = await api.sh(id, `echo ${text}`);
      if (said !== text) throw new Error(`${id} said ${said}, not ${text}`);
      await api.delete(id);
      if (started % 100 === 0) process.stderr.write(`${started} of ${count} cycles\n`);
    }
  };
  await Promise.all(Array.from({ length: concurrent }, work));
}

export async function readDaemonLevels({ pid }: Daemon): Promise<DaemonLevels> {
  await sleep(SETTLE_MS);
  const smaps = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    descriptors: (await readdir(`/proc/${pid}/fd`)).length,
    anonymousMib: Math.round(Number(/^Anonymous:\s+(\d+)/m.exec(smaps)?.[1]) / 1024),
  };
}
