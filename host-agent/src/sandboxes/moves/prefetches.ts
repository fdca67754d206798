// What sandboxes have sent ahead that are to go on at this host: it is fetched while they run, so that after the pause
// only what differs remains. Nothing here says who has a sandbox, and all of it may be dropped at any time. It is in
// hidden directories, which the next daemon removes.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { AppError, firstLine } from '../../lib/errors.ts';
import { newId } from '../../lib/ids.ts';
import type { FileContent, StoreManifest } from '../../snapshot-store/index.ts';
import { asNoSpace } from '../admission.ts';
import type { ResourceContext } from '../resources/resource.ts';
import { ChunkChecksums } from '../saved/chunk-checksums.ts';
import { flush } from '../saved/save.ts';
import { removeSaved, snapshotsRoot, unfinishedDir } from '../saved/saved-guest.ts';
import { sizeOf } from '../stored/description.ts';
import type { SharedDeps } from '../stored/shared.ts';
import { type Parked, readParked } from './parked.ts';
import type { RightOfWay } from './right-of-way.ts';

/** Each fetches with as many connections as any download. */
const MAX_FETCHING = 4;
/** Of those whose files are kept. */
const MAX_KEPT = 16;
/** The host that it leaves does not wait as long. */
const KEPT_MS = 10 * 60_000;

/** Throws for a sandbox that is too large for its place. */
export type AssertFits = (size: { readonly vcpus: number; readonly memoryMib: number }) => void;

/** `over`: it is not fetched ahead any more, or cannot be; some of it may be here. */
export type PrefetchState = 'fetching' | 'ready' | 'over';

type PrefetchesDeps = {
  readonly context: Pick<ResourceContext, 'directories' | 'engines'>;
  readonly shared: SharedDeps;
  /** AppError exhausted while this host takes nothing new. */
  readonly assertOpen: () => void;
  readonly track: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly log: Logger;
  readonly rightOfWay: RightOfWay;
  readonly keptMs?: number | undefined;
};

/** Its files, which belong to the caller; disposed, those that are left are removed. */
export type Prefetched = AsyncDisposable & {
  readonly files: Readonly<Record<PrefetchedPart, string>>;
  readonly content: Map<string, FileContent>;
  /** Of the memory, if all of it was read. */
  readonly checksums: ChunkChecksums | undefined;
};

type PrefetchedPart = 'memory' | 'state' | 'disk';

type Prefetch = {
  /** The beginning of its departure. */
  readonly move: string;
  readonly abort: AbortController;
  readonly dir: string;
  readonly content: Map<string, FileContent>;
  state: PrefetchState;
  departure?: string;
  checksums?: ChunkChecksums;
  done: Promise<void>;
  timer?: NodeJS.Timeout;
};

export class Prefetches {
  readonly #deps: PrefetchesDeps;
  readonly #all = new Map<string, Prefetch>();

  constructor(deps: PrefetchesDeps) {
    this.#deps = deps;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#all.keys()].map((id) => this.forget(id)));
  }

  /** Undefined: nothing is known of that move. */
  stateOf(id: string, move: string): PrefetchState | undefined {
    const known = this.#all.get(id);
    return known?.move === move ? known.state : undefined;
  }

  /** Whose files are here, or some of them. */
  departureOf(id: string): string | undefined {
    return this.#all.get(id)?.departure;
  }

  ids(): Iterable<string> {
    return this.#all.keys();
  }

  /**
   * Resolves when it is here, or cannot be fetched ahead. AppError as of `Arrivals.takeOver` for a sandbox that this
   * host cannot take, exhausted when it can fetch no more now; nothing is left then.
   */
  async begin(
    id: string,
    move: string,
    { assertFits }: { readonly assertFits?: AssertFits | undefined } = {},
  ): Promise<void> {
    // Another one may begin while this one waits.
    for (let known = this.#all.get(id); known !== undefined; known = this.#all.get(id)) {
      if (known.move === move) return await known.done;
      await this.forget(id);
    }
    this.#deps.assertOpen();
    this.#assertCapacity();
    const { directories } = this.#deps.context;
    const dir = unfinishedDir(snapshotsRoot(directories.dataDir), newId('snap'));
    const abort = new AbortController();
    const own: Prefetch = {
      ...{ move, abort, dir, content: new Map(), state: 'fetching' },
      done: Promise.resolve(),
    };
    this.#all.set(id, own);
    own.timer = setTimeout(() => void this.#expire(id, own), this.#deps.keptMs ?? KEPT_MS).unref();
    own.done = this.#deps.track((stop) =>
      this.#fetch(id, own, AbortSignal.any([abort.signal, stop]), assertFits),
    );
    try {
      await own.done;
    } catch (error) {
      // Another caller has what there is.
      if (abort.signal.aborted) return;
      if (this.#all.get(id) === own) await this.forget(id);
      throw error;
    }
  }

  #assertCapacity(): void {
    const kept = [...this.#all.values()].filter(
      ({ departure, state }) => departure !== undefined || state === 'fetching',
    );
    const fetching = kept.filter(({ state }) => state === 'fetching');
    if (fetching.length < MAX_FETCHING && kept.length < MAX_KEPT) return;
    throw new AppError('exhausted', 'many sandboxes are fetched ahead; try again', { retryAfterS: 2 });
  }

