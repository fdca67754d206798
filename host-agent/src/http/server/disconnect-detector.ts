// Detects disconnects of half-closed connections. A client may close its sending side after the request and still wait
// for the response. On the wire, a client that has exited looks the same. For clients on this host, the TCP tables of
// the kernel show the difference. Other clients are probed.
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** Most connections close within this time and need no check. */
const FIRST_TICK_MS = 50;
/** Interval of checks. It grows with the time to read the tables, which are long on a host with many connections. */
const TICK_MS = { min: 200, max: 1000, perReadMs: 20 } as const;
/** The tables may miss a line while they change, so a client counts as remote only after this many misses. */
const MIN_UNSEEN = 4;
/** Maximum number of ticks between two probes. */
const MAX_TICKS_BETWEEN = 50;

export class DisconnectDetector {
  readonly #watched = new Map<Socket, { unseen: number; unlisted: number; probe: () => void }>();
  readonly #readPeers: () => Promise<PeerLookup>;
  #timer: NodeJS.Timeout | undefined;

  constructor(lookUpPeers: () => Promise<PeerLookup> = readPeers) {
    this.#readPeers = lookUpPeers;
  }

  /** `probe` sends a keepalive. The host of an exited client answers it with a reset. */
  watch(socket: Socket, probe: () => void): void {
    this.#watched.set(socket, { unseen: 0, unlisted: 0, probe });
    socket.once('close', () => this.#watched.delete(socket));
    this.#schedule(FIRST_TICK_MS);
  }

  #schedule(delayMs: number): void {
    this.#timer ??= setTimeout(() => void this.#tick(), delayMs);
  }

  async #tick(): Promise<void> {
    const startedAtMs = performance.now();
    const isOpen = this.#watched.size > 0 ? await this.#readPeers() : undefined;
    const tookMs = performance.now() - startedAtMs;
    this.#timer = undefined;
    if (isOpen === undefined) return;
    for (const [socket, watched] of this.#watched) {
      const answer = isOpen(socket);
      watched.unseen = typeof answer === 'boolean' ? 0 : watched.unseen + 1;
      watched.unlisted = answer === 'unlisted' ? watched.unlisted + 1 : 0;
      if (answer === false || watched.unlisted >= MIN_UNSEEN) socket.destroy();
      else if (isDue(watched.unseen)) watched.probe();
    }
    const delayMs = Math.min(TICK_MS.max, Math.max(TICK_MS.min, tookMs * TICK_MS.perReadMs));
    if (this.#watched.size > 0) this.#schedule(delayMs);
  }
}

/** At the 4th, 8th, 16th, … miss, and at every 50th, which is every 10 s or more. */
function isDue(unseen: number): boolean {
  const isPowerOfTwo = (unseen & (unseen - 1)) === 0;
  return unseen >= MIN_UNSEEN && (isPowerOfTwo || unseen % MAX_TICKS_BETWEEN === 0);
}

/**
 * Whether the client still has the connection open. Undefined for a client on another host; `unlisted` if the kernel
 * does not list the daemon's own end either, which was reset then: nothing else reports that while nothing is written.
 */
export type PeerLookup = (socket: Socket) => boolean | 'unlisted' | undefined;

/** Reads the current TCP tables of the kernel. They show both ends of a connection within this host. */
export async function readPeers(): Promise<PeerLookup> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'latin1').catch(() => '')),
  );
  const isOpenByPeer = new Map<string, boolean>();
  for (const line of tables.flatMap((table) => table.split('\n').slice(1))) {
    const fields = line.trim().split(/ +/);
    const [, local, remote] = fields;
    // A socket without an inode belongs to no process any more.
    if (local !== undefined && remote !== undefined)
      isOpenByPeer.set(`${local} ${remote}`, fields[9] !== '0');
  }
  return ({ remoteAddress, remotePort, localAddress, localPort }) => {
    const remotes = toTableForms(remoteAddress, remotePort);
    const locals = toTableForms(localAddress, localPort);
    for (const [at, remote] of remotes.entries()) {
      const isOpen = isOpenByPeer.get(`${remote} ${locals[at]}`);
      if (isOpen !== undefined) return isOpen;
    }
    const isListed = remotes.some((remote, at) => isOpenByPeer.has(`${locals[at]} ${remote}`));
    return isListed || remotes.length === 0 || isOpenByPeer.size === 0 ? undefined : 'unlisted';
  };
}

/** An address in the syntax of both tables. Empty for addresses other than IPv4 and `::1`. */
function toTableForms(address = '', port = 0): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  if (address === '::1') return [`00000000000000000000000001000000${suffix}`];
  const bytes = address
    .replace(/^::ffff:/i, '')
    .split('.')
    .map(Number);
  if (bytes.length !== 4) return [];
  // 32-bit words in little-endian byte order.
  const word = Buffer.from(bytes.reverse()).toString('hex').toUpperCase();
  return [`${word}${suffix}`, `0000000000000000FFFF0000${word}${suffix}`];
}
