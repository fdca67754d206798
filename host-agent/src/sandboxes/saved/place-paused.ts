// Makes a paused guest of this host from the files that one of another host has left in its directory.
import { readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { AppError } from '../../lib/errors.ts';
import { everyOne } from '../../lib/wait.ts';
import { ChunkChecksums } from './chunk-checksums.ts';
import { PAUSED_FORMAT, type PausedManifest, prepareManifest, publishManifest } from './paused-manifest.ts';
import { flush } from './save.ts';

/** Of its files; later pauses have higher ones. */
export const FIRST_GENERATION = '1';

type PlacePausedInput = {
  /** See pausedDir; the files are in its first generation. */
  readonly dir: string;
  readonly layerPath: string;
  readonly memoryName: string;
  readonly stateName: string;
  readonly compatibility: Readonly<Record<string, string>>;
  readonly needsResync: boolean;
  /** Of the memory as it is; undefined: it is read. */
  readonly checksums: ChunkChecksums | undefined;
  /** Of the memory where it was paused. */
  readonly digest: number | undefined;
  readonly signal: AbortSignal;
};

/** Resolves when everything is on disk. AppError internal if the memory has another digest. */
export async function placePaused({
  dir,
  layerPath,
  memoryName,
  stateName,
  compatibility,
  needsResync,
  checksums,
  digest,
  signal,
}: PlacePausedInput): Promise<void> {
  const own = join(dir, FIRST_GENERATION);
  const [memoryPath, statePath, checksumsPath] = [
    join(own, memoryName),
    join(own, stateName),
    join(own, 'checksums'),
  ];
  const found = checksums ?? (await ChunkChecksums.of(memoryPath, signal));
  if (digest !== undefined && found.digest !== digest)
    throw new AppError('internal', 'the memory that arrived is not the one that was paused', {
      stage: 'store',
    });
  await found.store(checksumsPath);
  const [memory, layer] = [await stat(memoryPath), await stat(layerPath)];
  const relative = (name: string): string => `${FIRST_GENERATION}/${name}`;
  const manifest: PausedManifest = {
    formatVersion: PAUSED_FORMAT,
    phase: 'paused',
    generation: Number(FIRST_GENERATION),
    savedAt: new Date().toISOString(),
    memory: { path: relative(memoryName), sizeBytes: memory.size, mtimeMs: memory.mtimeMs },
    checksumsPath: relative('checksums'),
    state: { path: relative(stateName), checksum: crc32(await readFile(statePath)) },
    layer: { sizeBytes: layer.size, mtimeMs: layer.mtimeMs },
    compatibility: { ...compatibility },
    needsResync,
  };
  const files = [memoryPath, statePath, checksumsPath, layerPath, own, dirname(dir)];
  await everyOne([...files.map(flush), prepareManifest(dir, manifest)]);
  await publishManifest(dir);
}
