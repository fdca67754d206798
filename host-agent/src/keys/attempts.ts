// Rate limit of wrong keys by address: exponential backoff delays each response. Keys are too long to guess; the
// delay limits the load of an attacker. It never delays a valid key, which another client behind the same address may
// have.
import { isIPv6 } from 'node:net';
import { backOffMs } from '../lib/back-off.ts';

/** A few typing errors are not delayed. */
const FREE = 3;
const FIRST_MS = 100;
const MAX_MS = 10_000;
/** An address without a wrong key for this long starts again at zero. */
const FORGET_MS = 10 * 60_000;
/** Maximum number of addresses remembered; the one with the oldest failure is dropped first. */
const MAX_ADDRESSES = 10_000;
/** Maximum delayed responses of one address at a time: more would only keep connections open. */
const MAX_WAITING = 8;

type Entry = { failures: number; lastMs: number; waiting: number };

export class Attempts {
  /** In the order of their last failure. */
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  /** Records a wrong key. Returns how long to delay the response, and a function to call after the delay. */
  failed(address: string): { readonly delayMs: number; readonly done: () => void } {
    const network = toNetwork(address);
    const now = performance.now();
    const known = this.#entries.get(network);
    const entry =
      known === undefined || now - known.lastMs > FORGET_MS
        ? { failures: 0, lastMs: now, waiting: 0 }
        : known;
    entry.failures += 1;
    entry.lastMs = now;
    this.#entries.delete(network);
    this.#entries.set(network, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_ADDRESSES && oldest !== undefined) this.#entries.delete(oldest);
    const excess = entry.failures - FREE;
    if (excess <= 0 || entry.waiting >= MAX_WAITING) return { delayMs: 0, done: () => undefined };
    entry.waiting += 1;
    const done = (): void => {
      entry.waiting -= 1;
    };
    return { delayMs: backOffMs(excess, { firstMs: FIRST_MS, mostMs: MAX_MS }), done };
  }
}

/** A client with one IPv6 address usually has its whole /64 network. */
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
