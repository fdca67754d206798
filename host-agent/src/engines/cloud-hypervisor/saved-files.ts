// A saved VM as files of ours, and as the directory that the VMM writes and reads.
import { chmod, link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import { z } from 'zod';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { copyRegular, openRegular, readSmall } from '../../lib/untrusted-path.ts';
import type { SavedVm } from '../engine.ts';

const CONFIG_FILE = 'config.json';
const STATE_FILE = 'state.json';
export const MEMORY_FILE = 'memory-ranges';
/**
 * A guest of 32 vCPUs has some 2 MiB of state. What a VMM makes up of as many bytes as this keeps us parsing for a second at most; of
 * 64 MiB it would be 16 s and 2 GiB of memory.
 */
const MAX_SMALL_BYTES = 4 * 1024 * 1024;

/** What a VMM saves, and the most that all but its guest's memory takes of the disk. */
export const SAVED_FILES = [CONFIG_FILE, STATE_FILE, MEMORY_FILE];
export const MAX_SAVED_BESIDE_BYTES = 2 * MAX_SMALL_BYTES + 2 ** 20;

/** The VMM's two small files, unread: what is in them is its own affair, down to the last digit. */
const savedStateSchema = z.object({ formatVersion: z.literal(1), config: z.string(), state: z.string() });

export type CollectOptions = {
  readonly from: string;
  readonly to: string;
  readonly memoryBytes: number;
  /** The memory is in `to` already, and the VMM wrote none. */
  readonly isMemoryThere?: boolean;
  /** Path of native/claim.c. */
  readonly claimProgram: string;
  readonly log: Logger;
};

/**
 * Moves what the VMM wrote into `from` to our two files in `to`, which it cannot change any more. AppError internal when it is
 * not whole: the VMM neither flushes nor checks what it writes.
 */
export async function collectSaved(options: CollectOptions): Promise<SavedVm> {
  const { from, to, memoryBytes } = options;
  const [config, state] = await Promise.all(
    [CONFIG_FILE, STATE_FILE].map(async (name) =>
      (await readSmall(join(from, name), MAX_SMALL_BYTES)).toString('utf8'),
    ),
  );
  for (const [name, text] of [
    [CONFIG_FILE, config],
    [STATE_FILE, state],
  ]) {
    if (!isJson(text)) throw incomplete(`${name} is no JSON`);
  }
  const written = join(from, MEMORY_FILE);
  const saved = { memoryPath: memoryPathOf(to), statePath: join(to, 'state') };
  await writeFile(saved.statePath, JSON.stringify({ formatVersion: 1, config, state }), { mode: 0o600 });
  if (options.isMemoryThere !== true) await takeOver(written, saved.memoryPath, options);
  // Where it is now nobody can put something else in its place.
  await using memory = await openRegular(saved.memoryPath);
  const { size } = await memory.stat();
  if (size !== memoryBytes) throw incomplete(`${MEMORY_FILE} has ${size} bytes, not ${memoryBytes}`);
  return saved;
}

/** Where the memory of a guest that is saved to `dir` is. */
export function memoryPathOf(dir: string): string {
  return join(dir, 'memory');
}

/** The VMM's two small files as texts. AppError internal when this is not what `collectSaved` wrote. */
export async function readSaved(
  saved: SavedVm,
): Promise<{ readonly config: string; readonly state: string }> {
  try {
    return savedStateSchema.parse(JSON.parse(await readFile(saved.statePath, 'utf8')));
  } catch (cause) {
    throw new AppError(
      'internal',
      `${saved.statePath} holds no saved state of this engine: ${toError(cause).message}`,
      { stage: 'restore', cause },
    );
  }
}

/** Where the memory is in a directory that the VMM restores from. */
export function memoryPathIn(dir: string): string {
  return join(dir, MEMORY_FILE);
}

/** Gives the memory a name in the directory that the VMM restores from: nothing is copied, and the source may go. */
export async function linkMemory(saved: SavedVm, dir: string): Promise<void> {
  await link(saved.memoryPath, memoryPathIn(dir));
}

/** Writes the small files of the directory that the VMM restores from, for it to read; again for another try. */
export async function layOutSaved(dir: string, config: object, state: string): Promise<void> {
  await writeReadable(join(dir, CONFIG_FILE), JSON.stringify(config));
  await writeReadable(join(dir, STATE_FILE), state);
}

/** For the VMM, which has another user, whatever the daemon's umask is. */
async function writeReadable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o644);
}

/** A copy of it where it cannot be moved, or the VMM could still write to it. */
async function takeOver(from: string, to: string, { claimProgram, log }: CollectOptions): Promise<void> {
  let written = from;
  try {
    await rename(from, to);
    written = to;
    await runProgram(claimProgram, [to]);
    return;
  } catch (error) {
    if (written === from && errnoOf(error) !== 'EXDEV') throw error;
    log.info({ err: toError(error) }, 'the memory that a VMM has saved is copied');
  }
  const copy = `${to}.copy`;
  await copyRegular(written, (source) => copySparse(source, copy));
  await rm(written);
  await rename(copy, to);
}

function isJson(text: string | undefined): boolean {
  try {
    JSON.parse(text ?? '');
    return true;
  } catch {
    return false;
  }
}

function incomplete(what: string): AppError {
  return new AppError('internal', `the VMM did not save everything: ${what}`, { stage: 'save' });
}
