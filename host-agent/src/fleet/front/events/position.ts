// Where a reader of the events of a fleet is: a cursor for each host, in one token that any gateway understands.
import { createHash } from 'node:crypto';
import { AppError } from '../../../lib/errors.ts';
import { randomSuffix } from '../../../lib/ids.ts';

/** A token has at most so many, which is 9 KiB of the 16 that a head may have. */
export const MAX_CURSORS = 384;
/** Hosts that left the fleet, and may come back, are remembered beside those that are there. */
const MAX_DEPARTED = 64;

const VERSION = 1;
const NAME_BYTES = 5;
const EPOCH_BYTES = 5;
/** Of base32hex, in which a host writes its epoch. */
const DIGITS = '0123456789abcdefghijklmnopqrstuv';
const DIGIT_BITS = 5n;
const MAX_VARINT_BYTES = 8;

const HOST_ID = /^([0-9a-v]{8})-(\d{1,15})$/;
const TOKEN = /^(?:0|[0-9a-v]{8}-\d{1,15})\.([\w-]{1,12000})$/;

type Cursor = { readonly epoch: string; readonly seq: number };

export class FleetPosition {
  /** When the reader began: of a host without a cursor it gets what happened since. */
  readonly sinceMs: number;
  /** By the digest of the host's name; the one that moved last is the last. */
  readonly #cursors = new Map<string, Cursor>();

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs;
  }

  /** AppError invalid_argument; gone for an id that is of one host alone. */
  static parse(token: string): FleetPosition {
    if (HOST_ID.test(token)) {
      throw new AppError(
        'gone',
        `event ${token} is of one host, and says nothing of the others; read the list of sandboxes and go on without ` +
          'Last-Event-ID',
      );
    }
    const found = read(Buffer.from(TOKEN.exec(token)?.[1] ?? '', 'base64url'));
    if (found !== undefined) return found;
    throw new AppError(
      'invalid_argument',
      `event id ${JSON.stringify(token.slice(0, 64))} is malformed; send one as it came`,
    );
  }

  /** The id of the last event of that host; undefined: none of it is known. */
  cursorOf(host: string): string | undefined {
    const cursor = this.#cursors.get(toDigest(host));
    return cursor && `${cursor.epoch}-${cursor.seq}`;
  }

  advance(host: string, id: string): void {
    const [, epoch, seq] = HOST_ID.exec(id) ?? [];
    if (epoch === undefined) return;
    const digest = toDigest(host);
    this.#cursors.delete(digest);
    this.#cursors.set(digest, { epoch, seq: Number(seq) });
  }

  /** Forgets hosts that are not there, those first that were silent for longest. */
  trim(hosts: readonly string[]): void {
    const present = new Set(hosts.map(toDigest));
    const departed = [...this.#cursors.keys()].filter((digest) => !present.has(digest));
    const kept = Math.max(0, Math.min(MAX_DEPARTED, MAX_CURSORS - present.size));
    for (const digest of departed.slice(0, Math.max(0, departed.length - kept))) this.#cursors.delete(digest);
  }

  /** `id`: of the event at its host; absent: no event has this position. */
  toToken(id = '0'): string {
    const parts = [Buffer.from([VERSION]), toVarint(this.sinceMs)];
    for (const [digest, { epoch, seq }] of this.#cursors)
      parts.push(Buffer.from(digest, 'hex'), fromEpoch(epoch), toVarint(seq));
    return `${id}.${Buffer.concat(parts).toString('base64url')}`;
  }

  protected set(digest: string, cursor: Cursor): void {
    this.#cursors.set(digest, cursor);
  }

  get size(): number {
    return this.#cursors.size;
  }

  static from(sinceMs: number, cursors: readonly (readonly [string, Cursor])[]): FleetPosition {
    const position = new FleetPosition(sinceMs);
    for (const [digest, cursor] of cursors) position.set(digest, cursor);
    return position;
  }
}

/** An id for what no host recorded. */
export function newOwnId(): string {
  return `${randomSuffix().slice(0, 8)}-0`;
}

function read(bytes: Buffer): FleetPosition | undefined {
  const reader = new Reader(bytes);
  if (reader.take(1)?.[0] !== VERSION) return undefined;
  const sinceMs = reader.varint();
  const cursors: (readonly [string, Cursor])[] = [];
  while (!reader.isAtEnd && cursors.length < MAX_CURSORS) {
    const digest = reader.take(NAME_BYTES);
    const epoch = reader.take(EPOCH_BYTES);
    const seq = reader.varint();
    if (digest === undefined || epoch === undefined || seq === undefined) return undefined;
    cursors.push([digest.toString('hex'), { epoch: toEpoch(epoch), seq }]);
  }
  return sinceMs === undefined || !reader.isAtEnd ? undefined : FleetPosition.from(sinceMs, cursors);
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  take(count: number): Buffer | undefined {
    const found = this.#bytes.subarray(this.#at, this.#at + count);
    this.#at += count;
    return found.length === count ? found : undefined;
  }

  varint(): number | undefined {
    let value = 0;
    for (let n = 0; n < MAX_VARINT_BYTES; n++) {
      const byte = this.take(1)?.[0];
      if (byte === undefined) return undefined;
      value += (byte & 0x7f) * 2 ** (7 * n);
      if (byte < 0x80) return value < 1e15 ? value : undefined;
    }
    return undefined;
  }
}

function toVarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}

/** Eight digits are five bytes. */
function fromEpoch(epoch: string): Buffer {
  let value = 0n;
  for (const digit of epoch) value = (value << DIGIT_BITS) | BigInt(DIGITS.indexOf(digit));
  return Buffer.from(value.toString(16).padStart(2 * EPOCH_BYTES, '0'), 'hex');
}

function toEpoch(bytes: Buffer): string {
  const value = BigInt(`0x${bytes.toString('hex')}`);
  return value.toString(32).padStart(8, '0');
}

const digests = new Map<string, string>();

function toDigest(host: string): string {
  const known = digests.get(host);
  if (known !== undefined) return known;
  if (digests.size > 10_000) digests.clear();
  const digest = createHash('sha256')
    .update(host)
    .digest('hex')
    .slice(0, 2 * NAME_BYTES);
  digests.set(host, digest);
  return digest;
}
