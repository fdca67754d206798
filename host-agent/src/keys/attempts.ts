// Wrong keys by address: each is answered later than the one before. What is guessed is far too long to be found; this keeps
// one who tries all the same from costing much, and never holds up a right key, which others behind the same address may have.
import { isIPv6 } from 'node:net';
import { backOffMs } from '../lib/back-off.ts';

/** Typing errors cost nothing. */
const FREE = 3;
const FIRST_MS = 100;
const LONGEST_MS = 10_000;
/** After so long without a wrong key an address is as any other. */
const FORGET_MS = 10 * 60_000;
/** Known at once; the one that was silent for the longest goes first. */
const MAX_ADDRESSES = 10_000;
/** Answers of one address that are held back at once: more would only hold connections. */
const MAX_WAITING = 8;

type Entry = { failures: number; lastMs: number; waiting: number };

export class Attempts {
  /** In the order of their last failure. */
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Notes a wrong key; for how long its answer is to be held back, and what to call when it was. */
  failed(address: string): { readonly delayMs: number; readonly done: () => void } {
    const at = toNetwork(address);
    const now = this.#now();
    const known = this.#entries.get(at);
    const entry =
      known === undefined || now - known.lastMs > FORGET_MS
        ? { failures: 0, lastMs: now, waiting: 0 }
        : known;
    entry.failures += 1;
    entry.lastMs = now;
    this.#entries.delete(at);
    this.#entries.set(at, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_ADDRESSES && oldest !== undefined) this.#entries.delete(oldest);
    const beyond = entry.failures - FREE;
    if (beyond <= 0 || entry.waiting >= MAX_WAITING) return { delayMs: 0, done: () => undefined };
    entry.waiting += 1;
    const done = (): void => {
      entry.waiting -= 1;
    };
    return { delayMs: backOffMs(beyond, { firstMs: FIRST_MS, mostMs: LONGEST_MS }), done };
  }
}

/** Who has one address of IPv6 usually has the 2^64 around it. */
function toNetwork(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/, '');
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = new Array<string>(Math.max(0, tail === undefined ? 0 : 8 - left.length - right.length)).fill(
    '0',
  );
  const groups = [...left, ...zeros, ...right].slice(0, 4);
  return groups.map((group) => group.replace(/^0+(?=.)/, '').toLowerCase()).join(':');
}
