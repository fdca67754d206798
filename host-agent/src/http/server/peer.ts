// Whether the other end of a connection still has it open. An end that comes over the wire says only that nothing more
// is sent; for a client of this host the kernel's table tells the rest.
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** Undefined for a client that this host knows nothing of. */
export type PeerLookup = (socket: Socket) => boolean | undefined;

/** What the kernel knows at this moment. */
export async function readPeers(): Promise<PeerLookup> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'latin1').catch(() => '')),
  );
  const isOpenByPeer = new Map<string, boolean>();
  for (const line of tables.flatMap((table) => table.split('\n').slice(1))) {
    const fields = line.trim().split(/ +/);
    const [, local, remote] = fields;
    // Without an inode it belongs to no process any more.
    if (local !== undefined && remote !== undefined)
      isOpenByPeer.set(`${local} ${remote}`, fields[9] !== '0');
  }
  return ({ remoteAddress, remotePort, localAddress, localPort }) => {
    const theirs = toTableForms(remoteAddress, remotePort);
    const ours = toTableForms(localAddress, localPort);
    for (const [at, their] of theirs.entries()) {
      const isOpen = isOpenByPeer.get(`${their} ${ours[at]}`);
      if (isOpen !== undefined) return isOpen;
    }
    return undefined;
  };
}

/** As the table for IPv4 and the one for IPv6 write it; none for other addresses than IPv4 and `::1`. */
function toTableForms(address = '', port = 0): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  if (address === '::1') return [`00000000000000000000000001000000${suffix}`];
  const bytes = address
    .replace(/^::ffff:/i, '')
    .split('.')
    .map(Number);
  if (bytes.length !== 4) return [];
  // Words of 32 bits, as they lie in the memory of a little-endian host.
  const word = Buffer.from(bytes.reverse()).toString('hex').toUpperCase();
  return [`${word}${suffix}`, `0000000000000000FFFF0000${word}${suffix}`];
}
