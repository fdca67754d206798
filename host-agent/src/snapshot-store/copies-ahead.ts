// What sandboxes that are to leave their host sent while they ran: the host where one will go on fetches it before the
// pause. It makes nothing exist, and who has the sandbox does not depend on it.
import {
  AHEAD,
  idOfPath,
  MAX_SEALED_MANIFEST_BYTES,
  openManifest,
  PARKED,
  type StoreManifest,
  sealManifest,
} from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import type { StoreKeys } from './store-keys.ts';

export class CopiesAhead {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;

  constructor(bucket: Bucket, keys: StoreKeys) {
    this.#bucket = bucket;
    this.#keys = keys;
  }

  async put(copy: StoreManifest, signal: AbortSignal): Promise<void> {
    const path = `${AHEAD}${copy.id}`;
    await this.#bucket.put(path, await sealManifest(this.#keys, copy, path), signal);
  }

  /**
   * The copy of a departure, of which `prefix` is the beginning; undefined: there is none. AppError `internal` if it is
   * damaged, `upstream`.
   */
  async find(sandbox: string, prefix: string, signal: AbortSignal): Promise<StoreManifest | undefined> {
    const begin = `${AHEAD}${sandbox}/${prefix}`;
    for await (const page of this.#bucket.list(begin, signal))
      for (const { key: path } of page) {
        const id = idOfPath(`${PARKED}${path.slice(AHEAD.length)}`);
        if (id === undefined || !path.startsWith(begin)) continue;
        const sealed = await this.#bucket.get(path, MAX_SEALED_MANIFEST_BYTES, signal);
        // There is one, unless the bucket makes up names.
        return sealed && (await openManifest(this.#keys, id, sealed, path));
      }
    return undefined;
  }

  /** Its chunks stay until they are collected. */
  async remove(parkedId: string, signal: AbortSignal): Promise<void> {
    await this.#bucket.remove(`${AHEAD}${parkedId}`, signal);
  }
}
