// Clients that have ended their side after the request. They get their answer; but a client that has gone altogether
// looks the same, so they are asked after until the connection is closed.
import type { Socket } from 'node:net';
import { type PeerLookup, readPeers } from './peer.ts';

/** Most connections that end are closed within this time, and cost nothing here. */
const FIRST_TICK_MS = 50;
/** A host with many connections has a long table, which takes long to read: then the pauses are longer, too. */
const TICK_MS = { min: 200, max: 1000, perReadMs: 20 } as const;
/** A table that changes while it is read may lack a line: only who is missing so often is no client of this host. */
const MIN_UNSEEN = 4;
/** Most ticks between two probes. */
const MAX_TICKS_BETWEEN = 50;

export class DisconnectDetector {
  readonly #watched = new Map<Socket, { unseen: number; probe: () => void }>();
  readonly #readPeers: () => Promise<PeerLookup>;
  #timer: NodeJS.Timeout | undefined;

  constructor(lookUp: () => Promise<PeerLookup> = readPeers) {
    this.#readPeers = lookUp;
  }

  /** `probe` sends something without meaning, which a client that is gone answers with a reset. */
  watch(socket: Socket, probe: () => void): void {
    this.#watched.set(socket, { unseen: 0, probe });
    socket.once('close', () => this.#watched.delete(socket));
    this.#schedule(FIRST_TICK_MS);
  }

  #schedule(delayMs: number): void {
    this.#timer ??= setTimeout(() => void this.#tick(), delayMs);
  }

  async #tick(): Promise<void> {
    const startedAtMs = performance.now();
    const isThere = this.#watched.size > 0 ? await this.#readPeers() : undefined;
    const tookMs = performance.now() - startedAtMs;
    this.#timer = undefined;
    if (isThere === undefined) return;
    for (const [socket, watched] of this.#watched) {
      const answer = isThere(socket);
      watched.unseen = answer === undefined ? watched.unseen + 1 : 0;
      if (answer === false) socket.destroy();
      else if (isDue(watched.unseen)) watched.probe();
    }
    const delayMs = Math.min(TICK_MS.max, Math.max(TICK_MS.min, tookMs * TICK_MS.perReadMs));
    if (this.#watched.size > 0) this.#schedule(delayMs);
  }
}

/** At the 4th time, the 8th, the 16th and so on, and from then on every 10 s or more. */
function isDue(unseen: number): boolean {
  const isPowerOfTwo = (unseen & (unseen - 1)) === 0;
  return unseen >= MIN_UNSEEN && (isPowerOfTwo || unseen % MAX_TICKS_BETWEEN === 0);
}
