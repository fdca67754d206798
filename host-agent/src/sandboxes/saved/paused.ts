// What a paused sandbox is kept as: a directory beside its writable layer, which stays in its place. The memory file
// belongs to the sandbox alone and is never shared, because later pauses change it in place.
//
//   pauseGuest ──▶ (VMM is ended) ──▶ settlePaused ──▶ openPaused, restore with `beforeRun: markAwake`
//     fails: the guest runs on             ▲ again after a crash, once a VMM that was left has ended
//
// The manifest decides. `paused`: everything is on disk, of the moment that the layer has, so the guest must not run
// from anything else. `awake`: a guest runs, or ran, that maps the memory file; the layer has changed since.
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { SavedVm, Vm, WrittenVm } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import { AppError, errnoOf } from '../../lib/errors.ts';
import type { Faults } from '../../lib/faults.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { everyOne } from '../../lib/wait.ts';
import { ChunkChecksums } from './chunk-checksums.ts';
import { type EarlierCopy, linkCopy } from './earlier-copy.ts';
import {
  dropPrepared,
  type PausedManifest,
  prepareManifest,
  publishManifest,
  readPaused,
  removeManifest,
  requirePaused,
  writePaused,
} from './paused-manifest.ts';
import { flush } from './save.ts';
import { CHECKSUMS_FILE, settlePaused } from './settle-paused.ts';

export { type PausedManifest, readPaused } from './paused-manifest.ts';
export { settlePaused } from './settle-paused.ts';

export type PauseInput = {
  /** See pausedDir. */
  readonly dir: string;
  readonly vm: Vm;
  readonly guest: Pick<Guest, 'hold' | 'release' | 'stepClock'>;
  readonly layerPath: string;
  readonly memoryBytes: number;
  readonly compatibility: Readonly<Record<string, string>>;
  readonly faults: Faults;
  /** If it is of this VM, only what has changed since is written, and checksums are not computed. */
  readonly since?: EarlierCopy | undefined;
  /** Called once everything is on disk: from now on it is paused, whatever fails. */
  readonly onDurable?: () => void;
  /** Until everything is on disk it makes the guest run on. */
  readonly signal?: AbortSignal;
};

export type PauseResult = {
  /** How long the guest was paused until everything was written, like that of a snapshot. */
  readonly pausedMs: number;
  /** From the start to the moment when everything is on disk. */
  readonly totalMs: number;
  /** What was written, without the layer. */
  readonly bytesWritten: number;
  /** Whether only what changed since the last pause was written. */
  readonly isIncremental: boolean;
};

export function pausedDir(sandboxDir: string): string {
  return join(sandboxDir, 'paused');
}

/**
 * Saves a running guest and leaves it paused, with everything flushed to disk: now its VMM can be killed, and then
 * `settlePaused` follows. On any failure the guest runs on, and what was written is removed.
 */
export async function pauseGuest(input: PauseInput): Promise<PauseResult> {
  const { dir, vm, guest, layerPath, memoryBytes, faults, signal } = input;
  const startedAt = performance.now();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const before = await readPaused(dir);
  if (before?.phase === 'paused')
    throw new AppError('internal', `${dir} holds a paused guest, but its VM runs`, { stage: 'save' });
  const generation = (before?.generation ?? 0) + 1;
  const own = join(dir, String(generation));
  const copyDir = copyDirOf(own);
  const clear = async (): Promise<void> => {
    for (const each of [own, copyDir]) await rm(each, { recursive: true, force: true });
    await dropPrepared(dir);
  };
  await clear();
  await mkdir(own, { mode: 0o700 });
  const copy = await linkCopy(input.since, vm, copyDir);
  let isQuiet = false;
  let durable: WrittenVm | undefined;
  try {
    await vm.save({
      dir: own,
      memoryBytes,
      ...(before !== undefined && { base: join(dir, before.memory.path) }),
      ...(copy !== undefined && { since: copy.memoryPath }),
      staysPaused: true,
      beforePause: async () => {
        // Most of it is on disk before the guest is paused.
        await flushIfExists(join(own, 'memory'));
        await flushLayer(layerPath);
        faults.reach('pause.memory');
        signal?.throwIfAborted();
        isQuiet = await guest.hold();
      },
      whilePaused: async () => {
        faults.reach('pause.paused');
        signal?.throwIfAborted();
      },
      commit: async (written) => {
        faults.reach('pause.written');
        await flushAll(input, { written, generation, before, copy, isQuiet });
        faults.reach('pause.flushed');
        signal?.throwIfAborted();
        await commit(dir, before, () => faults.reach('pause.durable'));
        durable = written;
        input.onDurable?.();
      },
      afterPause: () => {
        guest.release();
        if (durable === undefined) guest.stepClock();
      },
    });
  } catch (error) {
    // Whatever failed later, such as the VMM itself: the guest is on disk, and must not run on.
    if (durable === undefined) {
      await clear().catch(() => undefined);
      signal?.throwIfAborted();
      throw error;
    }
  }
  if (durable === undefined) throw new Error('the engine saved without a commit');
  const { changesPath, pausedMs } = durable;
  const totalMs = performance.now() - startedAt;
  return {
    pausedMs,
    totalMs,
    bytesWritten: await allocatedIn(own),
    isIncremental: changesPath !== undefined,
  };
}

