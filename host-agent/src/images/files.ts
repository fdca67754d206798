// The image directories of the data directory, and their garbage collection.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { judgeMark, processMark, tryLock } from '@sandboxd/rootfs-builder';
import { AppError, errnoOf } from '../lib/errors.ts';
import { openBeneath, pathOf } from '../lib/held-path.ts';
import type { ImageRecord } from './record.ts';

const WORK = 'work-';
/** How long the blobs of an interrupted pull stay: a client retries soon or never. */
export const KEPT_MS = 3_600_000;
/** Limit for all of them together, so that a registry that interrupts pulls on purpose cannot fill the disk. */
const MAX_KEPT_BYTES = 4 * 2 ** 30;
const ROOTFS_NAME = /^([\da-f]{64})\.erofs$/;

export class ImageFiles {
  /** The only directory that skopeo may write to. */
  readonly ociDir: string;
  /** Blobs of all layouts, each stored once. */
  readonly blobsDir: string;
  readonly #rootfsDir: string;
  /** Hard links of root filesystems that are about to be used. */
  readonly #heldDir: string;
  /** A file of each process that works here, which it has locked. */
  readonly #ownersDir: string;
  /** Blobs of interrupted pulls, with the time until which they stay. */
  readonly #kept = new Map<string, number>();

  private constructor(dir: string) {
    this.ociDir = join(dir, 'oci');
    this.blobsDir = join(this.ociDir, 'blobs');
    this.#rootfsDir = join(dir, 'rootfs');
    this.#heldDir = join(dir, 'held');
    this.#ownersDir = join(dir, 'owners');
  }

