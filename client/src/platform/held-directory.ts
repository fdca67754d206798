// An open directory of this machine, which stays the same when its path is replaced: another user may own its parents
// and rename entries meanwhile (TOCTOU). Only Linux supports this (/proc); elsewhere the path is used.
import { existsSync } from 'node:fs';
import { constants, type FileHandle, lstat, mkdir, open, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SandboxdError } from '../errors.ts';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
/** Missing in Node's constants; equal on all supported architectures. It needs no read permission. */
const O_PATH = 0o10000000;

const isHeld = process.platform === 'linux' && existsSync('/proc/self/fd');

export class HeldDirectory implements AsyncDisposable {
  readonly #handle: FileHandle | undefined;
  /** A path to the open directory, valid until disposal. */
  readonly path: string;
  /** The path by which it was opened, for messages. */
  readonly shown: string;

  private constructor(shown: string, handle?: FileHandle) {
    this.#handle = handle;
    this.shown = shown;
    this.path = handle === undefined ? shown : `/proc/self/fd/${handle.fd}`;
  }

  /** Follows symbolic links, because the caller chose the path. */
  static async open(path: string): Promise<HeldDirectory> {
    if (isHeld) return new HeldDirectory(path, await open(path, O_PATH | O_DIRECTORY));
    if ((await stat(path)).isDirectory()) return new HeldDirectory(path);
    throw Object.assign(new Error(`ENOTDIR: not a directory, open '${path}'`), { code: 'ENOTDIR' });
  }

  /**
   * Follows symbolic links in existing directories. Missing directories are created one by one, without following links
   * that appear meanwhile.
   */
  static async ensure(path: string, mode = 0o777): Promise<HeldDirectory> {
    try {
      return await HeldDirectory.open(path);
    } catch (error) {
      const above = dirname(path);
      if ((error as { code?: string }).code !== 'ENOENT' || above === path) throw error;
      await using parent = await HeldDirectory.ensure(above, mode);
      const name = basename(path);
      // `new/..`: the recursion above has created `new`.
      return name === '.' || name === '..' ? await HeldDirectory.open(path) : await parent.enter(name, mode);
    }
  }

  /** The path of an entry. */
  at(name: string): string {
    return join(this.path, name);
  }

  /**
   * Opens a directory in this one; creates it if `mode` is given and it is missing. SandboxdError for anything else,
   * including a symbolic link to a directory.
   */
  async enter(name: string, mode?: number): Promise<HeldDirectory> {
    const path = this.at(name);
    const shown = join(this.shown, name);
    if (mode !== undefined)
      await mkdir(path, { mode }).catch((error: { code?: string }) => {
        if (error.code !== 'EEXIST') throw this.withShownPath(error);
      });
    try {
      if (isHeld) return new HeldDirectory(shown, await open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
      if ((await lstat(path)).isDirectory()) return new HeldDirectory(shown);
    } catch (error) {
      if ((error as { code?: string }).code !== 'ENOTDIR') throw this.withShownPath(error);
    }
    throw new SandboxdError(`${shown} is not a directory, and links on the way are not followed`);
  }

  /** Opens nested directories, without creating any; an empty list opens this one. */
  async enterAll(names: readonly string[]): Promise<HeldDirectory> {
    let held = isHeld
      ? new HeldDirectory(this.shown, await open(`${this.path}/.`, O_PATH | O_DIRECTORY))
      : this;
    for (const name of names) {
      await using parent = held;
      held = await parent.enter(name);
    }
    return held;
  }

  /** Replaces the /proc path in a system error by the path that the user knows. */
  withShownPath(error: unknown): unknown {
    if (!(error instanceof Error) || this.path === this.shown || !error.message.includes(this.path))
      return error;
    const message = error.message.replaceAll(`'${this.path}`, `'${this.shown}`);
    return Object.assign(new Error(message, { cause: error }), {
      code: (error as { code?: string }).code,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle?.close();
  }
}
