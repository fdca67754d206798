// A saved VM as files of ours, and as the directory that the VMM writes and reads.
import { link, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import { z } from 'zod';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import type { SavedVm } from '../engine.ts';

const CONFIG_FILE = 'config.json';
const STATE_FILE = 'state.json';
const MEMORY_FILE = 'memory-ranges';

/** The VMM's two small files, unread: what is in them is its own affair, down to the last digit. */
const savedStateSchema = z.object({ formatVersion: z.literal(1), config: z.string(), state: z.string() });

/**
 * Moves what the VMM wrote into `from` to our two files in `to`. AppError internal when it is not whole: the VMM neither
 * flushes nor checks what it writes.
 */
export async function collectSaved(from: string, to: string, memoryBytes: number): Promise<SavedVm> {
  const [config, state] = await Promise.all(
    [CONFIG_FILE, STATE_FILE].map((name) => readFile(join(from, name), 'utf8')),
  );
  for (const [name, text] of [
    [CONFIG_FILE, config],
    [STATE_FILE, state],
  ]) {
    if (!isJson(text)) throw incomplete(`${name} is no JSON`);
  }
  const written = join(from, MEMORY_FILE);
  const { size } = await stat(written);
  if (size !== memoryBytes) throw incomplete(`${MEMORY_FILE} has ${size} bytes, not ${memoryBytes}`);
  const saved = { memoryPath: join(to, 'memory'), statePath: join(to, 'state') };
  await writeFile(saved.statePath, JSON.stringify({ formatVersion: 1, config, state }), { mode: 0o600 });
  await moveFile(written, saved.memoryPath);
  return saved;
}

/** Writes the directory that the VMM restores from; `patch` gets the configuration to change in place. */
export async function layOutSaved(
  saved: SavedVm,
  dir: string,
  patch: (config: Record<string, unknown>) => void,
): Promise<void> {
  const { config, state } = await readSavedState(saved.statePath);
  const parsed = JSON.parse(config) as Record<string, unknown>;
  patch(parsed);
  await writeFile(join(dir, CONFIG_FILE), JSON.stringify(parsed), { mode: 0o600 });
  await writeFile(join(dir, STATE_FILE), state, { mode: 0o600 });
  // Another name of the same file: nothing is copied, and a source that is deleted meanwhile does no harm.
  await link(saved.memoryPath, join(dir, MEMORY_FILE));
}

async function readSavedState(path: string): Promise<z.infer<typeof savedStateSchema>> {
  try {
    return savedStateSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new AppError('internal', `${path} holds no saved state of this engine: ${toError(cause).message}`, {
      stage: 'restore',
      cause,
    });
  }
}

async function moveFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error;
    await copySparse(from, to);
    await rm(from);
  }
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
