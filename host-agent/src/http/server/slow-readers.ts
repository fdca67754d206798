// Clients that do not read what they asked for. Each is left alone as long as there is room: whoever waits for a
// person, or for a disk, may well read on later.
import type { Duplex } from 'node:stream';

/** All of them are looked at, so not for each client that wants to connect. */
const LOOK_MS = 100;

type Seen = { readonly sentBytes: number; readonly atMs: number };

export class SlowReaders {
  readonly #afterMs: number;
  readonly #seen = new WeakMap<Duplex, Seen>();
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  /** A client that took nothing for so long does not read. */
  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  /** One that has taken nothing since a call that was long enough ago, though there is something for it. */
  find(sockets: Iterable<Duplex>): Duplex | undefined {
    const atMs = performance.now();
    if (atMs - this.#lookedAtMs < Math.min(LOOK_MS, this.#afterMs)) return undefined;
    this.#lookedAtMs = atMs;
    let slowest: { readonly socket: Duplex; readonly atMs: number } | undefined;
    for (const socket of sockets) {
      const seen = this.#look(socket, atMs);
      if (seen !== undefined && seen.atMs < (slowest?.atMs ?? atMs)) slowest = { socket, atMs: seen.atMs };
    }
    return slowest !== undefined && atMs - slowest.atMs >= this.#afterMs ? slowest.socket : undefined;
  }

  /** Undefined for one for which there is nothing. */
  #look(socket: Duplex & { readonly bytesWritten?: number }, atMs: number): Seen | undefined {
    if (socket.writableLength === 0) {
      this.#seen.delete(socket);
      return undefined;
    }
    // What is counted as written is partly still with us.
    const sentBytes = (socket.bytesWritten ?? 0) - socket.writableLength;
    const before = this.#seen.get(socket);
    if (before?.sentBytes === sentBytes) return before;
    const seen = { sentBytes, atMs };
    this.#seen.set(socket, seen);
    return seen;
  }
}
