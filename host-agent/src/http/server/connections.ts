// Limits the number of connections, in total and of one client (noisy neighbour). Descriptors are limited, and VMMs and
// registry downloads need theirs whatever clients do.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { refuse } from './responses.ts';

const RETRY_AFTER_S = 5;
/** Maximum number of concurrent refusals with a response. Further connections are closed without one. */
const MAX_REFUSED = 32;

/** The name of a client that has not been identified. */
const UNIDENTIFIED = '';

export class Connections {
  readonly #max: number;
  readonly #maxPerClient: number;
  /** Connections without an open request, least recently used first. */
  readonly #idle = new Set<Duplex>();
  /** Number of open requests by connection. */
  readonly #busy = new Map<Duplex, number>();
  readonly #slowReaders: SlowReaders;
  /** The client of each identified connection. */
  readonly #names = new WeakMap<Duplex, string>();
  #hasNames = false;
  #refused = 0;

  /** A client that reads nothing of its response for `slowReaderMs` may lose its connection to a new one. */
  constructor(max: number, maxPerClient: number, slowReaderMs: number) {
    this.#max = max;
    this.#maxPerClient = Math.min(max, maxPerClient);
    this.#slowReaders = new SlowReaders(slowReaderMs);
  }

  get count(): number {
    return this.#idle.size + this.#busy.size;
  }

  /** Whether one client could exceed its share if it owned all connections and `more` new ones. */
  mayExceedShare(more: number): boolean {
    return this.count + more >= this.#maxPerClient;
  }

  unidentified(): Socket[] {
    return [...this.#idle, ...this.#busy.keys()].filter(
      (socket) => socket instanceof Socket && !this.#names.has(socket),
    ) as Socket[];
  }

  /** Sets the client of a connection, before or after `add`. */
  name(socket: Socket, name: string): void {
    this.#names.set(socket, name);
    this.#hasNames = true;
  }

