// A saved VM in our own file layout, and as the directory that the VMM writes and reads.
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
 * A guest of 32 vCPUs has some 2 MiB of state. A compromised VMM can make us parse for a second at most with this size;
 * with 64 MiB it would be 16 s and 2 GiB of memory.
 */
const MAX_SMALL_BYTES = 4 * 1024 * 1024;

/** The files of a save, and the maximum disk space of all except the guest's memory. */
export const SAVED_FILES = [CONFIG_FILE, STATE_FILE, MEMORY_FILE];
export const MAX_SAVED_BESIDE_BYTES = 2 * MAX_SMALL_BYTES + 2 ** 20;

/** The VMM's two small files as opaque texts, exact to the last digit. */
const savedStateSchema = z.object({ formatVersion: z.literal(1), config: z.string(), state: z.string() });

type CollectOptions = {
  readonly from: string;
  readonly to: string;
  readonly memoryBytes: number;
  /** The file that has the memory; absent: the VMM wrote it. */
  readonly memoryPath?: string;
  /** Path of native/claim.c. */
  readonly claimProgram: string;
  readonly log: Logger;
};

/**
 * Moves what the VMM wrote in `from` to our two files in `to`, out of the VMM's reach. AppError internal if it is
 * incomplete: the VMM neither flushes nor verifies its files.
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
    if (!isJson(text)) throw incomplete(`${name} is not JSON`);
  }
  const written = join(from, MEMORY_FILE);
  const saved = { memoryPath: options.memoryPath ?? memoryPathOf(to), statePath: join(to, 'state') };
  await writeFile(saved.statePath, JSON.stringify({ formatVersion: 1, config, state }), { mode: 0o600 });
  if (options.memoryPath === undefined) await takeOver(written, saved.memoryPath, options);
  // In `to`, no other process can replace the file.
  await using memory = await openRegular(saved.memoryPath);
  const { size } = await memory.stat();
  if (size !== memoryBytes) throw incomplete(`${MEMORY_FILE} has ${size} bytes, not ${memoryBytes}`);
  return saved;
}

/** Path of the memory of a guest that is saved to `dir`. */
export function memoryPathOf(dir: string): string {
  return join(dir, 'memory');
}

/** The VMM's two small files as texts. AppError internal if `collectSaved` did not write this. */
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

/** Path of the memory in a directory that the VMM restores from. */
export function memoryPathIn(dir: string): string {
  return join(dir, MEMORY_FILE);
}

/** Links the memory into the directory that the VMM restores from: nothing is copied, and the source may be deleted. */
export async function linkMemory(saved: SavedVm, dir: string): Promise<void> {
  await link(saved.memoryPath, memoryPathIn(dir));
}

/** Writes the small files of the directory that the VMM restores from. May be called again for another attempt. */
export async function layOutSaved(dir: string, config: object, state: string): Promise<void> {
  await writeReadable(join(dir, CONFIG_FILE), JSON.stringify(config));
  await writeReadable(join(dir, STATE_FILE), state);
}

/** The VMM runs as another user: the mode must not depend on the daemon's umask. */
async function writeReadable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o644);
}

/** Copies the file if it cannot be moved, or if the VMM could still write to it. */
async function takeOver(from: string, to: string, { claimProgram, log }: CollectOptions): Promise<void> {
  let written = from;
  try {
    await rename(from, to);
    written = to;
    await runProgram(claimProgram, [to]);
    return;
  } catch (error) {
    if (written === from && errnoOf(error) !== 'EXDEV') throw error;
    log.info({ err: toError(error) }, 'the memory file of a save cannot be taken over, copying it');
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
