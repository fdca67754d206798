// Which images go when their disk or their records exceed a limit.
import { chooseEvicted } from '../lib/fair-share.ts';
import type { ImageFiles } from './files.ts';
import { MAX_RECORDS_BYTES, type StoredImage } from './record.ts';

/**
 * Unused images until disk and records are within their limits: of the owner with the most, the least recently used
 * first. Never the newest. `maxBytes` 0: no limit of the disk.
 */
export async function chooseEvictedImages(
  images: readonly StoredImage[],
  { files, maxBytes }: { readonly files: ImageFiles; readonly maxBytes: number },
): Promise<readonly { readonly id: string; readonly refs: readonly string[] }[]> {
  const newest = images.reduce((last, { record }) => Math.max(last, record.usedAtMs), 0);
  const entries = await Promise.all(
    images.map(async ({ id, record }) => ({
      id,
      refs: record.refs,
      owner: record.owner,
      size: await files.sizeOf(record),
      recordBytes: Buffer.byteLength(JSON.stringify(record)),
      usedAtMs: record.usedAtMs,
      isPinned: record.usedAtMs === newest || (await files.isUsed(record)),
    })),
  );
  // Shared blobs are on disk once, but counted for each image.
  const shared = entries.reduce((sum, { size }) => sum + size, 0) - (await files.totalBytes());
  const evictedForDisk = maxBytes === 0 ? [] : chooseEvicted(entries, maxBytes + Math.max(0, shared));
  const left = entries.filter((entry) => !evictedForDisk.includes(entry));
  const records = left.map((entry) => ({ ...entry, size: entry.recordBytes }));
  return [...evictedForDisk, ...chooseEvicted(records, MAX_RECORDS_BYTES)];
}