  /**
   * Adds a connection. At the limit it evicts the least recently used idle connection of the client with the most
   * connections, else the slowest reader. A client at its share evicts only its own connections. If none can be
   * evicted, refuses the new connection with status 503 and returns false.
   */
  add(socket: Duplex): boolean {
    // The next owner may add its listener late, and an unhandled error event would end the daemon.
    socket.on('error', () => undefined);
    const name = this.#nameOf(socket);
    const counts = this.#count();
    const hasShare = name !== UNIDENTIFIED && (counts.get(name) ?? 0) >= this.#maxPerClient;
    if (hasShare || this.count >= this.#max) {
      const client = hasShare ? name : undefined;
      const victim = this.#findIdle(counts, client) ?? this.#findSlowReader(client);
      if (victim === undefined) {
        this.#refuse(
          socket,
          hasShare
            ? `this client has ${this.#maxPerClient} connections, which is all that one client may have; close ` +
                'some, or try again later'
            : `${this.#max} clients are connected, which is all that this daemon takes; try again later`,
        );
        return false;
      }
      this.#idle.delete(victim);
      this.#busy.delete(victim);
      victim.destroy();
    }
    this.#idle.add(socket);
    socket.once('close', () => {
      this.#idle.delete(socket);
      this.#busy.delete(socket);
    });
    return true;
  }

  /** Marks a hijacked connection as busy until it closes. */
  hijacked(socket: Duplex): void {
    this.#idle.delete(socket);
    this.#busy.set(socket, (this.#busy.get(socket) ?? 0) + 1);
  }

  /** For a connection whose streams wait for its client, which its socket does not show. */
  measureBy(socket: Duplex, measure: () => Pending): void {
    this.#slowReaders.measureBy(socket, measure);
  }

  /** Marks a connection as busy until the returned function is called, for example by a stream of HTTP/2. */
  occupy(socket: Duplex): () => void {
    if (socket.destroyed) return () => undefined;
    this.#idle.delete(socket);
    this.#busy.set(socket, (this.#busy.get(socket) ?? 0) + 1);
    return () => this.#completed(socket);
  }

  /** Counts a request. Closes the connection and returns false if it has too many open requests. */
  track({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const requests = (this.#busy.get(socket) ?? 0) + 1;
    if (socket.destroyed) return false;
    if (requests > MAX_PIPELINED_REQUESTS) {
      socket.destroy();
      return false;
    }
    this.#idle.delete(socket);
    this.#busy.set(socket, requests);
    response.once('close', () => this.#completed(socket));
    return true;
  }

  #nameOf(socket: Duplex): string {
    return this.#names.get(socket) ?? UNIDENTIFIED;
  }

  /** Number of connections by client. */
  #count(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    // Without identified clients there are no shares.
    if (!this.#hasNames) return counts;
    for (const sockets of [this.#idle, this.#busy.keys()])
      for (const socket of sockets) {
        const name = this.#nameOf(socket);
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    return counts;
  }

  /** An idle connection of the client `name`, or of the client with the most connections. */
  #findIdle(counts: ReadonlyMap<string, number>, name: string | undefined): Duplex | undefined {
    let found: { readonly socket: Duplex; readonly total: number } | undefined;
    for (const socket of this.#idle) {
      const owner = this.#nameOf(socket);
      const total = counts.get(owner) ?? 0;
      if ((name === undefined || owner === name) && total > (found?.total ?? -1)) found = { socket, total };
    }
    return found?.socket;
  }

  #findSlowReader(name: string | undefined): Duplex | undefined {
    const busy = [...this.#busy.keys()];
    return this.#slowReaders.find(
      name === undefined ? busy : busy.filter((socket) => this.#nameOf(socket) === name),
    );
  }

  #refuse(socket: Duplex, message: string): void {
    if (this.#refused >= MAX_REFUSED) {
      socket.destroy();
      return;
    }
    this.#refused++;
    socket.once('close', () => this.#refused--);
    refuse(socket, new AppError('exhausted', message, { stage: 'connect', retryAfterS: RETRY_AFTER_S }));
  }

  #completed(socket: Duplex): void {
    const left = (this.#busy.get(socket) ?? 1) - 1;
    if (left > 0) this.#busy.set(socket, left);
    else if (this.#busy.delete(socket) && !socket.destroyed) this.#idle.add(socket);
  }
}

/** Minimum interval between two scans, because a scan visits every connection. */
const SCAN_MS = 100;

/** What waits for a client, and a number that changes when it has read some of it. */
export type Pending = { readonly bytes: number; readonly progress: number };

type Progress = { readonly value: number; readonly atMs: number };

/**
 * Finds clients that do not read their response (slow readers). Such a client loses its connection only if the server
 * needs the slot: a client that waits for a person or a disk may read later.
 */
export class SlowReaders {
  readonly #afterMs: number;
  readonly #progress = new WeakMap<Duplex, Progress>();
  readonly #measures = new WeakMap<Duplex, () => Pending>();
  #scannedAtMs = Number.NEGATIVE_INFINITY;

  /** A client that has read nothing for `afterMs` is a slow reader. */
  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  measureBy(socket: Duplex, measure: () => Pending): void {
    this.#measures.set(socket, measure);
  }

  /** The slowest client that has pending data and has read none of it for `afterMs`, measured between calls. */
  find(sockets: Iterable<Duplex>): Duplex | undefined {
    const atMs = performance.now();
    if (atMs - this.#scannedAtMs < Math.min(SCAN_MS, this.#afterMs)) return undefined;
    this.#scannedAtMs = atMs;
    let slowest: { readonly socket: Duplex; readonly atMs: number } | undefined;
    for (const socket of sockets) {
      const progress = this.#measure(socket, atMs);
      if (progress !== undefined && progress.atMs < (slowest?.atMs ?? atMs))
        slowest = { socket, atMs: progress.atMs };
    }
    return slowest !== undefined && atMs - slowest.atMs >= this.#afterMs ? slowest.socket : undefined;
  }

  /** Undefined for a client without pending data. */
  #measure(socket: Duplex, atMs: number): Progress | undefined {
    const { bytes, progress: value } = this.#measures.get(socket)?.() ?? toPending(socket);
    if (bytes === 0) {
      this.#progress.delete(socket);
      return undefined;
    }
    const before = this.#progress.get(socket);
    if (before?.value === value) return before;
    const progress = { value, atMs };
    this.#progress.set(socket, progress);
    return progress;
  }
}

/** bytesWritten includes the bytes that are still in our buffer. */
function toPending(socket: Duplex & { readonly bytesWritten?: number }): Pending {
  const { writableLength: bytes, bytesWritten = 0 } = socket;
  return { bytes, progress: bytesWritten - bytes };
}

/** Connections in the TLS handshake. They have a separate limit, because they have sent no request. */
export class Handshakes {
  readonly #max: number;
  /** By both addresses, which the TLS socket shares; oldest first. */
  readonly #open = new Map<string, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  get count(): number {
    return this.#open.size;
  }

  /** At the limit, destroys the oldest one. */
  begin(socket: Socket): void {
    // The TLS layer adds its own error listener later.
    socket.on('error', () => undefined);
    const [oldest] = this.#open.values();
    if (this.#open.size >= this.#max) oldest?.destroy();
    const key = toKey(socket);
    this.#open.set(key, socket);
    socket.once('close', () => {
      if (this.#open.get(key) === socket) this.#open.delete(key);
    });
  }

  /** Destroys all of them, because Node reports a disconnect during the handshake late. */
  close(): void {
    for (const socket of this.#open.values()) socket.destroy();
  }

  end(socket: Socket): void {
    this.#open.delete(toKey(socket));
  }
}

function toKey({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return [remoteAddress, remotePort, localAddress, localPort].join(' ');
}
