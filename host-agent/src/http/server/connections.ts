// How many clients may be connected. Descriptors are short: VMMs and the registry must have theirs whatever clients do.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { refuse } from './refusal.ts';
import { SlowReaders } from './slow-readers.ts';

const RETRY_AFTER_S = 5;
/** Clients beyond the limit that are told so at the same time; others find their connection closed. */
const MAX_REFUSED = 32;

/** Of whom nobody has asked yet who it is. */
const ANYBODY = '';

export class Connections {
  readonly #max: number;
  readonly #maxPerClient: number;
  /** Those that have asked for nothing yet, or nothing more, the one that has done so for the longest first. */
  readonly #waiting = new Set<Duplex>();
  /** Requests that are not answered, by connection. */
  readonly #asked = new Map<Duplex, number>();
  readonly #unread: SlowReaders;
  /** Whose each connection is, of those that were asked after. */
  readonly #names = new WeakMap<Duplex, string>();
  #hasNames = false;
  #refused = 0;

  /**
   * `unreadMs`: a client that reads nothing of its answer for so long has its connection for as long as there is room.
   */
  constructor(max: number, maxPerClient: number, unreadMs: number) {
    this.#max = max;
    this.#maxPerClient = Math.min(max, maxPerClient);
    this.#unread = new SlowReaders(unreadMs);
  }

  get count(): number {
    return this.#waiting.size + this.#asked.size;
  }

  /** Whether one client may have its share, if all that there are and `more` were its own. */
  mayExceedShare(more: number): boolean {
    return this.count + more >= this.#maxPerClient;
  }

  unnamed(): Socket[] {
    return [...this.#waiting, ...this.#asked.keys()].filter(
      (socket) => socket instanceof Socket && !this.#names.has(socket),
    ) as Socket[];
  }

  /** Before it is added, or later. */
  name(socket: Socket, name: string): void {
    this.#names.set(socket, name);
    this.#hasNames = true;
  }

  /**
   * A new one: where there is no room for it, the one that waited for the longest makes some; where none waits, the one
   * that has not read its answer for the longest; where all read, it is told to come back. Who has its share makes room
   * for itself, and else who has the most. False for one that is told so.
   */
  add(socket: Duplex): boolean {
    // Whoever takes it over may listen late, and an error that nobody hears would end the daemon.
    socket.on('error', () => undefined);
    const name = this.#nameOf(socket);
    const counts = this.#count();
    const hasShare = name !== ANYBODY && (counts.get(name) ?? 0) >= this.#maxPerClient;
    if (hasShare || this.count >= this.#max) {
      const from = hasShare ? name : undefined;
      const oldest = this.#findWaiting(counts, from) ?? this.#findUnread(from);
      if (oldest === undefined) {
        this.#refuse(
          socket,
          hasShare
            ? `this client has ${this.#maxPerClient} connections, which is all that one client may have; close ` +
                'some, or try again later'
            : `${this.#max} clients are connected, which is all that this daemon takes; try again later`,
        );
        return false;
      }
      this.#waiting.delete(oldest);
      this.#asked.delete(oldest);
      oldest.destroy();
    }
    this.#waiting.add(socket);
    socket.once('close', () => {
      this.#waiting.delete(socket);
      this.#asked.delete(socket);
    });
    return true;
  }

  /** One that was taken over, for as long as it lives. */
  take(socket: Duplex): void {
    this.#waiting.delete(socket);
    this.#asked.set(socket, (this.#asked.get(socket) ?? 0) + 1);
  }

  /** False when it has asked for too much that is not answered yet; it is closed then. */
  track({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const asked = (this.#asked.get(socket) ?? 0) + 1;
    if (socket.destroyed) return false;
    if (asked > MAX_PIPELINED_REQUESTS) {
      socket.destroy();
      return false;
    }
    this.#waiting.delete(socket);
    this.#asked.set(socket, asked);
    response.once('close', () => this.#answered(socket));
    return true;
  }

  #nameOf(socket: Duplex): string {
    return this.#names.get(socket) ?? ANYBODY;
  }

  /** How many each client has. */
  #count(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    // As long as nobody was asked after there is nothing to compare.
    if (!this.#hasNames) return counts;
    for (const sockets of [this.#waiting, this.#asked.keys()])
      for (const socket of sockets) {
        const name = this.#nameOf(socket);
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    return counts;
  }

  /** That client's, or one of whoever has most of all who wait. */
  #findWaiting(counts: ReadonlyMap<string, number>, name: string | undefined): Duplex | undefined {
    let found: { readonly socket: Duplex; readonly of: number } | undefined;
    for (const socket of this.#waiting) {
      const other = this.#nameOf(socket);
      const of = counts.get(other) ?? 0;
      if ((name === undefined || other === name) && of > (found?.of ?? -1)) found = { socket, of };
    }
    return found?.socket;
  }

  #findUnread(name: string | undefined): Duplex | undefined {
    const asked = [...this.#asked.keys()];
    return this.#unread.find(
      name === undefined ? asked : asked.filter((socket) => this.#nameOf(socket) === name),
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

  #answered(socket: Duplex): void {
    const left = (this.#asked.get(socket) ?? 1) - 1;
    if (left > 0) this.#asked.set(socket, left);
    else if (this.#asked.delete(socket) && !socket.destroyed) this.#waiting.add(socket);
  }
}
