// A file beside the registry that says that there were keys. Who has lost the registry, or moved it away, has lost its keys, and
// must not thereby have let in everybody.
import { randomBytes } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const NAME = 'keys-required';
const TEXT =
  'This daemon has had keys, so it lets in nobody without one, also where its registry (state.lmdb) is lost or another.\n`sandboxd keys create <name>` makes one. To let in everybody again, remove this file and the registry.\n';

export class KeyMark {
  readonly path: string;
  #isThere: boolean;

  /** Of the registry in that file. */
  constructor(registryPath: string) {
    this.path = join(dirname(registryPath), NAME);
    this.#isThere = isAnythingAt(this.path);
  }

  /** Whether there were keys, as far as is known: once they are seen, nobody unsees them. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /** Resolves once it survives a crash of the host. */
  async ensure(): Promise<void> {
    if (this.#isThere && isAnythingAt(this.path)) return;
    // Several commands may do this at once.
    const part = `${this.path}.${randomBytes(8).toString('hex')}.part`;
    try {
      await writeFile(part, TEXT, { flag: 'wx', mode: 0o600, flush: true });
      await rename(part, this.path);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
    await syncDirectory(dirname(this.path));
    this.#isThere = true;
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

/** A link that leads nowhere is a mark that was moved, not one that never was. */
function isAnythingAt(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
