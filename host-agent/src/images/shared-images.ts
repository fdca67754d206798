// Images that hosts of a fleet share: what one has pulled or imported under a name, another fetches from the bucket
// instead of the registry. All of it is a help: where the bucket fails, an image is pulled as without it.
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { AppError, errnoOf, isAppError, toError } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import { type BuiltImage, commitImage } from './build-image.ts';
import type { Report } from './fetch/download-progress.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { ImageRecord, StoredImage } from './record.ts';
import { isLoopback, parseReference } from './reference.ts';
import { type Described, described, idOf } from './shared-description.ts';

/** Until the bucket says whether it has an image; then the registry is asked. */
const FIND_MS = 5000;
const WITHDRAW_MS = 5000;
/** A whole download: this, and the time that the file takes at this rate. */
const FETCH_MS = 30_000;
const FETCH_BYTES_PER_MS = 1000;
const BACK_OFF = { firstMs: 5000, mostMs: 300_000, jitter: 0.25 };
/** Names to be put or withdrawn. */
const MAX_WAITING = 4096;
const MAX_DAMAGED = 1000;
/** Kernel and programs of another machine cannot run it. */
const MACHINE = process.arch;
const DIGEST = /^sha256:([\da-f]{64})$/;

type FoundImage = {
  readonly id: string;
  readonly description: unknown;
  readonly download: (path: string, signal: AbortSignal, onProgress: () => void) => Promise<void>;
};

/** Where they are: names lead to files with descriptions. */
export interface ImageDepot {
  find(name: string, signal: AbortSignal): Promise<FoundImage | undefined>;
  findImage(id: string, signal: AbortSignal): Promise<FoundImage | undefined>;
  ensure(
    image: { readonly id: string; readonly description: unknown; readonly path: string },
    options: { readonly isAnew: boolean },
    signal: AbortSignal,
  ): Promise<void>;
  name(name: string, id: string, atMs: number, signal: AbortSignal): Promise<void>;
  withdraw(name: string, id: string | undefined, atMs: number, signal: AbortSignal): Promise<boolean>;
}

export type SharedImagesOptions = {
  readonly depot: ImageDepot;
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  /** Names that wait to be withdrawn, by their digest: a later daemon goes on. */
  readonly withdrawals: Table<Withdrawal>;
  /** Without a chunk of a download; then the registry is asked. */
  readonly idleMs: number;
  readonly log: Logger;
};

export type FetchTask = {
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
  /** Owner of the image if it is new here. */
  readonly owner?: string | undefined;
};

export type Withdrawal = { readonly ref: string; readonly id: string; readonly atMs: number };

/** What becomes of a name in the bucket. */
type Wish = { readonly id: string; readonly atMs: number; readonly isWithdrawn: boolean };

export class SharedImages {
  readonly #options: SharedImagesOptions;
  readonly #stop = new AbortController();
  /** By reference. */
  readonly #waiting = new Map<string, Wish>();
  /** Images that were found damaged in the bucket: sent whole when they are offered again. */
  readonly #damaged = new Set<string>();
  #running: Promise<void> | undefined;

  constructor(options: SharedImagesOptions) {
    this.#options = options;
  }

