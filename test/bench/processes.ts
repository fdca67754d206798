// Processes of a sandbox and their memory.
import { readdir, readFile } from 'node:fs/promises';

/** Processes whose arguments contain `text`. */
export async function processesOf(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (args.includes(text)) found.push(Number(pid));
  }
  return found;
}

export type Memory = { readonly rssMib: number; readonly pssMib: number; readonly anonymousMib: number };

export function parseSmaps(text: string): Memory {
  const mib = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
  return { rssMib: mib('Rss'), pssMib: mib('Pss'), anonymousMib: mib('Anonymous') };
}

export async function smaps(pid: number): Promise<Memory> {
  return parseSmaps(await readFile(`/proc/${pid}/smaps_rollup`, 'utf8'));
}

/** Linux counts in ticks of this length. */
const TICK_MS = 10;

/** CPU time of a process and of the children that it waited for, ms. */
export async function cpuWithChildrenMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // From the state, the third field; its name may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
}

/** CPU time of processes, ms: the measure that other load on the machine affects least. */
export async function cpuMs(pids: readonly number[]): Promise<number> {
  let ns = 0;
  for (const pid of pids)
    for (const task of await readdir(`/proc/${pid}/task`))
      ns += Number((await readFile(`/proc/${pid}/task/${task}/schedstat`, 'utf8')).split(' ')[0]);
  return ns / 1e6;
}
