// Network links in the daemon's own network namespace.
import { readFile } from 'node:fs/promises';

/** Reads /proc/net/dev: a /sys mount may show the links of another network namespace. */
export async function listLinks(): Promise<string[]> {
  const lines = (await readFile('/proc/net/dev', 'latin1')).split('\n');
  return lines.flatMap((line) => /^\s*([^\s:]+):/.exec(line)?.[1] ?? []);
}
