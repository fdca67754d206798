// A directory of this machine that stays the same one whatever its name becomes: another user may own the directories above it,
// and exchange names while files are written. Only Linux has that (/proc); elsewhere its path is used.
import { existsSync } from 'node:fs';
import { constants, type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
/** Not among Node's constants; the same on each architecture that it runs on. No right to list it is needed. */
const O_PATH = 0o10000000;

const isHeld = process.platform === 'linux' && existsSync('/proc/self/fd');

export class HeldDirectory implements AsyncDisposable {
  readonly #handle: FileHandle | undefined;
  /** Names it until it is disposed. */
  readonly path: string;

  private constructor(path: string, handle?: FileHandle) {
    this.#handle = handle;
    this.path = handle === undefined ? path : `/proc/self/fd/${handle.fd}`;
  }

  /** Links are followed: it is the caller's own word. */
  static async open(path: string): Promise<HeldDirectory> {
    return isHeld ? new HeldDirectory(path, await open(path, O_PATH | O_DIRECTORY)) : new HeldDirectory(path);
  }

  /** Where an entry of it is. */
  at(name: string): string {
    return join(this.path, name);
  }

  /** A directory in it, made with that mode when it is missing. Rejects with ENOTDIR for anything else, also for a link to one. */
  async enter(name: string, mode?: number): Promise<HeldDirectory> {
    const path = this.at(name);
    if (mode !== undefined)
      await mkdir(path, { mode }).catch((error: { code?: string }) => {
        if (error.code !== 'EEXIST') throw error;
      });
    if (!isHeld) return new HeldDirectory(path);
    return new HeldDirectory(path, await open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle?.close();
  }
}