  static async open(dir: string): Promise<ImageFiles> {
    const files = new ImageFiles(dir);
    for (const path of [join(files.blobsDir, 'sha256'), files.#rootfsDir, files.#heldDir, files.#ownersDir])
      await mkdir(path, { recursive: true, mode: 0o700 });
    return files;
  }

  rootfsPath(rootfsDigest: string): string {
    return join(this.#rootfsDir, `${rootfsDigest}.erofs`);
  }

  /**
   * Creates a directory for one task and removes it when disposed. Its name has a process mark, so that a sweep finds
   * the directories of dead processes.
   */
  async makeWork(): Promise<AsyncDisposable & { readonly dir: string }> {
    await ownFiles(this.#ownersDir);
    const dir = await mkdtemp(join(this.ociDir, `${WORK}${processMark()}-`));
    return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
  }

  /** Keeps a root filesystem until disposal, even if its image is deleted. Rejects with ENOENT when it is gone. */
  async hold(rootfsDigest: string): Promise<AsyncDisposable & { readonly path: string }> {
    await ownFiles(this.#ownersDir);
    const name = join(this.#heldDir, `${processMark()}-${randomUUID()}`);
    await link(this.rootfsPath(rootfsDigest), name);
    return { path: name, [Symbol.asyncDispose]: () => rm(name, { force: true }) };
  }

  /**
   * Garbage collection: removes root filesystems without a record or another hard link, unused blobs, and work
   * directories of dead processes. Does nothing while a task is running, because the task may be about to use a blob.
   */
  async sweep(records: readonly ImageRecord[]): Promise<void> {
    for (const name of await readdir(this.#heldDir))
      if (!(await isOwned(name, this.#ownersDir))) await rm(join(this.#heldDir, name), { force: true });
    let isBusy = false;
    for (const name of await readdir(this.ociDir)) {
      if (!name.startsWith(WORK)) continue;
      if (await isOwned(name.slice(WORK.length), this.#ownersDir)) isBusy = true;
      else await rm(join(this.ociDir, name), { recursive: true, force: true });
    }
    for (const name of await readdir(this.#ownersDir)) await removeOwner(join(this.#ownersDir, name));
    if (isBusy) return;
    const rootfs = new Set(records.map(({ rootfsDigest }) => rootfsDigest));
    for (const name of await readdir(this.#rootfsDir)) {
      const digest = ROOTFS_NAME.exec(name)?.[1];
      if (digest !== undefined && rootfs.has(digest)) continue;
      const path = join(this.#rootfsDir, name);
      // A sandbox, snapshot or template that uses the file has its own hard link to it.
      if ((await stat(path)).nlink === 1) await rm(path);
    }
    const blobs = new Set(records.flatMap((record) => record.blobs));
    for (const hex of await this.#chooseKept(blobs)) blobs.add(hex);
    // The fetching program can write here. A symbolic link in place of the directory would have files of the host
    // removed.
    await using blobDir = await openBeneath(this.ociDir, ['blobs', 'sha256']);
    const path = pathOf(blobDir);
    for (const name of await readdir(path)) if (!blobs.has(name)) await rm(join(path, name));
  }

  /** Keeps blobs without a record for the next pull, for KEPT_MS or until this process exits. */
  keepBlobs(hexes: Iterable<string>): void {
    for (const hex of hexes) {
      this.#kept.delete(hex);
      this.#kept.set(hex, Date.now() + KEPT_MS);
    }
  }

  /** Keeps the newest blobs, up to MAX_KEPT_BYTES. Blobs of an image are removed with that image. */
  async #chooseKept(recorded: ReadonlySet<string>): Promise<string[]> {
    let bytes = 0;
    for (const [hex, untilMs] of [...this.#kept].reverse()) {
      const size = (await stat(join(this.blobsDir, 'sha256', hex)).catch(() => undefined))?.size;
      bytes += size ?? 0;
      const isExpired = size === undefined || untilMs < Date.now() || bytes > MAX_KEPT_BYTES;
      if (isExpired || recorded.has(hex)) this.#kept.delete(hex);
    }
    return [...this.#kept.keys()];
  }

  /** Whether a sandbox, snapshot or template has a hard link to it. */
  async isUsed({ rootfsDigest }: ImageRecord): Promise<boolean> {
    return (await stat(this.rootfsPath(rootfsDigest)).catch(() => undefined))?.nlink !== 1;
  }

  /** Bytes on disk of one image; blobs that it shares with other images are included. */
  async sizeOf({ rootfsDigest, blobs }: ImageRecord): Promise<number> {
    const paths = [this.rootfsPath(rootfsDigest), ...blobs.map((hex) => join(this.blobsDir, 'sha256', hex))];
    const sizes = await Promise.all(
      paths.map((path) =>
        stat(path).then(
          ({ blocks }) => blocks * 512,
          () => 0,
        ),
      ),
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  /** Bytes on disk of all images together. */
  async totalBytes(): Promise<number> {
    let bytes = 0;
    for (const dir of [this.#rootfsDir, join(this.blobsDir, 'sha256')])
      for (const name of await readdir(dir))
        bytes += ((await stat(join(dir, name)).catch(() => undefined))?.blocks ?? 0) * 512;
    return bytes;
  }
}

/** Locks of owner files of this process, by path. */
const locks = new Map<string, Disposable>();
const OWN_TRIES = 200;
const OWN_RETRY_MS = 10;

/** Keeps a locked file in `dir` while this process lives, for processes that do not see this one. */
async function ownFiles(dir: string): Promise<void> {
  const path = join(dir, processMark());
  for (let tries = 0; tries < OWN_TRIES; tries++) {
    if (locks.has(path) && existsSync(path)) return;
    await writeFile(path, '', { mode: 0o600 });
    const lock = await tryLock(path);
    // Another process may have removed it just before.
    if (lock !== undefined && existsSync(path)) {
      locks.get(path)?.[Symbol.dispose]();
      locks.set(path, lock);
      return;
    }
    lock?.[Symbol.dispose]();
    await sleep(OWN_RETRY_MS);
  }
  throw new AppError('internal', `cannot lock ${path}`);
}

/** Whether the process that created this name is alive. */
async function isOwned(name: string, ownersDir: string): Promise<boolean> {
  const owner = judgeMark(name);
  if (owner !== 'foreign') return owner === 'alive';
  const mark = /^[^-]+-\d+/.exec(name)?.[0] ?? '';
  try {
    using lock = await tryLock(join(ownersDir, mark));
    return lock === undefined;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Of a process that has ended. */
async function removeOwner(path: string): Promise<void> {
  const owner = judgeMark(basename(path));
  if (owner === 'alive') return;
  using lock = owner === 'foreign' ? await tryLock(path) : undefined;
  if (owner !== 'foreign' || lock !== undefined) await rm(path, { force: true });
}
