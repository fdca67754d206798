// Marks of deleted snapshots: other hosts that have a copy remove it.
import { isAppError } from '../lib/errors.ts';
import { snapshotIdSchema } from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import type { StoreKeys } from './store-keys.ts';

export const DELETED = 'deleted/';
const MAX_MARK_BYTES = 4096;

/** Whether a host with the key wrote it: others delete nothing, and keep no work on other snapshots from its end. */
export async function isMarked(
  bucket: Bucket,
  keys: StoreKeys,
  id: string,
  signal?: AbortSignal,
): Promise<boolean> {
  const path = `${DELETED}${id}`;
  try {
    const sealed = await bucket.get(path, MAX_MARK_BYTES, signal);
    return sealed !== undefined && keys.open(path, sealed).toString() === id;
  } catch (error) {
    if (isAppError(error) && error.code === 'internal') return false;
    throw error;
  }
}

/** Ids of snapshots with a mark, and its age, in pages. */
export async function* listMarked(
  bucket: Bucket,
  signal?: AbortSignal,
): AsyncGenerator<readonly { readonly id: string; readonly agoMs: number }[]> {
  for await (const page of bucket.list(DELETED, signal))
    yield page.flatMap(({ key, agoMs }) => {
      const { data: id } = snapshotIdSchema.safeParse(key.slice(DELETED.length));
      return id === undefined ? [] : [{ id, agoMs }];
    });
}
