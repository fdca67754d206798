// Memory of the agent in its guest and of the daemon on the host.
import { readFile } from 'node:fs/promises';
import type { Daemon } from '../support/daemon.ts';
import type { Section } from './stats.ts';

function kib(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]);
}

function mib(valueKib: number): string {
  return `${(valueKib / 1024).toFixed(1)} MiB`;
}

function row(name: string, smaps: string): string[] {
  return [name, ...['Rss', 'Pss', 'Anonymous'].map((field) => mib(kib(smaps, field)))];
}

/** The VMM process that has the sandbox's id in its arguments. */
async function vmmPid(id: string): Promise<number> {
  const { readdir } = await import('node:fs/promises');
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (args.includes(id)) return Number(pid);
  }
  throw new Error(`no process of ${id}`);
}

export async function benchMemory(daemon: Daemon, id: string): Promise<Section> {
  const agent = await daemon.api.sh(id, 'cat /proc/1/smaps_rollup');
  const host = await readFile(`/proc/${daemon.pid}/smaps_rollup`, 'utf8');
  const vmm = await readFile(`/proc/${await vmmPid(id)}/smaps_rollup`, 'utf8');
  return {
    title: 'Memory',
    note: 'After the measurements above, one sandbox of 512 MiB alive. The agent within its guest; to reach: at most 60 MiB.',
    head: ['', 'RSS', 'PSS', 'anonymous'],
    rows: [row('guest agent', agent), row('daemon', host), row('VMM with its guest', vmm)],
  };
}
