// The links of the network namespace that the daemon is in.
import { readFile } from 'node:fs/promises';

/** Of sysfs one may see another namespace's. */
export async function listLinks(): Promise<string[]> {
  const lines = (await readFile('/proc/net/dev', 'latin1')).split('\n');
  return lines.flatMap((line) => /^\s*([^\s:]+):/.exec(line)?.[1] ?? []);
}
