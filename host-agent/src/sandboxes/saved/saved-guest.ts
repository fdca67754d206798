// A saved guest on disk: restored any number of times, removed when nobody uses it any more.
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { SavedVm } from '../../engines/engine.ts';
import { AppError } from '../../lib/errors.ts';
import {
  isChecksummed,
  readManifest,
  type SavedManifest,
  verifyFiles,
  withChecksums,
  writeManifest,
} from './manifest.ts';

export class SavedGuest {
  readonly dir: string;
  #manifest: SavedManifest;
  readonly #leaving = new AbortController();
  #users = 0;
  #isVerified: boolean;
  #removal: Promise<void> | undefined;
  #onUnused: () => void = () => undefined;

  /** `isVerified`: this process wrote the files itself. */
  constructor(dir: string, manifest: SavedManifest, isVerified: boolean) {
    this.dir = dir;
    this.#manifest = manifest;
    this.#isVerified = isVerified;
  }

  static async open(dir: string): Promise<SavedGuest> {
    return new SavedGuest(dir, await readManifest(dir), false);
  }

  get manifest(): SavedManifest {
    return this.#manifest;
  }

  get vm(): SavedVm {
    const { memory, state } = this.manifest.files;
    return { memoryPath: join(this.dir, memory.name), statePath: join(this.dir, state.name) };
  }

  get diskPath(): string {
    return join(this.dir, this.manifest.files.disk.name);
  }

  /** Whether it was saved before it had a root: each copy brings its own. */
  get isBare(): boolean {
    return this.manifest.options.rootfs.kind === 'agent';
  }

  /** Why this engine cannot restore it, or undefined when it can. */
  incompatibility(compatibility: Readonly<Record<string, string>>): string | undefined {
    return findDifferences(this.manifest.compatibility, compatibility);
  }

  /**
   * Runs `task` while the files are sure to stay. AppError not_found once it is being removed, internal when it is
   * damaged; the files are read whole at the first use.
   */
  async use<T>(task: () => Promise<T>): Promise<T> {
    if (this.#removal !== undefined)
      throw new AppError('not_found', 'the snapshot does not exist; it was deleted');
    this.#users += 1;
    try {
      await verifyFiles(this.dir, this.manifest, !this.#isVerified);
      this.#isVerified = true;
      return await task();
    } finally {
      this.#release();
    }
  }

  /**
   * Reads the files whole and notes their checksums; it can be used meanwhile. Does nothing where they are there, and stops when
   * it is removed, or `outer` fires. AppError internal when a file was changed before: it is then refused by `use`, too.
   */
  async addChecksums(outer: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([this.#leaving.signal, outer]);
    if (signal.aborted || isChecksummed(this.#manifest)) return;
    this.#users += 1;
    try {
      const manifest = await withChecksums(this.dir, this.#manifest, signal);
      await writeManifest(this.dir, manifest);
      this.#manifest = manifest;
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#release();
    }
  }

  #release(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#onUnused();
  }

  /** It is being removed: who can stop using it does. */
  get leaving(): AbortSignal {
    return this.#leaving.signal;
  }

  /** Removes the files once nobody uses them. Guests that run from them go on: their mappings keep the memory file. */
  remove(): Promise<void> {
    this.#leaving.abort();
    // One that failed can be tried again.
    this.#removal ??= this.#remove().catch((error) => {
      this.#removal = undefined;
      throw error;
    });
    return this.#removal;
  }

  async #remove(): Promise<void> {
    if (this.#users > 0) {
      await new Promise<void>((resolve) => {
        this.#onUnused = resolve;
      });
    }
    await removeSaved(this.dir);
  }
}

/** Removes a directory of saved files; one that is half removed after a crash does not look complete. */
export async function removeSaved(dir: string): Promise<void> {
  await rm(join(dir, 'manifest.json'), { force: true });
  await rm(dir, { recursive: true, force: true });
}

export async function publishSaved(temporary: string, dir: string): Promise<void> {
  await rename(temporary, dir);
}

/** What an engine is not that a guest was saved with, in words; undefined: nothing. */
export function findDifferences(
  wanted: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
): string | undefined {
  const names = new Set([...Object.keys(wanted), ...Object.keys(own)]);
  const different = [...names].filter((name) => wanted[name] !== own[name]);
  if (different.length === 0) return undefined;
  return different
    .map((name) => `${name} was ${wanted[name] ?? 'absent'}, is ${own[name] ?? 'absent'}`)
    .join('; ');
}
