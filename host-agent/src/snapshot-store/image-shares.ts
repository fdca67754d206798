// Who put which images and names into the bucket, so that no tenant takes the space of the others: an empty object for
// each, whose path has the size, so that a list of them is enough.
import { AppError } from '../lib/errors.ts';
import type { Bucket } from './s3/bucket.ts';
import { COLLECTED_AGE_MS } from './seen-chunks.ts';
import type { StoreKeys } from './store-keys.ts';
import type { StoredUse } from './stored-use.ts';

const SHARES = 'shares/';
/** `shares/<owner>/images/<id>-<bytes>`, `shares/<owner>/names/<name>`. */
const SHARE = /^shares\/[\da-f]{32}\/(?:(images\/[\da-f]{64})-(\d{1,15})|(names\/[\da-f]{64}))$/;
const NOTHING = Buffer.alloc(0);

export type Wanted = {
  readonly what: string;
  /** What all have with the one that is to be put, and may have; 0: no limit. */
  readonly total: number;
  readonly max: number;
};

export class ImageShares {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  readonly #use: StoredUse;

  constructor(bucket: Bucket, keys: StoreKeys, use: StoredUse) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#use = use;
  }

  /**
   * Before an image is sent, which counts from then on. `wanted`: bytes, and the number of images. AppError forbidden;
   * rejects as the bucket does.
   */
  async admitImage(
    owner: string,
    { id, sizeBytes }: { readonly id: string; readonly sizeBytes: number },
    { bytes, images }: { readonly bytes: Wanted; readonly images: Wanted },
    signal: AbortSignal,
  ): Promise<void> {
    const path = `${this.#pathOf(owner)}images/`;
    const own = new Map([[id, sizeBytes]]);
    for await (const page of this.#bucket.list(path, signal))
      for (const { key } of page) {
        const [, image = '', size] = SHARE.exec(key) ?? [];
        const other = image.slice('images/'.length);
        if (other !== '' && other !== id) own.set(other, Number(size));
      }
    assertFair(owner, own.size, images);
    assertFair(
      owner,
      [...own.values()].reduce((sum, each) => sum + each, 0),
      bytes,
    );
    await this.#bucket.put(`${path}${id}-${sizeBytes}`, NOTHING, signal);
  }

  /** As `admitImage`, of a name by its path in the bucket. */
  async admitName(owner: string, namePath: string, wanted: Wanted, signal: AbortSignal): Promise<void> {
    const path = `${this.#pathOf(owner)}names/`;
    const { objects } = await this.#use.countBelow(path, signal);
    assertFair(owner, objects + 1, wanted);
    await this.#bucket.put(`${this.#pathOf(owner)}${namePath}`, NOTHING, signal);
    this.#use.add(path, 0);
  }

  /** Who reads the bucket learns no tenant. */
  #pathOf(owner: string): string {
    const digest = this.#keys.tenant(undefined).nameOf(Buffer.from(`owner of images\n${owner}`));
    return `${SHARES}${digest.slice(0, 32)}/`;
  }
}

/**
 * What one has may not be more than what is left free: the first takes a half, the next one a half of the rest, and
 * some is left for the next in any case (dynamic thresholds, as switches share their buffers). AppError forbidden.
 */
function assertFair(owner: string, own: number, { what, total, max }: Wanted): void {
  const free = max - total;
  if (max === 0 || own <= free) return;
  throw new AppError(
    'forbidden',
    `the share of ${JSON.stringify(owner)} forbids it: with this one it would have ${own} ${what}, and may not have ` +
      `more than what is left for others, ${Math.max(0, free)} of ${max}; delete images that are not needed, ` +
      'or give images more space',
  );
}

/** Removes those of images and names that are gone: `isThere` has their paths. */
export async function collectShares(
  bucket: Bucket,
  isThere: (path: string) => boolean,
  signal: AbortSignal,
): Promise<void> {
  for await (const page of bucket.list(SHARES, signal))
    for (const { key, agoMs } of page) {
      const [, image, , name] = SHARE.exec(key) ?? [];
      const path = image ?? name;
      if (agoMs > COLLECTED_AGE_MS && path !== undefined && !isThere(path)) await bucket.remove(key, signal);
    }
}
