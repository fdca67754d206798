// What images take in the bucket, which all hosts share, and how many there are.
import { AppError } from '../lib/errors.ts';
import { NAMES } from './image-names.ts';
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
  readonly #chunks: string;

  constructor(use: StoredUse, keys: StoreKeys) {
    this.#use = use;
    this.#chunks = `chunks/${keys.tenant(IMAGES_TENANT).tag}/`;
  }

  /** As of the last image that this host sent, or wanted to send. */
  last(): number {
    return this.#use.knownBelow(this.#chunks) + this.#use.knownBelow(IMAGES);
  }

  /**
   * Whether one more fits whole, however well it can be compressed: what is cut off takes space for a day. Gives the
   * limit of all chunks. AppError forbidden; rejects as the bucket does.
   */
  async admitImage(
    sizeBytes: number,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<StoredLimit | undefined> {
    const images = await this.#use.countBelow(IMAGES, signal);
    if (images.objects >= MAX_IMAGES) throw tooMany('images', MAX_IMAGES);
    if (maxBytes === 0) return undefined;
    const chunks = await this.#use.countBelow(this.#chunks, signal);
    const total = chunks.bytes + images.bytes + sizeBytes;
    if (total <= maxBytes) return { max: maxBytes - images.bytes, whose: WHOSE };
    throw new AppError(
      'forbidden',
      `the limit of ${WHOSE} forbids it: with this image they would take ${total} bytes, and may take ${maxBytes}; ` +
        'delete images that are not needed: their space is free after the next `sandboxd store gc`',
    );
  }

  /** AppError forbidden; rejects as the bucket does. */
  async admitName(signal: AbortSignal): Promise<void> {
    const { objects } = await this.#use.countBelow(NAMES, signal);
    if (objects >= MAX_NAMES) throw tooMany('names of images', MAX_NAMES);
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
