// What images take in the bucket, which all hosts share, and how many there are.
import { AppError } from '../lib/errors.ts';
import { NAMES } from './image-names.ts';
import type { ImageShares } from './image-shares.ts';
import { IMAGES } from './manifest.ts';
import { IMAGES_TENANT, type StoreKeys } from './store-keys.ts';
import type { StoredLimit, StoredUse } from './stored-use.ts';

/** A collection reads all names, and lists read all images. */
export const MAX_NAMES = 50_000;
export const MAX_IMAGES = 20_000;
const NAME_BYTES = 500;
const WHOSE = 'shared images (shared_images_bytes)';

export class ImageUse {
  readonly #use: StoredUse;
  readonly #shares: ImageShares;
  readonly #chunks: string;

  constructor(use: StoredUse, keys: StoreKeys, shares: ImageShares) {
    this.#use = use;
    this.#shares = shares;
    this.#chunks = `chunks/${keys.tenant(IMAGES_TENANT).tag}/`;
  }

  /** As of the last image that this host sent, or wanted to send. */
  last(): number {
    return this.#use.knownBelow(this.#chunks) + this.#use.knownBelow(IMAGES);
  }

  /**
   * Whether one more fits whole, however well it can be compressed: what is cut off takes space for a day. Gives the
   * limit of all chunks. `owner`: whose share it takes. AppError forbidden; rejects as the bucket does.
   */
  async admitImage(
    image: { readonly id: string; readonly sizeBytes: number; readonly owner: string | undefined },
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<StoredLimit | undefined> {
    const images = await this.#use.countBelow(IMAGES, signal);
    if (images.objects >= MAX_IMAGES) throw tooMany('images', MAX_IMAGES);
    const chunks = maxBytes === 0 ? { bytes: 0 } : await this.#use.countBelow(this.#chunks, signal);
    const total = chunks.bytes + images.bytes + image.sizeBytes;
    if (maxBytes === 0 || total <= maxBytes) {
      const wanted = {
        bytes: { what: 'bytes of shared images (shared_images_bytes)', total, max: maxBytes },
        images: { what: 'shared images', total: images.objects + 1, max: MAX_IMAGES },
      };
      if (image.owner !== undefined) await this.#shares.admitImage(image.owner, image, wanted, signal);
      return maxBytes === 0 ? undefined : { max: maxBytes - images.bytes, whose: WHOSE };
    }
    throw new AppError(
      'forbidden',
      `the limit of ${WHOSE} forbids it: with this image they would take ${total} bytes, and may take ${maxBytes}; ` +
        'delete images that are not needed: their space is free after the next `sandboxd store gc`',
    );
  }

  /** AppError forbidden; rejects as the bucket does. */
  async admitName(path: string, owner: string | undefined, signal: AbortSignal): Promise<void> {
    const { objects } = await this.#use.countBelow(NAMES, signal);
    if (objects >= MAX_NAMES) throw tooMany('names of images', MAX_NAMES);
    const wanted = { what: 'names of shared images', total: objects + 1, max: MAX_NAMES };
    if (owner !== undefined) await this.#shares.admitName(owner, path, wanted, signal);
  }

  /** Has been sent. */
  addImage(description: unknown): void {
    this.#use.add(IMAGES, JSON.stringify(description).length);
  }

  addName(): void {
    this.#use.add(NAMES, NAME_BYTES);
  }
}

function tooMany(what: string, max: number): AppError {
  return new AppError(
    'forbidden',
    `the snapshot store has ${max} ${what} or more, and takes no further one; delete some`,
  );
}
