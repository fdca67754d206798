// Where the images of a data directory are, and what of them nobody needs any more.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openBeneath, pathOf } from '../lib/held-path.ts';
import type { ImageRecord } from './record.ts';

const WORK = 'work-';
/** A pull that was broken off is asked for again soon, or not at all. */
export const KEPT_MS = 3_600_000;
/** Of all of them together: whoever's registry breaks off on purpose fills no disk. */
const MAX_KEPT_BYTES = 4 * 2 ** 30;
const ROOTFS_NAME = /^([\da-f]{64})\.erofs$/;

export class ImageFiles {
  /** All that the fetching program may write to. */
  readonly ociDir: string;
  /** Blobs of all layouts: each once. */
  readonly blobsDir: string;
  readonly #rootfsDir: string;
  /** Further names of root filesystems that somebody is about to use. */
  readonly #heldDir: string;
  /** Blobs of pulls that were broken off, and until when they stay. */
  readonly #kept = new Map<string, number>();

  private constructor(dir: string) {
    this.ociDir = join(dir, 'oci');
    this.blobsDir = join(this.ociDir, 'blobs');
    this.#rootfsDir = join(dir, 'rootfs');
    this.#heldDir = join(dir, 'held');
  }

  static async open(dir: string): Promise<ImageFiles> {
    const files = new ImageFiles(dir);
    for (const path of [join(files.blobsDir, 'sha256'), files.#rootfsDir, files.#heldDir])
      await mkdir(path, { recursive: true, mode: 0o700 });
    return files;
  }

  rootfsPath(rootfsDigest: string): string {
    return join(this.#rootfsDir, `${rootfsDigest}.erofs`);
  }

  /** A directory for one piece of work, removed at its end; who finds it later knows whether its process lives. */
  async makeWork(): Promise<AsyncDisposable & { readonly dir: string }> {
    const dir = await mkdtemp(join(this.ociDir, `${WORK}${OWN_MARK}`));
    return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
  }

  /** Keeps a root filesystem until it is disposed, whoever deletes the image meanwhile. Rejects with ENOENT when it is gone. */
  async hold(rootfsDigest: string): Promise<AsyncDisposable> {
    const name = join(this.#heldDir, `${OWN_MARK}${randomUUID()}`);
    await link(this.rootfsPath(rootfsDigest), name);
    return { [Symbol.asyncDispose]: () => rm(name, { force: true }) };
  }

  /**
   * Removes what no record needs: root filesystems that nothing else has another name of, blobs, and what was begun by
   * processes that are gone. Nothing while another piece of work is under way, which may be about to need it.
   */
  async sweep(records: readonly ImageRecord[]): Promise<void> {
    for (const name of await readdir(this.#heldDir))
      if (!isOwned(name)) await rm(join(this.#heldDir, name), { force: true });
    let isBusy = false;
    for (const name of await readdir(this.ociDir)) {
      if (!name.startsWith(WORK)) continue;
      if (isOwned(name.slice(WORK.length))) isBusy = true;
      else await rm(join(this.ociDir, name), { recursive: true, force: true });
    }
    if (isBusy) return;
    const rootfs = new Set(records.map(({ rootfsDigest }) => rootfsDigest));
    for (const name of await readdir(this.#rootfsDir)) {
      const digest = ROOTFS_NAME.exec(name)?.[1];
      if (digest !== undefined && rootfs.has(digest)) continue;
      const path = join(this.#rootfsDir, name);
      // A sandbox, snapshot or template that runs from it has given it another name.
      if ((await stat(path)).nlink === 1) await rm(path);
    }
    const blobs = new Set(records.flatMap((record) => record.blobs));
    for (const hex of await this.#chooseKept(blobs)) blobs.add(hex);
    // What fetches may write there: a link in its place would have files of the host removed.
    await using blobDir = await openBeneath(this.ociDir, ['blobs', 'sha256']);
    const path = pathOf(blobDir);
    for (const name of await readdir(path)) if (!blobs.has(name)) await rm(join(path, name));
  }

  /** Blobs without a record stay for the next pull, for as long as KEPT_MS says and as this process lives. */
  keepBlobs(hexes: Iterable<string>): void {
    for (const hex of hexes) {
      this.#kept.delete(hex);
      this.#kept.set(hex, Date.now() + KEPT_MS);
    }
  }

  /** The newest, as many as there is room for. What an image has goes with that image. */
  async #chooseKept(recorded: ReadonlySet<string>): Promise<string[]> {
    let bytes = 0;
    for (const [hex, untilMs] of [...this.#kept].reverse()) {
      const size = (await stat(join(this.blobsDir, 'sha256', hex)).catch(() => undefined))?.size;
      bytes += size ?? 0;
      const isOver = size === undefined || untilMs < Date.now() || bytes > MAX_KEPT_BYTES;
      if (isOver || recorded.has(hex)) this.#kept.delete(hex);
    }
    return [...this.#kept.keys()];
  }

  /** Whether something runs from it, or is a copy of something that did. */
  async isUsed({ rootfsDigest }: ImageRecord): Promise<boolean> {
    return (await stat(this.rootfsPath(rootfsDigest)).catch(() => undefined))?.nlink !== 1;
  }

  /** Bytes on disk of an image by itself: what it shares with others is counted for each. */
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

/** When a process began, in ticks since the host did: its number may be another's later, and is always the same in a container. */
function beginOf(pid: number | string): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

const OWN_MARK = `${process.pid}-${beginOf(process.pid)}-`;

/** Whether the process that gave it this name lives. */
function isOwned(name: string): boolean {
  const [, pid = '', begin] = /^(\d+)-(\d+)-/.exec(name) ?? [];
  return pid !== '' && beginOf(pid) === begin;
}
