// All images in the bucket and their names, as this host last read them: only what has changed since is read again.
import { forEachAtOnce } from '../lib/for-each-at-once.ts';
import { isDamage, NAMES, type Named, readName } from './image-names.ts';
import { MAX_NAMES } from './image-use.ts';
import { IMAGES, MAX_SEALED_MANIFEST_BYTES, openManifest } from './manifest.ts';
import { type Bucket, MAX_REQUESTS } from './s3/bucket.ts';
import type { StoreKeys } from './store-keys.ts';

/** An answer has 8 MiB of images of one host at most, and these beside them. */
const MAX_LISTED = 10_000;
const MAX_LISTED_BYTES = 8 * 2 ** 20;

/** `description`: undefined if it cannot be read. */
type KnownImage = { readonly etag: string; readonly agoMs: number; readonly description: unknown };
type KnownName = { readonly etag: string; readonly name: Named | undefined };

export type ListedImage = {
  readonly id: string;
  readonly description: unknown;
  /** Those that lead to it. */
  readonly names: readonly string[];
};

export class ImageCatalogue {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  #images = new Map<string, KnownImage>();
  #names = new Map<string, KnownName>();
  #reading: Promise<void> | undefined;

  constructor(bucket: Bucket, keys: StoreKeys) {
    this.#bucket = bucket;
    this.#keys = keys;
  }

  /** Reads what a list of now has. Rejects as the bucket does. */
  async refresh(signal: AbortSignal): Promise<void> {
    // One that began earlier may lack what was written since.
    await this.#reading?.catch(() => undefined);
    this.#reading ??= this.#read(signal).finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /** References whose name leads to this image. */
  namesOf(id: string): string[] {
    return [...this.#names.values()].flatMap(({ name }) => (name?.id === id ? [name.ref] : []));
  }

  /** The newest, whose descriptions have a limited size together. */
  images(): readonly ListedImage[] {
    const names = Map.groupBy(
      [...this.#names.values()].flatMap(({ name }) => (name?.id === undefined ? [] : [name])),
      ({ id }) => id,
    );
    return [...this.#images].flatMap(([id, { description }]) =>
      description === undefined
        ? []
        : [{ id, description, names: (names.get(id) ?? []).map(({ ref }) => ref) }],
    );
  }

  async #read(signal: AbortSignal): Promise<void> {
    await this.#readNames(signal);
    await this.#readImages(signal);
  }

  async #readNames(signal: AbortSignal): Promise<void> {
    const listed = new Map<string, string>();
    for await (const page of this.#bucket.list(NAMES, signal)) {
      for (const { key, etag } of page) listed.set(key, etag);
      if (listed.size > MAX_NAMES) break;
    }
    const known = new Map<string, KnownName>();
    const look = async ([path, etag]: [string, string], signal: AbortSignal): Promise<void> => {
      const before = this.#names.get(path);
      if (before !== undefined && before.etag === etag) {
        known.set(path, before);
        return;
      }
      const found = await readName(this.#bucket, this.#keys, path, signal);
      if (found !== undefined) known.set(path, { etag, name: found.name });
    };
    await forEachAtOnce(listed, MAX_REQUESTS, look, signal);
    this.#names = known;
  }

  async #readImages(signal: AbortSignal): Promise<void> {
    const listed: { readonly id: string; readonly etag: string; readonly agoMs: number }[] = [];
    for await (const page of this.#bucket.list(IMAGES, signal))
      for (const { key, etag, agoMs } of page) listed.push({ id: key.slice(IMAGES.length), etag, agoMs });
    const newest = listed.sort((a, b) => a.agoMs - b.agoMs).slice(0, MAX_LISTED);
    const known = new Map<string, KnownImage>();
    let bytes = 0;
    const look = async ({ id, etag, agoMs }: (typeof listed)[number], signal: AbortSignal): Promise<void> => {
      const before = this.#images.get(id);
      const description =
        before?.etag === etag ? before.description : await this.#readDescription(id, signal);
      bytes += JSON.stringify(description ?? '').length;
      if (bytes <= MAX_LISTED_BYTES) known.set(id, { etag, agoMs, description });
    };
    await forEachAtOnce(newest, MAX_REQUESTS, look, signal);
    this.#images = known;
  }

  /** Undefined: it is gone, or damaged; a fetch names the reason. */
  async #readDescription(id: string, signal: AbortSignal): Promise<unknown> {
    const sealed = await this.#bucket.get(`${IMAGES}${id}`, MAX_SEALED_MANIFEST_BYTES, signal);
    if (sealed === undefined) return undefined;
    try {
      return (await openManifest(this.#keys, id, sealed)).description;
    } catch (error) {
      if (isDamage(error)) return undefined;
      throw error;
    }
  }
}
