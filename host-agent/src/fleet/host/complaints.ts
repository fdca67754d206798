// Log lines about objects of the cluster that others may write as often as they like: one a minute has the first one
// and the number of the rest.
import type { Logger } from 'pino';

const AGAIN_MS = 60_000;

export class Complaints {
  readonly #log: Logger;
  readonly #message: string;
  readonly #now: () => number;
  #loggedAtMs = Number.NEGATIVE_INFINITY;
  #unlogged = 0;

  constructor(log: Logger, message: string, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#message = message;
    this.#now = now;
  }

  /** `others`: how many went unlogged since the last line. */
  add(about: Readonly<Record<string, string>>): void {
    if (this.#now() - this.#loggedAtMs < AGAIN_MS) {
      this.#unlogged += 1;
      return;
    }
    const others = this.#unlogged;
    [this.#loggedAtMs, this.#unlogged] = [this.#now(), 0];
    this.#log.warn({ ...about, ...(others > 0 && { others }) }, this.#message);
  }
}
