// Saved guests on disk: restored any number of times, removed after their last use.
import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { SavedVm } from '../../engines/engine.ts';
import { AppError, toError } from '../../lib/errors.ts';
import { allocatedBytes, uniqueBytes } from '../../lib/extents.ts';
import {
  isChecksummed,
  NEW_MANIFEST_FILE,
  readManifest,
  type SavedManifest,
  verifyFiles,
  withChecksums,
  writeManifest,
} from './manifest.ts';

export class SavedGuest {
  readonly dir: string;
  #manifest: SavedManifest;
  readonly #removing = new AbortController();
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

  /** Generic template: it was saved without a root file system, and each copy brings its own. */
  get isGeneric(): boolean {
    return this.manifest.options.rootfs.kind === 'agent';
  }

  /** Why this engine cannot restore it; undefined when it can. */
  incompatibility(compatibility: Readonly<Record<string, string>>): string | undefined {
    return findDifferences(this.manifest.compatibility, compatibility);
  }

  /**
   * Runs `task` while the files are locked against removal. Verifies them by checksum at the first use. AppError
   * not_found during its removal, internal when it is damaged.
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
   * Computes and stores missing checksums; the guest stays usable meanwhile. Stops when it is removed or `outer`
   * fires. AppError internal when a file changed since the save; `use` refuses it then, too.
   */
  async addChecksums(outer: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([this.#removing.signal, outer]);
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

  /** Fires when its removal begins; long users should stop then. */
  get leaving(): AbortSignal {
    return this.#removing.signal;
  }

  /** Removes the files after the last use. Guests that run from them continue: their mappings keep the memory file. */
  remove(): Promise<void> {
    this.#removing.abort();
    // A failed removal can be retried.
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

/** Removes a directory of saved files, the manifest first: after a crash, a half-removed one must not look complete. */
export async function removeSaved(dir: string): Promise<void> {
  await rm(join(dir, 'manifest.json'), { force: true });
  await rm(dir, { recursive: true, force: true });
}

export async function publishSaved(temporary: string, dir: string): Promise<void> {
  await rename(temporary, dir);
}

/** Describes the engine properties that differ from those of the saved guest; undefined when none differ. */
export function findDifferences(
  saved: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
): string | undefined {
  const names = new Set([...Object.keys(saved), ...Object.keys(own)]);
  const different = [...names].filter((name) => saved[name] !== own[name]);
  if (different.length === 0) return undefined;
  return different
    .map((name) => `${name} was ${saved[name] ?? 'absent'}, is ${own[name] ?? 'absent'}`)
    .join('; ');
}

export function snapshotsRoot(dataDir: string): string {
  return join(dataDir, 'snapshots');
}

export function templatesRoot(dataDir: string): string {
  return join(dataDir, 'templates');
}

export function unfinishedDir(root: string, name: string): string {
  return join(root, `.${name}`);
}

/** Removes directories for which `keep` returns false, and what is unfinished. Returns the other names. */
export async function sweepSaved(root: string, keep: (name: string) => boolean): Promise<string[]> {
  const names = await readdir(root).catch(() => []);
  const valid = names.filter((name) => !name.startsWith('.') && keep(name));
  for (const name of names) if (!valid.includes(name)) await removeSaved(join(root, name));
  for (const name of valid) await rm(join(root, name, NEW_MANIFEST_FILE), { force: true });
  return valid;
}

export class Checksums {
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #log: Logger;
  readonly #stopping = new AbortController();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Also used for guests that an earlier daemon left without checksums. */
  add(saved: SavedGuest): void {
    void this.#queue.add(() =>
      saved.addChecksums(this.#stopping.signal).catch((error) => {
        this.#log.error(
          { dir: saved.dir, err: toError(error) },
          'cannot compute the checksums of a saved guest',
        );
      }),
    );
  }

  /** Resolves when no file is read or written any more; the next daemon continues. */
  stop(): Promise<void> {
    this.#stopping.abort();
    return this.#queue.onIdle();
  }
}

/** Disk space of its files, and how much of it no other file shares. */
export async function measureSaved({ dir, manifest }: SavedGuest): Promise<DiskUse> {
  const use = { diskBytes: 0, uniqueBytes: 0 };
  for (const { name } of Object.values(manifest.files)) {
    use.diskBytes += await allocatedBytes(join(dir, name));
    use.uniqueBytes += await uniqueBytes(join(dir, name));
  }
  return use;
}

export type DiskUse = { readonly diskBytes: number; readonly uniqueBytes: number };

/** Size on disk without the pinned root file systems, which exist anyway. */
export async function savedBytes({ dir, manifest }: SavedGuest): Promise<number> {
  const files = Object.values(manifest.files);
  const sizes = await Promise.all(files.map(({ name }) => allocatedBytes(join(dir, name)).catch(() => 0)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
