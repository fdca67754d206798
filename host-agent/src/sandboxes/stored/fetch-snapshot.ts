// Fetches a snapshot of the store: whether it fits this host is checked before a chunk is read.
import { join } from 'node:path';
import { asNoSpace } from '../admission.ts';
import { placeImported } from '../saved/place-imported.ts';
import { type Entry, type Fill, noSnapshot, type SnapshotRecord } from '../snapshot-record.ts';
import { readDescription, sizeOf, toRecord } from './description.ts';
import type { SharedDeps } from './shared.ts';
import { isExpired } from './stored-expiry.ts';

export type FetchDeps = SharedDeps & {
  readonly local: {
    readonly find: (id: string) => Entry | undefined;
    /** Adds one whose files `fill` writes to a new directory. */
    readonly add: (id: string, record: SnapshotRecord, fill: Fill) => Promise<void>;
  };
};

/** Resolves with the size of what was written. AppError as of StoredSnapshots.fetch; everything is undone then. */
export async function fetchSnapshot(
  id: string,
  { store, resolve, admission, local }: FetchDeps,
  signal: AbortSignal,
): Promise<number> {
  const startedAt = performance.now();
  const manifest = await store.read(id, signal);
  // What is left of a delete that was broken off does not come back.
  if (manifest === undefined || (await store.isDeleted(id, signal))) throw noSnapshot(id);
  const description = readDescription(manifest);
  if (isExpired(description)) throw noSnapshot(id);
  const { archive } = description;
  const { secrets, ...options } = await resolve(archive, signal);
  const bytes = sizeOf(manifest);
  const fill: Fill = async (dir) => {
    const paths = Object.entries(archive.parts).map(([part, { name }]) => [part, join(dir, name)]);
    const write = () => store.download(manifest, Object.fromEntries(paths), signal);
    const saved = await placeImported({ dir, manifest: archive, options, signal, write });
    const durationMs = Math.round(performance.now() - startedAt);
    return { saved, event: { kind: 'snapshot-fetched', snapshot: id, durationMs, bytes } };
  };
  try {
    using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes: bytes });
    await local.add(id, { ...toRecord(description), secrets }, fill);
    return bytes;
  } catch (error) {
    throw asNoSpace(error, 'fetch the snapshot', 'fetch') ?? error;
  }
}