/** Beside the directory of the pause: there the engine may write a file of the same name. */
function copyDirOf(own: string): string {
  return `${own}-copy`;
}

type Description = {
  readonly written: WrittenVm;
  readonly generation: number;
  readonly before: PausedManifest | undefined;
  /** As it was linked. */
  readonly copy: Pick<EarlierCopy, 'memoryPath' | 'checksumsPath'> | undefined;
  readonly isQuiet: boolean;
};

/** Computes the checksums, and flushes all files and the prepared manifest, at once: the guest is paused meanwhile. */
async function flushAll(
  { dir, layerPath, compatibility, signal }: PauseInput,
  { written, generation, before, copy, isQuiet }: Description,
): Promise<void> {
  const { memoryPath, changesPath, statePath } = written;
  const relative = (path: string) => path.slice(dir.length + 1);
  const own = join(dir, String(generation));
  const known =
    copy?.memoryPath === memoryPath
      ? relative(copy.checksumsPath)
      : changesPath === undefined
        ? undefined
        : before?.checksumsPath;
  const checksumsPath = join(own, CHECKSUMS_FILE);
  const finishDirectory = async (): Promise<void> => {
    if (known === undefined) {
      await (await ChunkChecksums.of(memoryPath, signal)).store(checksumsPath);
      await flush(checksumsPath);
    }
    await flush(own);
  };
  const [layer, memory] = [await stat(layerPath), await stat(memoryPath)];
  const manifest: PausedManifest = {
    formatVersion: 1,
    phase: 'paused',
    generation,
    savedAt: new Date().toISOString(),
    memory: { path: relative(memoryPath), sizeBytes: memory.size, mtimeMs: memory.mtimeMs },
    checksumsPath: known ?? relative(checksumsPath),
    ...(changesPath !== undefined && { changesPath: relative(changesPath) }),
    state: { path: relative(statePath), checksum: crc32(await readFile(statePath)) },
    layer: { sizeBytes: layer.size, mtimeMs: layer.mtimeMs },
    compatibility: { ...compatibility },
    needsResync: !isQuiet,
  };
  const files = [changesPath ?? memoryPath, statePath, dirname(dir), ...(copy ? [copyDirOf(own)] : [])];
  await everyOne([
    ...[finishDirectory(), prepareManifest(dir, manifest), flushLayer(layerPath)],
    ...files.map(flush),
  ]);
}

/** A manifest that may or may not be on disk is taken back before the guest runs on. */
async function commit(dir: string, before: PausedManifest | undefined, onDone: () => void): Promise<void> {
  try {
    await publishManifest(dir);
    onDone();
  } catch (error) {
    // A removal needs no space: then the next pause saves everything.
    const back = before === undefined ? removeManifest(dir) : writePaused(dir, before);
    await back.catch(() => removeManifest(dir));
    throw error;
  }
}

export type PausedGuest = { readonly vm: SavedVm; readonly manifest: PausedManifest };

/**
 * The guest to restore, settled and checked: the device state by its checksum, the memory by its size and time, and by
 * its checksums if the time differs, the layer by size and time. AppError internal if one is damaged or was changed, or
 * if the guest was awake since.
 */
export async function openPaused(dir: string, layerPath: string, faults: Faults): Promise<PausedGuest> {
  if ((await requirePaused(dir)).changesPath !== undefined) await settlePaused(dir, faults);
  const manifest = await requirePaused(dir);
  const { vm, isSameMemory } = await checkFiles(dir, layerPath, manifest);
  if (!isSameMemory) await verifyPaused(dir);
  return { vm, manifest };
}

