// Connections from outside that lead to a guest, as the kernel of the host tracks them.
import { readFile } from 'node:fs/promises';

const TABLE = '/proc/net/nf_conntrack';

/** Whether one is established to any of its published ports. False where this kernel does not show its table. */
export async function hasOpenConnection(guestIp: string, table = TABLE): Promise<boolean> {
  const text = await readFile(table, 'latin1').catch(() => '');
  // The second source is who answers: a connection that the guest itself opened is not meant.
  const answered = new RegExp(`src=\\S+ .* src=${guestIp.replaceAll('.', '\\.')} `);
  return text.split('\n').some((line) => line.includes(' ESTABLISHED ') && answered.test(line));
}
