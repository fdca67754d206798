// Values of sources, each read once at a time and used for a while, by whatever secrets name it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { SecretSource } from '@sandboxd/api';
import PQueue from 'p-queue';
import { type SecretSources, SOURCE_TTL_MS } from './sources.ts';

const MAX_READS = 4;
/** A value that is older than `SOURCE_TTL_MS` is used for so much longer while a slow source is read again. */
const GRACE_MS = 30_000;
const SLOW_MS = 1000;

type Known = { readonly value: Buffer; readonly atMs: number };

export class SourceValues {
  readonly #sources: SecretSources;
  readonly #known = new Map<string, Known>();
  readonly #reads = new Map<string, Promise<void>>();
  readonly #limit = new PQueue({ concurrency: MAX_READS });
  #isClosed = false;

  constructor(sources: SecretSources) {
    this.#sources = sources;
  }

  /** Reads it now. AppError forbidden, internal. */
  async check(scope: string, source: SecretSource): Promise<void> {
    this.#sources.assertAllowed(scope, source);
    await this.#read(scope, source);
  }

  /** A copy, which the caller wipes. AppError forbidden, internal. */
  async get(scope: string, source: SecretSource): Promise<Buffer> {
    this.#sources.assertAllowed(scope, source);
    const known = this.#known.get(toKey(scope, source));
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.atMs;
    if (ageMs >= SOURCE_TTL_MS) {
      const read = this.#read(scope, source);
      // It does not delay what else changes.
      if (ageMs < SOURCE_TTL_MS + GRACE_MS)
        await Promise.race([read, sleep(SLOW_MS, undefined, { ref: false })]);
      else await read;
    }
    return Buffer.from(this.#known.get(toKey(scope, source))?.value ?? fail());
  }

  close(): void {
    this.#isClosed = true;
    for (const { value } of this.#known.values()) value.fill(0);
    this.#known.clear();
  }

  /** The one that goes on, if there is one. */
  #read(scope: string, source: SecretSource): Promise<void> {
    const key = toKey(scope, source);
    const running = this.#reads.get(key);
    if (running !== undefined) return running;
    const read = this.#limit
      .add(() => this.#sources.read(scope, source))
      .then(
        (value) => this.#keep(key, value),
        (error: unknown) => {
          this.#forget(key);
          throw error;
        },
      )
      .finally(() => this.#reads.delete(key));
    read.catch(() => undefined);
    this.#reads.set(key, read);
    return read;
  }

  #keep(key: string, value: Buffer): void {
    this.#forget(key);
    if (this.#isClosed) value.fill(0);
    else this.#known.set(key, { value, atMs: performance.now() });
  }

  #forget(key: string): void {
    this.#known.get(key)?.value.fill(0);
    this.#known.delete(key);
  }
}

/** One scope cannot have the value of another, nor one kind that of another. */
function toKey(scope: string, { file, command, credential }: SecretSource): string {
  return JSON.stringify([scope, file, command, credential].map((part) => part ?? null));
}

function fail(): never {
  throw new Error('the daemon ends');
}
