// The VMM processes of a sandbox, as the host sees them.
import { readdir, readFile } from 'node:fs/promises';

/** Processes that have the sandbox's own socket directory in their arguments. */
export async function vmmPids(id: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (args.includes(`/${id}/qmp.sock`)) found.push(Number(pid));
  }
  return found;
}
