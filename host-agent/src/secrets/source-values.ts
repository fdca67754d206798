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

  /** AppError forbidden. */
  hostsOf(scope: string, source: SecretSource): readonly string[] | undefined {
    return this.#sources.hostsOf(scope, source);
  }

  /** Reads it now, for these hosts. AppError forbidden, internal. */
  async check(scope: string, source: SecretSource, hosts: readonly string[]): Promise<void> {
    this.#sources.assertBound(scope, source, hosts);
    await this.#read(scope, source);
  }

  /** A copy of what was read last, which the caller wipes. Undefined: it was not, or could not be. */
  known(scope: string, source: SecretSource): Buffer | undefined {
    this.#sources.hostsOf(scope, source);
    const known = this.#known.get(toKey(scope, source));
    return known && Buffer.from(known.value);
  }

  /** Reads it again if it was read some time ago. AppError forbidden, internal. */
  async refresh(scope: string, source: SecretSource): Promise<void> {
    this.#sources.hostsOf(scope, source);
    const known = this.#known.get(toKey(scope, source));
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.atMs;
    if (ageMs < SOURCE_TTL_MS) return;
    const read = this.#read(scope, source);
    if (ageMs < SOURCE_TTL_MS + GRACE_MS)
      await Promise.race([read, sleep(SLOW_MS, undefined, { ref: false })]);
    else await read;
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
