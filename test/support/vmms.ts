// The VMM processes of a sandbox, as the host sees them.
import { readdir, readFile } from 'node:fs/promises';

/** Processes that have the sandbox's own socket directory in their arguments. */
export function vmmPids(id: string): Promise<number[]> {
  return pidsNaming(`/${id}/qmp.sock`);
}

/** Processes with this text in their arguments: let it be a path that only its test knows. */
export async function pidsNaming(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (args.includes(text)) found.push(Number(pid));
  }
  return found;
}
