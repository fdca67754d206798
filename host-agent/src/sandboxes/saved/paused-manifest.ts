// The manifest of a paused sandbox: each change of it is on disk when its function resolves.
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import { flush } from './save.ts';

export const PAUSED_FORMAT = 1;
const MANIFEST_FILE = 'manifest.json';
const NEW_MANIFEST_FILE = 'manifest.json.new';

/** Paths are relative to the directory: `<generation>/<name>`. */
const pausedSchema = z.object({
  formatVersion: z.literal(PAUSED_FORMAT),
  phase: z.enum(['paused', 'awake']),
  /** Counts the pauses; each has a directory for its new files. */
  generation: z.number().int(),
  savedAt: z.string(),
  memory: z.object({ path: z.string(), sizeBytes: z.number().int(), mtimeMs: z.number() }),
  /** Of the memory file; without `changes`. */
  checksumsPath: z.string(),
  /** To be applied to the memory file once its VMM has ended. */
  changesPath: z.string().optional(),
  state: z.object({ path: z.string(), checksum: z.number().int() }),
  layer: z.object({ sizeBytes: z.number().int(), mtimeMs: z.number() }),
  /** As in a saved guest. */
  compatibility: z.record(z.string(), z.string()),
  needsResync: z.boolean(),
});

export type PausedManifest = z.infer<typeof pausedSchema>;

/** Undefined if there is none. AppError internal if it cannot be read. */
export async function readPaused(dir: string): Promise<PausedManifest | undefined> {
  const path = join(dir, MANIFEST_FILE);
  try {
    return pausedSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw new AppError('internal', `cannot read ${path}: ${toError(error).message}`, { cause: error });
  }
}

/** AppError internal if the guest is not paused. */
export async function requirePaused(dir: string): Promise<PausedManifest> {
  const manifest = await readPaused(dir);
  if (manifest?.phase === 'paused') return manifest;
  throw new AppError('internal', `${dir} holds no paused guest`, { stage: 'restore' });
}

export async function writePaused(dir: string, manifest: PausedManifest): Promise<void> {
  await prepareManifest(dir, manifest);
  await publishManifest(dir);
}

/** Writes it beside the one that holds. */
export async function prepareManifest(dir: string, manifest: PausedManifest): Promise<void> {
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  await writeFile(join(dir, NEW_MANIFEST_FILE), text, { mode: 0o600, flush: true });
}

/** Replaces the one that holds by the prepared one. */
export async function publishManifest(dir: string): Promise<void> {
  await rename(join(dir, NEW_MANIFEST_FILE), join(dir, MANIFEST_FILE));
  await flush(dir);
}

/** Of a pause that failed. */
export async function dropPrepared(dir: string): Promise<void> {
  await rm(join(dir, NEW_MANIFEST_FILE), { force: true });
}

export async function removeManifest(dir: string): Promise<void> {
  await rm(join(dir, MANIFEST_FILE), { force: true });
  await flush(dir);
}
