// Images that hosts of a fleet share: what one has pulled or imported under a name, another fetches from the bucket
// instead of the registry. All of it is a help: where the bucket fails, an image is pulled as without it.
import { AppError, firstLine, toError } from '../lib/errors.ts';
import type { BuiltImage } from './build-image.ts';
import { type ImageInfo, type StoredImage, toInfo } from './record.ts';
import { described, idOf } from './shared-description.ts';
import { type FetchTask, SharedFetch, type SharedFetchOptions } from './shared-fetch.ts';
import { isShared, MACHINE, refOfName, toName } from './shared-name.ts';
import { SharedQueue, type SharedQueueOptions } from './shared-queue.ts';

/** A client waits for it. */
const WITHDRAW_MS = 5000;
/** A gateway waits for 5 s. */
const LIST_MS = 4000;
const LIST_AGE_MS = 2000;
/** A first list reads all that the bucket has. */
const READ_MS = 10 * 60_000;

export type SharedImagesOptions = SharedFetchOptions & Omit<SharedQueueOptions, 'damaged'>;

const [LOCAL, STORED, REMOTE] = ['local', 'stored', 'remote'] as const;
const WHOLE_DIGEST = /^(?:sha256:)?([\da-f]{64})$/;

export type ListedImages = {
  /** `storage`: where it is; absent where the host shares no images. */
  readonly images: readonly (ImageInfo & { readonly storage?: 'local' | 'stored' | 'remote' })[];
  /** Why it may lack some of the bucket. */
  readonly problem?: string;
};

export class SharedImages {
  readonly #options: SharedImagesOptions;
  readonly #fetch: SharedFetch;
  readonly #queue: SharedQueue;
  #listed: readonly ImageInfo[] = [];
  #listedAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;

  constructor(options: SharedImagesOptions) {
    this.#options = options;
    this.#fetch = new SharedFetch(options);
    this.#queue = new SharedQueue({ ...options, damaged: this.#fetch.damaged });
  }

  /** For metrics: names that wait to be changed, names over the limit, bytes in the bucket as last known. */
  get state() {
    return { ...this.#queue.counts, usedBytes: this.#options.depot.usedBytes() };
  }

  start(): void {
    this.#queue.start();
  }

  async stop(): Promise<void> {
    await this.#queue.stop();
  }

  /** In the background, one at a time. `atMs`: when its pull or import began; `owner`: who asked for it. */
  offer({ image: { id }, names }: BuiltImage, by: { atMs: number; owner: string | undefined }): void {
    for (const ref of names) if (isShared(ref)) this.#queue.put(ref, { id, ...by });
  }

  /** By a reference, or the digest of an image. Undefined: not there, or not to be had now; rejects when aborted. */
  async fetch(ref: string, task: FetchTask): Promise<StoredImage | undefined> {
    return await this.#fetch.fetch(ref, task);
  }

  /** These names lead to this image no more; what fails now is tried again, also by a later daemon. */
  async withdraw(refs: readonly string[], id: string): Promise<void> {
    const { depot, log } = this.#options;
    const atMs = Date.now();
    const signal = this.#soon();
    for (const ref of refs.filter(isShared))
      try {
        await depot.withdraw(toName(ref), id, atMs, signal);
      } catch (error) {
        log.warn(
          { ref, reason: toError(error).message },
          'a name of an image is not deleted in the snapshot store yet',
        );
        await this.#queue.withdraw({ ref, id, atMs });
      }
  }

  /** No name of any host leads to it from then on, nor its digest; what fails now is tried again. */
  async withdrawImage(id: string): Promise<void> {
    const { depot, log } = this.#options;
    const atMs = Date.now();
    try {
      await depot.withdrawImage(id, atMs, this.#soon());
    } catch (error) {
      log.warn(
        { image: id, reason: toError(error).message },
        'an image is not deleted in the snapshot store yet',
      );
    }
    this.#listedAt = Number.NEGATIVE_INFINITY;
    // Without the image names lead nowhere; one that comes again is not theirs. An upload may run.
    await this.#queue.withdraw({ ref: `sha256:${id}`, id, atMs });
  }

  /**
   * A whole digest, or a name in its canonical spelling, of an image that is not on this host. False: the bucket does
   * not have it either. AppError upstream.
   */
  async withdrawUnknown(text: string, name: string | undefined): Promise<boolean> {
    const { depot } = this.#options;
    const atMs = Date.now();
    const id = WHOLE_DIGEST.exec(text)?.[1];
    try {
      if (id === undefined)
        return (
          name !== undefined &&
          isShared(name) &&
          (await depot.withdraw(toName(name), undefined, atMs, this.#soon()))
        );
      if (!(await depot.withdrawImage(id, atMs, this.#soon()))) return false;
    } catch (cause) {
      throw new AppError(
        'upstream',
        `the image is not on this host, and in the snapshot store it cannot be deleted now: ${firstLine(cause)}`,
        { cause },
      );
    }
    this.#listedAt = Number.NEGATIVE_INFINITY;
    await this.#queue.withdraw({ ref: `sha256:${id}`, id, atMs });
    return true;
  }

  /** These of this host, and what the bucket has for hosts of its machine, 2 s ago at most if it answers. */
  async listWith(own: readonly ImageInfo[]): Promise<ListedImages> {
    const { images, problem } = await this.#list();
    const there = new Set(images.map(({ digest }) => digest));
    const here = new Set(own.map(({ digest }) => digest));
    const remote = images.filter(({ digest }) => !here.has(digest));
    const all = [
      ...own.map((each) => ({ ...each, storage: there.has(each.digest) ? STORED : LOCAL })),
      ...remote.map((each) => ({ ...each, storage: REMOTE })),
    ];
    return { images: all, ...(problem !== undefined && { problem }) };
  }

  async #list(): Promise<{ readonly images: readonly ImageInfo[]; readonly problem?: string }> {
    if (performance.now() - this.#listedAt < LIST_AGE_MS) return { images: this.#listed };
    this.#listing ??= this.#read().finally(() => {
      this.#listing = undefined;
    });
    const { promise, reject } = Promise.withResolvers<never>();
    const late = setTimeout(
      () => reject(new Error('the snapshot store has not sent the list yet; ask again')),
      LIST_MS,
    );
    try {
      await Promise.race([this.#listing, promise]);
      return { images: this.#listed };
    } catch (error) {
      return { images: this.#listed, problem: firstLine(error) };
    } finally {
      clearTimeout(late);
    }
  }

  async #read(): Promise<void> {
    const startedAt = performance.now();
    const signal = AbortSignal.any([this.#queue.signal, AbortSignal.timeout(READ_MS)]);
    const found = await this.#options.depot.list(signal);
    this.#listed = found.flatMap(({ id, description, names }) => {
      const { data } = described.safeParse(description);
      if (data === undefined || data.machine !== MACHINE || idOf(data) !== id) return [];
      const { machine: _, ...about } = data;
      const refs = names.flatMap((name) => refOfName(name) ?? []).sort();
      return toInfo({ id, record: { ...about, refs, blobs: [], usedAtMs: 0 } });
    });
    this.#listedAt = startedAt;
  }

  #soon(): AbortSignal {
    return AbortSignal.any([this.#queue.signal, AbortSignal.timeout(WITHDRAW_MS)]);
  }
}