  /** Continues what an earlier daemon could not withdraw. */
  start(): void {
    for (const { record } of this.#options.withdrawals.all())
      this.#add(record.ref, { id: record.id, atMs: record.atMs, isWithdrawn: true });
  }

  /** What is not sent by then is not sent; names that are to be withdrawn are by the next daemon. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** In the background, one at a time. `atMs`: when its pull or import began. */
  offer({ image: { id }, names }: BuiltImage, atMs: number): void {
    for (const ref of names) if (isShared(ref)) this.#add(ref, { id, atMs, isWithdrawn: false });
  }

  /** By a reference, or the digest of an image. Undefined: not there, or not to be had now; rejects when aborted. */
  async fetch(ref: string, task: FetchTask): Promise<StoredImage | undefined> {
    try {
      return DIGEST.test(ref) || isShared(ref) ? await this.#fetch(ref, task) : undefined;
    } catch (error) {
      task.signal?.throwIfAborted();
      const reason = toError(error).message;
      this.#options.log.warn({ image: ref, reason }, 'cannot fetch an image from the snapshot store');
      return undefined;
    }
  }

  /** These names lead to this image no more; what fails now is tried again, also by a later daemon. */
  async withdraw(refs: readonly string[], id: string): Promise<void> {
    const { depot, log } = this.#options;
    const atMs = Date.now();
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(WITHDRAW_MS)]);
    for (const ref of refs.filter(isShared))
      try {
        await depot.withdraw(toName(ref), id, atMs, signal);
      } catch (error) {
        log.warn(
          { ref, reason: toError(error).message },
          'a name of an image is not deleted in the snapshot store yet',
        );
        await this.#note({ ref, id, atMs });
        this.#add(ref, { id, atMs, isWithdrawn: true });
      }
  }

  /** A name of an image that is not on this host. False: it leads nowhere, or the bucket does not answer. */
  async withdrawUnknown(ref: string): Promise<boolean> {
    const { depot, log } = this.#options;
    if (!isShared(ref)) return false;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(WITHDRAW_MS)]);
    return await depot.withdraw(toName(ref), undefined, Date.now(), signal).catch((error: unknown) => {
      log.warn({ ref, reason: toError(error).message }, 'a name of an image stays in the snapshot store');
      return false;
    });
  }

  async #fetch(ref: string, { report, signal, owner }: FetchTask): Promise<StoredImage | undefined> {
    const { depot, files, records } = this.#options;
    const soon = AbortSignal.any([...(signal ? [signal] : []), AbortSignal.timeout(FIND_MS)]);
    const digest = DIGEST.exec(ref)?.[1];
    const found = await (digest === undefined
      ? depot.find(toName(ref), soon)
      : depot.findImage(digest, soon));
    if (found === undefined) return undefined;
    const { id } = found;
    const { machine, ...about } = described.parse(found.description);
    if (machine !== MACHINE || idOf(about) !== id) return undefined;
    const path = files.rootfsPath(about.rootfsDigest);
    const known = existsSync(path) ? records.get(id) : undefined;
    await using work = await files.makeWork();
    if (known === undefined) {
      report('fetching the image from the snapshot store');
      using disk = watchFreeDisk(work.dir, signal);
      const file = join(work.dir, 'image');
      try {
        await this.#download(found, file, about.sizeBytes, disk.signal);
        const hash = createHash('sha256');
        await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash, { signal: disk.signal });
        if (hash.digest('hex') !== about.rootfsDigest)
          throw new AppError('internal', 'its content is another');
      } catch (error) {
        const isDamaged = isAppError(error) && error.code === 'internal';
        if (isDamaged && this.#damaged.size < MAX_DAMAGED) this.#damaged.add(id);
        throw error;
      }
      await link(file, path).catch((error) => {
        if (errnoOf(error) !== 'EEXIST') throw error;
      });
    }
    const now = Date.now();
    const record = { refs: [], blobs: [], ...about, usedAtMs: now, ...(owner !== undefined && { owner }) };
    // A pull or an import that ended meanwhile is newer.
    const isKept = (holder: StoredImage) => existsSync(files.rootfsPath(holder.record.rootfsDigest));
    const isNew = known === undefined;
    const refs = digest === undefined ? [ref] : [];
    return await commitImage(records, { id, record: known ?? record }, refs, { isNew, isKept });
  }

  /** Gives up when nothing comes for a while, or when it takes too long for its size. */
  async #download(
    found: Pick<FoundImage, 'download'>,
    file: string,
    sizeBytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { idleMs } = this.#options;
    const stalled = new AbortController();
    const stall = (): void => stalled.abort(new Error(`the snapshot store sent nothing for ${idleMs} ms`));
    const idle = setTimeout(stall, idleMs);
    const total = AbortSignal.timeout(
      Math.min(2 ** 31 - 1, FETCH_MS + Math.ceil(sizeBytes / FETCH_BYTES_PER_MS)),
    );
    try {
      await found.download(file, AbortSignal.any([signal, stalled.signal, total]), () => idle.refresh());
    } finally {
      clearTimeout(idle);
    }
  }

  #add(ref: string, wish: Wish): void {
    this.#waiting.delete(ref);
    this.#waiting.set(ref, wish);
    if (this.#waiting.size > MAX_WAITING) {
      const [oldest = ''] = this.#waiting.keys();
      this.#waiting.delete(oldest);
    }
    this.#run();
  }

  /** One that is done twice changes nothing: what is later has the name. Never rejects. */
  async #note(withdrawal: Withdrawal): Promise<void> {
    const { withdrawals, log } = this.#options;
    if (withdrawals.all().length >= MAX_WAITING) return;
    await withdrawals
      .put(toKey(withdrawal.ref), withdrawal)
      .catch((err: unknown) => log.warn({ err }, 'cannot record that a name of an image is to be deleted'));
  }

  async #settled(ref: string, { atMs, isWithdrawn }: Wish): Promise<void> {
    const { withdrawals, log } = this.#options;
    if (!isWithdrawn || withdrawals.get(toKey(ref))?.atMs !== atMs) return;
    await withdrawals
      .remove(toKey(ref))
      .catch((err: unknown) => log.warn({ err }, 'cannot forget a name of an image that is deleted'));
  }

  #run(): void {
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#send().finally(() => {
      this.#running = undefined;
      if (this.#waiting.size > 0) this.#run();
    });
  }

  async #send(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; this.#waiting.size > 0 && !signal.aborted; ) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [ref, wish] = next;
      this.#waiting.delete(ref);
      try {
        await this.#sendOne(ref, wish, signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const reason = toError(error).message;
        this.#options.log.warn(
          { ref, reason },
          'a name of an image is not changed in the snapshot store yet',
        );
        // What the bucket never takes is not tried again.
        if (isAppError(error) && error.code !== 'upstream') {
          await this.#settled(ref, wish);
          continue;
        }
        if (!this.#waiting.has(ref)) this.#waiting.set(ref, wish);
        failures += 1;
        await pause(backOffMs(failures, BACK_OFF), signal);
      }
    }
  }

  async #sendOne(ref: string, { id, atMs, isWithdrawn }: Wish, signal: AbortSignal): Promise<void> {
    const { depot, files, records } = this.#options;
    if (isWithdrawn) {
      await depot.withdraw(toName(ref), id, atMs, signal);
      await this.#settled(ref, { id, atMs, isWithdrawn });
      return;
    }
    const hasName = (): boolean => records.get(id)?.refs.includes(ref) === true;
    const record = records.get(id);
    if (record === undefined || !hasName()) return;
    const hold = await files.hold(record.rootfsDigest).catch(() => undefined);
    if (hold === undefined) return;
    await using _hold = hold;
    const description: Described = {
      ...{ machine: MACHINE, configDigest: record.configDigest, config: record.config },
      ...{ layers: record.layers, rootfsDigest: record.rootfsDigest, ...(record.isCopy && { isCopy: true }) },
      ...{ sizeBytes: record.sizeBytes, entries: record.entries, contentBytes: record.contentBytes },
      convertedAtMs: record.convertedAtMs,
    };
    const isAnew = this.#damaged.has(id);
    await depot.ensure({ id, description, path: hold.path }, { isAnew }, signal);
    if (isAnew) this.#damaged.delete(id);
    if (hasName()) await depot.name(toName(ref), id, atMs, signal);
    // A delete during that may have found no name.
    if (!hasName()) await depot.withdraw(toName(ref), id, Date.now(), signal);
  }
}

/** A whole one, of an image: by it no registry is asked. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text);
}

/** A registry of the host itself is another one on each. */
function isShared(ref: string): boolean {
  const reference = parseReference(ref);
  return reference !== undefined && !isLoopback(reference);
}

function toKey(ref: string): string {
  return createHash('sha256').update(ref).digest('hex');
}

/** Each machine has its own image of a name. */
function toName(ref: string): string {
  return `${MACHINE} ${ref}`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms).unref();
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
