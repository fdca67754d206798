// How many clients may be connected. Descriptors are short: VMMs and the registry must have theirs whatever clients do.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { refuse } from './refusal.ts';
import { UnreadAnswers } from './unread.ts';

const RETRY_AFTER_S = 5;
/** Clients beyond the limit that are told so at the same time; others find their connection closed. */
const MAX_REFUSED = 32;

export class Connections {
  readonly #max: number;
  /** Those that have asked for nothing yet, or nothing more, the one that has done so for the longest first. */
  readonly #waiting = new Set<Duplex>();
  /** Requests that are not answered, by connection. */
  readonly #asked = new Map<Duplex, number>();
  readonly #unread: UnreadAnswers;
  #refused = 0;

  /** `unreadMs`: a client that reads nothing of its answer for so long has its connection for as long as there is room. */
  constructor(max: number, unreadMs: number) {
    this.#max = max;
    this.#unread = new UnreadAnswers(unreadMs);
  }

  get count(): number {
    return this.#waiting.size + this.#asked.size;
  }

  /**
   * A new one: the one that waited for the longest makes room for it; where none waits, the one that has not read its answer for
   * the longest; where all read, it is told to come back.
   */
  add(socket: Duplex): void {
    // Whoever takes it over may listen late, and an error that nobody hears would end the daemon.
    socket.on('error', () => undefined);
    if (this.count >= this.#max) {
      const [oldest = this.#unread.find(this.#asked.keys())] = this.#waiting;
      if (oldest === undefined) {
        this.#refuse(socket);
        return;
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

  #refuse(socket: Duplex): void {
    if (this.#refused >= MAX_REFUSED) {
      socket.destroy();
      return;
    }
    this.#refused++;
    socket.once('close', () => this.#refused--);
    const message = `${this.#max} clients are connected, which is all that this daemon takes; try again later`;
    refuse(socket, new AppError('exhausted', message, { stage: 'connect', retryAfterS: RETRY_AFTER_S }));
  }

  #answered(socket: Duplex): void {
    const left = (this.#asked.get(socket) ?? 1) - 1;
    if (left > 0) this.#asked.set(socket, left);
    else if (this.#asked.delete(socket) && !socket.destroyed) this.#waiting.add(socket);
  }
}
