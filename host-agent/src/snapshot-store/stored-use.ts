// What the chunks of each tenant take in the bucket, which all hosts share: as a list of them has it, and what this
// host has sent since.
import { AppError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';
import type { Bucket } from './s3/bucket.ts';

/** A list of 1000 chunks is a request. What other hosts send meanwhile is not counted yet. */
const MAX_AGE_MS = 10_000;
/** Or so many times as long as the list took. */
const AGE_BY_DURATION = 4;
/** Of a list, whichever upload waits for it. */
const READ_MS = 10 * 60_000;

type Use = { bytes: number; untilMs: number };

export class StoredUse {
  readonly #bucket: Bucket;
  /** By the tenant in paths. */
  readonly #uses = new Map<string, Use>();
  readonly #reading = new Map<string, Promise<void>>();
  /** When the last list of each failed. */
  readonly #failedMs = new Map<string, number>();

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  /** As it was last known; what is too old is read in the background. */
  last(tag: string): number {
    const failedMs = this.#failedMs.get(tag) ?? Number.NEGATIVE_INFINITY;
    if (this.#isOld(tag) && performance.now() - failedMs >= MAX_AGE_MS)
      void this.#refresh(tag).catch(() => undefined);
    return this.#uses.get(tag)?.bytes ?? 0;
  }

  /** Before a chunk is sent, which counts from then on. AppError forbidden; rejects as the bucket does. */
  async admit(
    tag: string,
    bytes: number,
    limit: StoredLimit | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (limit === undefined) return this.#add(tag, bytes);
    const { max, whose } = limit;
    if (this.#isOld(tag)) await raceSignal(this.#refresh(tag), signal);
    const total = (this.#uses.get(tag)?.bytes ?? 0) + bytes;
    if (total <= max) return this.#add(tag, bytes);
    throw new AppError(
      'forbidden',
      `the quota of ${whose} forbids it: stored bytes ${total} is over ${max}; ` +
        'delete what is not needed: its space is free after the next `sandboxd store gc`',
    );
  }

  #add(tag: string, bytes: number): void {
    const use = this.#uses.get(tag);
    if (use !== undefined) use.bytes += bytes;
  }

  #isOld(tag: string): boolean {
    return performance.now() >= (this.#uses.get(tag)?.untilMs ?? Number.NEGATIVE_INFINITY);
  }

  /** All who wait share one list: none ends it for the others. */
  async #refresh(tag: string): Promise<void> {
    let reading = this.#reading.get(tag);
    if (reading === undefined) {
      reading = this.#read(tag, AbortSignal.timeout(READ_MS)).then(
        () => void this.#failedMs.delete(tag),
        (error: unknown) => {
          this.#failedMs.set(tag, performance.now());
          throw error;
        },
      );
      reading = reading.finally(() => this.#reading.delete(tag));
      this.#reading.set(tag, reading);
    }
    await reading;
  }

  async #read(tag: string, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const before = this.#uses.get(tag)?.bytes ?? 0;
    let bytes = 0;
    for await (const page of this.#bucket.list(`chunks/${tag}/`, signal))
      for (const { sizeBytes } of page) bytes += sizeBytes;
    const now = performance.now();
    // What this host sent meanwhile may be missing in the list.
    const sent = Math.max(0, (this.#uses.get(tag)?.bytes ?? 0) - before);
    const untilMs = now + Math.max(MAX_AGE_MS, (now - startedAt) * AGE_BY_DURATION);
    this.#uses.set(tag, { bytes: bytes + sent, untilMs });
  }
}

export type StoredLimit = { readonly max: number; readonly whose: string };
