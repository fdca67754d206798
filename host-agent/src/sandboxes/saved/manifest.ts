// What a saved guest says about itself: enough to know whether it can be restored here, and whether it is intact.
import { readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { AppError, toError } from '../../lib/errors.ts';
import { checksumSparse } from '../../lib/extents.ts';

export const SAVED_FORMAT = 2 as const;
const MANIFEST_FILE = 'manifest.json';
export const DISK_FILE = 'disk';

const fileSchema = z.object({
  name: z.string(),
  sizeBytes: z.number().int(),
  /** See lib/extents.ts. */
  checksum: z.string(),
  /** A file of another time is read whole before it is used. */
  mtimeMs: z.number(),
});

const rootfsSchema = z.object({
  kind: z.enum(['profile', 'image', 'agent']),
  name: z.string(),
  digest: z.string(),
  rootfsPath: z.string(),
  env: z.record(z.string(), z.string()),
  workdir: z.string(),
  agentPath: z.string().optional(),
});

export const manifestSchema = z.object({
  formatVersion: z.literal(SAVED_FORMAT),
  createdAt: z.string(),
  /** What the engine needs to be equal: its name, version, CPU model, device layout. */
  compatibility: z.record(z.string(), z.string()),
  kernelDigest: z.string(),
  /** Of the sandbox that was saved, whole. What a copy has of them: inheritOptions. */
  options: z.object({
    rootfs: rootfsSchema,
    vcpus: z.number().int(),
    memoryMib: z.number().int(),
    diskBytes: z.number().int(),
    timeoutS: z.number().int(),
    bootArgs: z.string(),
    idle: z.object({ timeoutS: z.number().int(), action: z.enum(['delete', 'snapshot']) }).optional(),
    network: z.object({ allowlist: z.array(z.string()).readonly() }).optional(),
  }),
  /** Whether the guest may have been in the middle of a frame. */
  needsResync: z.boolean(),
  files: z.object({ memory: fileSchema, state: fileSchema, disk: fileSchema }),
});

/** Version 1 named what a copy needed one by one, and knew profiles only. */
const firstSchema = manifestSchema.omit({ options: true }).extend({
  formatVersion: z.literal(1),
  profile: rootfsSchema.omit({ kind: true }),
  vcpus: z.number().int(),
  memoryMib: z.number().int(),
  diskBytes: z.number().int(),
  timeoutS: z.number().int(),
});

function upgrade({
  profile,
  vcpus,
  memoryMib,
  diskBytes,
  timeoutS,
  ...rest
}: z.infer<typeof firstSchema>): SavedManifest {
  const rootfs = { kind: 'profile', ...profile } as const;
  const options = { rootfs, vcpus, memoryMib, diskBytes, timeoutS, bootArgs: '' };
  return { ...rest, formatVersion: SAVED_FORMAT, options };
}

export type SavedManifest = z.infer<typeof manifestSchema>;
type SavedFile = z.infer<typeof fileSchema>;

export async function describeFile(dir: string, name: string): Promise<SavedFile> {
  const path = join(dir, name);
  const [{ size, mtimeMs }, checksum] = await Promise.all([stat(path), checksumSparse(path)]);
  return { name, sizeBytes: size, checksum, mtimeMs };
}

/** Writes the manifest, by which a saved guest becomes complete. */
export async function writeManifest(dir: string, manifest: SavedManifest): Promise<void> {
  const path = join(dir, MANIFEST_FILE);
  await writeFile(`${path}.new`, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(`${path}.new`, path);
}

/** AppError internal when there is none or it cannot be read. */
export async function readManifest(dir: string): Promise<SavedManifest> {
  try {
    const text = await readFile(join(dir, MANIFEST_FILE), 'utf8');
    return z.union([manifestSchema, firstSchema.transform(upgrade)]).parse(JSON.parse(text));
  } catch (error) {
    throw new AppError(
      'internal',
      `${dir} holds no saved guest that this daemon can read: ${toError(error).message}`,
      {
        stage: 'manifest',
        cause: error,
      },
    );
  }
}

/**
 * Finds damage: a missing or resized file at once, changed content by its checksum when the file was touched or
 * `isThorough`. AppError internal naming the file.
 */
export async function verifyFiles(dir: string, manifest: SavedManifest, isThorough: boolean): Promise<void> {
  for (const file of Object.values(manifest.files)) {
    const path = join(dir, file.name);
    const found = await stat(path).catch(() => undefined);
    if (found?.size !== file.sizeBytes) {
      throw damaged(
        path,
        found === undefined ? 'is missing' : `has ${found.size} bytes, not ${file.sizeBytes}`,
      );
    }
    if (!isThorough && Math.abs(found.mtimeMs - file.mtimeMs) < 1) continue;
    const checksum = await checksumSparse(path);
    if (checksum !== file.checksum) throw damaged(path, `has checksum ${checksum}, not ${file.checksum}`);
  }
}

function damaged(path: string, what: string): AppError {
  return new AppError('internal', `the saved guest is damaged: ${path} ${what}; delete it`, {
    stage: 'verify',
  });
}
