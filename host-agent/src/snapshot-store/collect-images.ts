// Collection of images: names that nothing uses, and images that no name leads to.
import { firstLine } from '../lib/errors.ts';
import { type FoundName, NAMES, readName } from './image-names.ts';
import { collectShares } from './image-shares.ts';
import { IMAGES } from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import { COLLECTED_AGE_MS } from './seen-chunks.ts';
import type { StoreKeys } from './store-keys.ts';

const DAY_MS = 24 * 3_600_000;
/** Since it was put, or last used. */
const MAX_NAME_AGE_MS = 30 * DAY_MS;
/** Of one that leads nowhere since a delete: what an older pull puts by then is refused. */
const MAX_WITHDRAWN_AGE_MS = 7 * DAY_MS;

/**
 * Removes names that lead nowhere or that nothing used for a month, and images without a name; of both, what says whose
 * they were goes with the next collection. Gives the problems of
 * names that cannot be read: they may lead to any image, so that none is removed.
 */
export async function collectImages(bucket: Bucket, keys: StoreKeys, signal: AbortSignal): Promise<string[]> {
  // Names first: the image of each is older.
  const names: { readonly path: string; readonly found: FoundName }[] = [];
  const problems: string[] = [];
  for await (const page of bucket.list(NAMES, signal))
    for (const { key } of page) {
      const found = await readName(bucket, keys, key, signal);
      if (found === undefined) continue;
      if (found.name === undefined) problems.push(firstLine(found.problem));
      names.push({ path: key, found });
    }
  const images = new Map<string, number>();
  for await (const page of bucket.list(IMAGES, signal))
    for (const { key, agoMs } of page) images.set(key.slice(IMAGES.length), agoMs);
  const used = new Set(names.map(({ found }) => found.name?.id));
  for (const { path, found } of names) {
    const { name, agoMs } = found;
    const isLost = name?.id !== undefined && !images.has(name.id);
    const isWithdrawn = name !== undefined && name.id === undefined;
    if (!isLost && agoMs <= (isWithdrawn ? MAX_WITHDRAWN_AGE_MS : MAX_NAME_AGE_MS)) continue;
    // A host may have changed it since.
    const now = await readName(bucket, keys, path, signal);
    if (now !== undefined && now.etag === found.etag) await bucket.remove(path, signal);
  }
  const there = new Set([
    ...names.map(({ path }) => path),
    ...[...images.keys()].map((id) => `${IMAGES}${id}`),
  ]);
  await collectShares(bucket, (path) => there.has(path), signal);
  if (problems.length > 0) return problems;
  for (const [id, agoMs] of images) {
    const path = `${IMAGES}${id}`;
    if (used.has(id) || agoMs <= COLLECTED_AGE_MS) continue;
    // A host may have given it a new age.
    const now = await bucket.head(path, signal);
    if (now !== undefined && now.agoMs > COLLECTED_AGE_MS) await bucket.remove(path, signal);
  }
  return problems;
}
