// The snapshots in the store, as this host last saw them: a list with the description of each.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { AppError, firstLine } from '../../lib/errors.ts';
import { forEachAtOnce } from '../../lib/for-each-at-once.ts';
import type { SnapshotStore } from '../../snapshot-store/index.ts';
import { type Description, readDescription } from './description.ts';

/** A description takes some 2 KiB. */
const MAX_SNAPSHOTS = 10_000;
const CONCURRENCY = 16;
const CONCURRENT_LOOK_UPS = 4;
const MAX_LOOK_UPS = 128;
const LOOK_UP_MS = 5000;
/** For so long, one that was not there is not looked up again. */
const MISSING_MS = 1000;
const MAX_MISSING = 1000;

type Known = {
  readonly etag: string;
  /** Absent: it cannot be read. */
  readonly description?: Description;
  /** By `performance.now()`; absent: a list had it. */
  readonly lookedUpAt?: number;
};

/** Of one that was looked up by its id: the next list reads it again. */
const NO_ETAG = '';

export class RemoteIndex {
  readonly #store: Pick<SnapshotStore, 'list' | 'read'>;
  readonly #log: Logger;
  #known = new Map<string, Known>();
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #isFull = false;
  /** Ids come from clients. */
  readonly #queue = new PQueue({ concurrency: CONCURRENT_LOOK_UPS });
  readonly #lookUps = new Map<string, Promise<void>>();
  /** When it was looked up, by `performance.now()`. */
  readonly #missing = new Map<string, number>();

  constructor(store: Pick<SnapshotStore, 'list' | 'read'>, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  get(id: string): Description | undefined {
    return this.#known.get(id)?.description;
  }

  /** Whether the store has it, also if it cannot be read. */
  has(id: string): boolean {
    return this.#known.has(id);
  }

  /** Whether it has more snapshots than are listed. */
  get isFull(): boolean {
    return this.#isFull;
  }

  *all(): Generator<readonly [string, Description]> {
    for (const [id, { description }] of this.#known) if (description !== undefined) yield [id, description];
  }

  forget(id: string): void {
    this.#known.delete(id);
  }

  /** Reads the list unless it is younger; concurrent callers share one read. Rejects as the store does. */
  async refresh(maxAgeMs: number, signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#readAt < maxAgeMs) return;
    this.#reading ??= this.#read(signal).finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /**
   * Looks for one that no list had yet: another host has just written it. Concurrent callers share one look. Rejects
   * as the store does; AppError exhausted where many others are looked for.
   */
  async lookUp(id: string, signal: AbortSignal): Promise<void> {
    const missedAt = this.#missing.get(id) ?? Number.NEGATIVE_INFINITY;
    if (this.#known.has(id) || performance.now() - missedAt < MISSING_MS) return;
    let looking = this.#lookUps.get(id);
    if (looking === undefined) {
      if (this.#lookUps.size >= MAX_LOOK_UPS)
        throw new AppError(
          'exhausted',
          'many unknown snapshots are looked for in the snapshot store; try again',
        );
      looking = this.#queue.add(() => this.#look(id, signal)).finally(() => this.#lookUps.delete(id));
      this.#lookUps.set(id, looking);
    }
    await looking;
  }

  async #look(id: string, signal: AbortSignal): Promise<void> {
    const found = await this.#describe(
      id,
      NO_ETAG,
      AbortSignal.any([signal, AbortSignal.timeout(LOOK_UP_MS)]),
    );
    if (found !== undefined) {
      this.#known.set(id, { ...found, lookedUpAt: performance.now() });
      return;
    }
    this.#missing.delete(id);
    this.#missing.set(id, performance.now());
    for (const oldest of this.#missing.keys())
      if (this.#missing.size > MAX_MISSING) this.#missing.delete(oldest);
  }

  async #read(signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const found = new Map<string, string>();
    this.#isFull = false;
    for await (const page of this.#store.list(signal)) {
      for (const { id, etag } of page) if (found.size < MAX_SNAPSHOTS) found.set(id, etag);
      if (found.size < MAX_SNAPSHOTS) continue;
      this.#isFull = true;
      this.#log.warn({ max: MAX_SNAPSHOTS }, 'the snapshot store has more snapshots than are listed');
      break;
    }
    const known = new Map<string, Known>();
    const look = async ([id, etag]: [string, string], signal: AbortSignal): Promise<void> => {
      const before = this.#known.get(id);
      const now = before?.etag === etag ? before : await this.#describe(id, etag, signal);
      if (now !== undefined) known.set(id, now);
    };
    await forEachAtOnce(found, CONCURRENCY, look, signal);
    // A list that began before it was written does not have it.
    for (const [id, each] of this.#known)
      if (!known.has(id) && (each.lookedUpAt ?? 0) > startedAt) known.set(id, each);
    this.#known = known;
    this.#readAt = startedAt;
  }

  /** Undefined: it was deleted meanwhile. */
  async #describe(id: string, etag: string, signal: AbortSignal): Promise<Known | undefined> {
    try {
      const manifest = await this.#store.read(id, signal);
      return manifest && { etag, description: readDescription(manifest) };
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'internal')) throw error;
      this.#log.error({ snapshot: id, reason: firstLine(error) }, 'a snapshot of the store is not listed');
      return { etag };
    }
  }
}
