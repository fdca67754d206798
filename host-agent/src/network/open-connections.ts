// Connections from outside to a guest, from the host's conntrack table.
import { readFile } from 'node:fs/promises';

const TABLE = '/proc/net/nf_conntrack';

/**
 * Whether a connection to a published port of the guest is established. False if the kernel does not provide the table.
 */
export async function hasOpenConnection(guestIp: string, table = TABLE): Promise<boolean> {
  const text = await readFile(table, 'latin1').catch(() => '');
  // The second `src` of a conntrack entry is the peer that replies: this leaves out connections that the guest opened.
  const answered = new RegExp(`src=\\S+ .* src=${guestIp.replaceAll('.', '\\.')} `);
  return text.split('\n').some((line) => line.includes(' ESTABLISHED ') && answered.test(line));
}