/** AppError internal. `isSameMemory`: by its time. */
async function checkFiles(
  dir: string,
  layerPath: string,
  { memory, state, layer }: PausedManifest,
): Promise<{ readonly vm: SavedVm; readonly isSameMemory: boolean }> {
  const vm = { memoryPath: join(dir, memory.path), statePath: join(dir, state.path) };
  if (crc32(await readFile(vm.statePath).catch(() => '')) !== state.checksum)
    throw damaged(vm.statePath, 'has another checksum');
  const found = await stat(vm.memoryPath).catch(() => undefined);
  if (found?.size !== memory.sizeBytes) throw damaged(vm.memoryPath, 'is missing or has another size');
  // The guest has parts of it in its memory: it would destroy a layer that another wrote to.
  const disk = await stat(layerPath).catch(() => undefined);
  if (disk?.size !== layer.sizeBytes || !isSameTime(disk.mtimeMs, layer.mtimeMs))
    throw damaged(layerPath, 'was changed since');
  return { vm, isSameMemory: isSameTime(found.mtimeMs, memory.mtimeMs) };
}

/** `vm`: with the memory as it is without the changes. */
export type PausedChanges = PausedGuest & {
  readonly changesPath: string;
  /** Of that memory. */
  readonly checksums: ChunkChecksums;
};

/** A guest that is not settled, checked as by `openPaused`; undefined if there is nothing to settle. */
export async function openChanges(dir: string, layerPath: string): Promise<PausedChanges | undefined> {
  const manifest = await requirePaused(dir);
  const { changesPath, checksumsPath, memory } = manifest;
  if (changesPath === undefined) return undefined;
  const { vm, isSameMemory } = await checkFiles(dir, layerPath, manifest);
  if (!isSameMemory) throw damaged(vm.memoryPath, 'was changed before its changes were applied');
  const checksums = await ChunkChecksums.load(join(dir, checksumsPath), memory.sizeBytes);
  return { vm, manifest, changesPath: join(dir, changesPath), checksums };
}

/** Compares all of the memory with its checksums. AppError internal if it is damaged. */
export async function verifyPaused(dir: string, signal?: AbortSignal): Promise<void> {
  const { memory, checksumsPath } = await requirePaused(dir);
  const path = join(dir, memory.path);
  const stored = await ChunkChecksums.load(join(dir, checksumsPath), memory.sizeBytes);
  const offset = stored.findDifference(await ChunkChecksums.of(path, signal));
  if (offset !== undefined) throw damaged(path, `differs from its checksum at ${offset}`);
}

/** The digest of its memory as it was paused, which `openPaused` has settled. */
export async function memoryDigestOf(dir: string): Promise<number> {
  const { memory, checksumsPath } = await requirePaused(dir);
  return (await ChunkChecksums.load(join(dir, checksumsPath), memory.sizeBytes)).digest;
}

/** What `markAwake` needs, while the VMM starts. */
export async function prepareAwake(dir: string): Promise<PausedManifest> {
  const manifest = await requirePaused(dir);
  if (manifest.changesPath !== undefined) throw new AppError('internal', `${dir} is not settled`);
  await prepareManifest(dir, { ...manifest, phase: 'awake' });
  return manifest;
}

/**
 * Right before the guest runs again: from now on the saved state must not be restored any more. If it rejects, the
 * guest must not run and is still paused.
 */
export async function markAwake(dir: string, faults: Faults, prepared = prepareAwake(dir)): Promise<void> {
  const manifest = await prepared;
  try {
    await publishManifest(dir);
    faults.reach('resume.awake');
  } catch (error) {
    await writePaused(dir, manifest);
    throw error;
  }
}

async function flushIfExists(path: string): Promise<void> {
  await flush(path).catch((error) => {
    if (errnoOf(error) !== 'ENOENT') throw error;
  });
}

async function flushLayer(path: string): Promise<void> {
  await using layer = await openRegular(path);
  await layer.sync();
}

async function allocatedIn(dir: string): Promise<number> {
  const sizes = (await readdir(dir)).map(async (name) => (await stat(join(dir, name))).blocks * 512);
  return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0);
}

/** A file that came back from an archive may have whole seconds only. */
function isSameTime(foundMs: number, savedMs: number): boolean {
  return Math.abs(foundMs - savedMs) < 1 || foundMs === Math.floor(savedMs / 1000) * 1000;
}

function damaged(path: string, what: string): AppError {
  return new AppError('internal', `the paused sandbox is damaged: ${path} ${what}`, { stage: 'verify' });
}
