// A marker file beside the registry, which records that keys existed. If the registry is lost or moved, its keys are
// lost too, and the daemon must not become open to every client.
import { randomBytes } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const NAME = 'keys-required';
const TEXT =
  'This daemon has had keys, so it admits no client without one, also where its registry (state.lmdb) is lost or another.\n' +
  '`sandboxd keys create <name>` makes one. To let in everybody again, remove this file and the registry.\n';

export class KeyMark {
  readonly path: string;
  #exists: boolean;

  /** The mark of the registry at `registryPath`. */
  constructor(registryPath: string) {
    this.path = join(dirname(registryPath), NAME);
    this.#exists = hasEntry(this.path);
  }

  /** Whether keys are known to have existed. Never becomes false in one process. */
  get exists(): boolean {
    return this.#exists;
  }

  /** Resolves when the file survives a crash of the host. */
  async ensure(): Promise<void> {
    if (this.#exists && hasEntry(this.path)) return;
    // Several commands may do this concurrently.
    const part = `${this.path}.${randomBytes(8).toString('hex')}.part`;
    try {
      await writeFile(part, TEXT, { flag: 'wx', mode: 0o600, flush: true });
      await rename(part, this.path);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
    await syncDirectory(dirname(this.path));
    this.#exists = true;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** A dangling symbolic link counts as a mark: its target was moved. */
function hasEntry(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