  async #fetch(
    id: string,
    own: Prefetch,
    signal: AbortSignal,
    assertFits: AssertFits | undefined,
  ): Promise<void> {
    const { shared, log } = this.#deps;
    const startedAt = performance.now();
    const late = (error: unknown): void => {
      signal.throwIfAborted();
      own.state = 'over';
      log.warn({ sandbox: id, reason: firstLine(error) }, 'a sandbox is fetched only when it is paused');
    };
    const found = await this.#read(id, own, signal).catch(late);
    if (found === undefined) {
      own.state = 'over';
      return;
    }
    const { vcpus, memoryMib } = await shared.resolve(found.archive, signal);
    assertFits?.({ vcpus, memoryMib });
    const { copy } = found;
    try {
      // Until it is written: then the file system counts it.
      using _space = await shared.admission.reserve({
        ...{ memoryMib: [], areCopies: false, diskBytes: sizeOf(copy) },
      });
      signal.throwIfAborted();
      await mkdir(own.dir, { recursive: true, mode: 0o700 });
      own.departure = copy.id.slice(id.length + 1);
      const [bytes] = await Promise.all([this.#write(own, copy, signal), this.#prepareStart(signal)]);
      own.state = 'ready';
      const durationMs = Math.round(performance.now() - startedAt);
      log.info({ sandbox: id, bytes, durationMs }, 'what a sandbox has sent ahead is here');
    } catch (error) {
      // What is here is right, and the rest is fetched after the pause.
      late(error);
      if (asNoSpace(error, 'fetch a sandbox', 'fetch') === undefined) return;
      delete own.departure;
      await this.#remove(id, own.dir);
    }
  }

  /** A host that has started no VM yet would search its program's files after the pause. */
  async #prepareStart(signal: AbortSignal): Promise<void> {
    const { context, log } = this.#deps;
    try {
      await (await context.engines.chosen(signal)).prepare();
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ reason: firstLine(error) }, 'the start of a VM cannot be prepared');
    }
  }

  async #read(
    id: string,
    { move }: Prefetch,
    signal: AbortSignal,
  ): Promise<{ readonly copy: StoreManifest; readonly archive: Parked['archive'] } | undefined> {
    const copy = await this.#deps.shared.store.ahead.find(id, move, signal);
    return copy && { copy, archive: readParked(copy).archive };
  }

  async #write(own: Prefetch, copy: StoreManifest, signal: AbortSignal): Promise<number> {
    const files = filesIn(own.dir);
    const { shared, rightOfWay } = this.#deps;
    const giveWay = (stop: AbortSignal) => rightOfWay.give(stop);
    const { bytes } = await shared.store.download(copy, files, signal, { content: own.content, giveWay });
    await giveWay(signal);
    own.checksums = await ChunkChecksums.of(files.memory, signal);
    for (const path of Object.values(files)) await flush(path);
    signal.throwIfAborted();
    return bytes;
  }

  /** What is here of that departure, also of a fetch that is not over; it ends. Undefined: nothing. */
  async take(id: string, departure: string): Promise<Prefetched | undefined> {
    const own = this.#all.get(id);
    if (own === undefined) return undefined;
    if (own.departure !== departure) {
      await this.forget(id);
      return undefined;
    }
    this.#all.delete(id);
    await this.#end(own);
    const { dir, content, checksums } = own;
    return {
      ...{ files: filesIn(dir), content, checksums },
      [Symbol.asyncDispose]: () => this.#remove(id, dir),
    };
  }

  /** Its move does not come, or has come. Never rejects. */
  async forget(id: string): Promise<void> {
    const own = this.#all.get(id);
    if (own === undefined) return;
    this.#all.delete(id);
    await this.#end(own);
    await this.#remove(id, own.dir);
  }

  /** The move may still come: it is not fetched ahead again. */
  async #expire(id: string, own: Prefetch): Promise<void> {
    if (this.#all.get(id) !== own) return;
    own.state = 'over';
    delete own.departure;
    this.#deps.log.warn({ sandbox: id }, 'a sandbox that has sent its state ahead does not come');
    await this.#end(own);
    await this.#remove(id, own.dir);
  }

  async #end(own: Prefetch): Promise<void> {
    clearTimeout(own.timer);
    own.abort.abort(new AppError('cancelled', 'it is not fetched ahead any more'));
    await own.done.catch(() => undefined);
  }

  async #remove(id: string, dir: string): Promise<void> {
    await removeSaved(dir).catch((error: unknown) =>
      this.#deps.log.warn(
        { sandbox: id, reason: firstLine(error) },
        'cannot remove what was fetched ahead; the next daemon does',
      ),
    );
  }
}

function filesIn(dir: string): Record<PrefetchedPart, string> {
  return { memory: join(dir, 'memory'), state: join(dir, 'state'), disk: join(dir, 'disk') };
}
