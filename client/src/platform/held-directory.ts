// A directory of this machine that stays the same one whatever its name becomes: another user may own the directories above it,
// and exchange names while files are written. Only Linux has that (/proc); elsewhere its path is used.
import { existsSync } from 'node:fs';
import { constants, type FileHandle, lstat, mkdir, open, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SandboxdError } from '../errors.ts';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
/** Not among Node's constants; the same on each architecture that it runs on. No right to list it is needed. */
const O_PATH = 0o10000000;

const isHeld = process.platform === 'linux' && existsSync('/proc/self/fd');

export class HeldDirectory implements AsyncDisposable {
  readonly #handle: FileHandle | undefined;
  /** Names it until it is disposed. */
  readonly path: string;
  /** What it was called as it was opened, for people. */
  readonly shown: string;

  private constructor(shown: string, handle?: FileHandle) {
    this.#handle = handle;
    this.shown = shown;
    this.path = handle === undefined ? shown : `/proc/self/fd/${handle.fd}`;
  }

  /** Links are followed: it is the caller's own word. */
  static async open(path: string): Promise<HeldDirectory> {
    if (isHeld) return new HeldDirectory(path, await open(path, O_PATH | O_DIRECTORY));
    if ((await stat(path)).isDirectory()) return new HeldDirectory(path);
    throw Object.assign(new Error(`ENOTDIR: not a directory, open '${path}'`), { code: 'ENOTDIR' });
  }

  /** Of what is there links are followed; what is missing is made in it, step by step, and through no link that comes meanwhile. */
  static async ensure(path: string, mode = 0o777): Promise<HeldDirectory> {
    try {
      return await HeldDirectory.open(path);
    } catch (error) {
      const above = dirname(path);
      if ((error as { code?: string }).code !== 'ENOENT' || above === path) throw error;
      await using parent = await HeldDirectory.ensure(above, mode);
      const name = basename(path);
      // Made above by then, with what led here: `new/..`
      return name === '.' || name === '..' ? await HeldDirectory.open(path) : await parent.enter(name, mode);
    }
  }

  /** Where an entry of it is. */
  at(name: string): string {
    return join(this.path, name);
  }

  /** A directory in it, made with that mode when it is missing. Rejects with SandboxdError for anything else, also for a link to one. */
  async enter(name: string, mode?: number): Promise<HeldDirectory> {
    const path = this.at(name);
    const shown = join(this.shown, name);
    if (mode !== undefined)
      await mkdir(path, { mode }).catch((error: { code?: string }) => {
        if (error.code !== 'EEXIST') throw this.inItsWords(error);
      });
    try {
      if (isHeld) return new HeldDirectory(shown, await open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
      if ((await lstat(path)).isDirectory()) return new HeldDirectory(shown);
    } catch (error) {
      if ((error as { code?: string }).code !== 'ENOTDIR') throw this.inItsWords(error);
    }
    throw new SandboxdError(`${shown} is no directory, and links on the way are not followed`);
  }

  /** The last of a way of such directories, itself for none; nothing is made. */
  async enterAll(names: readonly string[]): Promise<HeldDirectory> {
    let held = isHeld
      ? new HeldDirectory(this.shown, await open(`${this.path}/.`, O_PATH | O_DIRECTORY))
      : this;
    for (const name of names) {
      await using left = held;
      held = await left.enter(name);
    }
    return held;
  }

  /** The system's errors name it as it is opened, which says nothing to people. */
  inItsWords(error: unknown): unknown {
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
