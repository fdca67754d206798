// What the snapshot store keeps about a snapshot: what an export has, its owner, and what a host needs to list it.
import { z } from 'zod';
import type { Owner } from '../../keys/index.ts';
import { AppError, toError } from '../../lib/errors.ts';
import { diskBytesOf, type StoreManifest } from '../../snapshot-store/index.ts';
import { archiveManifestSchema, PARTS } from '../saved/archive/format.ts';
import { checkSizes } from '../saved/archive/read-archive.ts';
import { describeArchive } from '../saved/archive/write-archive.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import { snapshotDir } from '../snapshot-making.ts';
import type { Entry, SnapshotRecord } from '../snapshot-record.ts';
import type { SnapshotInfo } from '../types.ts';

const MAX_REASON_CHARS = 300;
const time = z.int().min(0);
const snapshotId = z.string().regex(/^snap_[0-9a-v]{13}$/);

const descriptionSchema = z.strictObject({
  archive: archiveManifestSchema,
  owner: z
    .strictObject({ key: z.string(), tenant: z.string().optional() })
    .transform(({ key, tenant }): Owner => (tenant === undefined ? { key } : { key, tenant }))
    .optional(),
  parentId: snapshotId.optional(),
  expiresAtMs: time.optional(),
  automatic: z.strictObject({ keepLast: z.int().min(1).optional() }).optional(),
});

export type Description = z.infer<typeof descriptionSchema>;

export async function describeSnapshot({
  record,
  saved,
}: Pick<Entry, 'record' | 'saved'>): Promise<Description> {
  const { sourceId, createdAtMs, about = {}, owner, parentId, expiresAtMs, automatic } = record;
  return {
    archive: await describeArchive(saved, { sourceId, takenAtMs: createdAtMs, about }),
    ...(owner && { owner }),
    ...(parentId !== undefined && { parentId }),
    ...(expiresAtMs !== undefined && { expiresAtMs }),
    ...(automatic && { automatic }),
  };
}

/** Files of a snapshot by their part, for the store. */
export function partsOf({ dir, manifest }: Pick<SavedGuest, 'dir' | 'manifest'>) {
  return PARTS.map((part) => ({ part, path: `${dir}/${manifest.files[part].name}` }));
}

/** AppError `internal` with the reason, also if its files are not those that it describes. */
export function readDescription({ id, tenant, description, files }: StoreManifest): Description {
  try {
    const read = descriptionSchema.parse(description);
    const { archive, owner } = read;
    if (owner?.tenant !== tenant) throw new Error('its chunks are not of its owner');
    checkSizes(archive);
    const isSame = PARTS.every((part, at) => {
      const file = files[at];
      return file?.part === part && file.sizeBytes === archive.parts[part].sizeBytes;
    });
    if (!isSame || files.length !== PARTS.length) throw new Error('its files are not those of a snapshot');
    return read;
  } catch (cause) {
    const reason = toError(cause).message.replaceAll(/\s+/g, ' ').slice(0, MAX_REASON_CHARS);
    throw new AppError('internal', `snapshot ${id} of the snapshot store cannot be used: ${reason}`, {
      stage: 'store',
      cause,
    });
  }
}

/** Disk space of its files before anything is written to them. */
export function sizeOf({ files }: StoreManifest): number {
  return files.reduce((sum, file) => sum + diskBytesOf(file), 0);
}

/** The record that it has on a host that fetched it. */
export function toRecord({ archive, owner, parentId, expiresAtMs, automatic }: Description): SnapshotRecord {
  const { sourceId, takenAtMs, options } = archive;
  return {
    createdAtMs: takenAtMs,
    sourceId,
    about: options.about ?? {},
    ...(owner && { owner }),
    ...(parentId !== undefined && { parentId }),
    ...(expiresAtMs !== undefined && { expiresAtMs }),
    ...(automatic && {
      automatic: automatic.keepLast === undefined ? {} : { keepLast: automatic.keepLast },
    }),
    isComplete: false,
  };
}

/** With another time of expiry. As JSON: parsed values have no other fields. */
export function describeAgain(description: Description, expiresAtMs: number): Description {
  return { ...description, expiresAtMs };
}

/** Of one that this host does not have; its paths are those that a fetch would write. */
export function toRemoteInfo(id: string, description: Description, dataDir: string): SnapshotInfo {
  const { parentId, expiresAtMs, automatic, archive } = description;
  const { sourceId, takenAtMs, options, parts } = archive;
  const dir = snapshotDir(dataDir, id);
  return {
    id,
    createdAt: new Date(takenAtMs),
    sourceId,
    ...(parentId !== undefined && { parentSnapshotId: parentId }),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs) }),
    ...(automatic && { isAutomatic: true as const }),
    dir,
    memoryPath: `${dir}/${parts.memory.name}`,
    rootfsPath: `${dir}/${parts.disk.name}`,
    statePath: `${dir}/${parts.state.name}`,
    memoryMib: options.memoryMib,
    vcpus: options.vcpus,
    storage: 'remote',
    ...options.about,
  };
}
