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

type Use = { bytes: number; objects: number; untilMs: number };

const NOTHING = { bytes: 0, objects: 0 };

function chunksOf(tag: string): string {
  return `chunks/${tag}/`;
}

export class StoredUse {
  readonly #bucket: Bucket;
  /** By their path. */
  readonly #uses = new Map<string, Use>();
  readonly #reading = new Map<string, Promise<void>>();
  /** When the last list of each failed. */
  readonly #failedMs = new Map<string, number>();

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  /** As it was last known; what is too old is read in the background. */
  last(tag: string): number {
    const path = chunksOf(tag);
    const failedMs = this.#failedMs.get(path) ?? Number.NEGATIVE_INFINITY;
    if (this.#isOld(path) && performance.now() - failedMs >= MAX_AGE_MS)
      void this.#refresh(path).catch(() => undefined);
    return this.#uses.get(path)?.bytes ?? 0;
  }

  /** When it was last counted, with what this host has added; the bucket is not asked. */
  knownBelow(path: string): number {
    return this.#uses.get(path)?.bytes ?? 0;
  }

  /** What is below a path, as a list had it, with what this host has added. */
  async countBelow(path: string, signal: AbortSignal): Promise<Pick<Use, 'bytes' | 'objects'>> {
    if (this.#isOld(path)) await raceSignal(this.#refresh(path), signal);
    return this.#uses.get(path) ?? { bytes: 0, objects: 0 };
  }

  /** Before a chunk is sent, which counts from then on. AppError forbidden; rejects as the bucket does. */
  async admit(
    tag: string,
    bytes: number,
    limit: StoredLimit | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const path = chunksOf(tag);
    if (limit === undefined) return this.add(path, bytes);
    const { max, whose } = limit;
    if (this.#isOld(path)) await raceSignal(this.#refresh(path), signal);
    const total = (this.#uses.get(path)?.bytes ?? 0) + bytes;
    if (total <= max) return this.add(path, bytes);
    throw new AppError(
      'forbidden',
      `the quota of ${whose} forbids it: stored bytes ${total} is over ${max}; ` +
        'delete what is not needed: its space is free after the next `sandboxd store gc`',
    );
  }

  /** An object that this host sent. */
  add(path: string, bytes: number): void {
    const use = this.#uses.get(path);
    if (use === undefined) return;
    use.bytes += bytes;
    use.objects += 1;
  }

  #isOld(path: string): boolean {
    return performance.now() >= (this.#uses.get(path)?.untilMs ?? Number.NEGATIVE_INFINITY);
  }

  /** All who wait share one list: none ends it for the others. */
  async #refresh(path: string): Promise<void> {
    let reading = this.#reading.get(path);
    if (reading === undefined) {
      reading = this.#read(path, AbortSignal.timeout(READ_MS)).then(
        () => void this.#failedMs.delete(path),
        (error: unknown) => {
          this.#failedMs.set(path, performance.now());
          throw error;
        },
      );
      reading = reading.finally(() => this.#reading.delete(path));
      this.#reading.set(path, reading);
    }
    await reading;
  }

  async #read(path: string, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const before = { ...(this.#uses.get(path) ?? NOTHING) };
    let [bytes, objects] = [0, 0];
    for await (const page of this.#bucket.list(path, signal))
      for (const { sizeBytes } of page) {
        bytes += sizeBytes;
        objects += 1;
      }
    const now = performance.now();
    // What this host sent meanwhile may be missing in the list.
    const after = this.#uses.get(path) ?? NOTHING;
    bytes += Math.max(0, after.bytes - before.bytes);
    objects += Math.max(0, after.objects - before.objects);
    const untilMs = now + Math.max(MAX_AGE_MS, (now - startedAt) * AGE_BY_DURATION);
    this.#uses.set(path, { bytes, objects, untilMs });
  }
}

export type StoredLimit = { readonly max: number; readonly whose: string };
