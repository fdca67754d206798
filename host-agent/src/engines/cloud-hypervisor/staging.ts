// The directory that a guest is saved into, the only one in which its VMM creates files while the guest runs. A
// compromised VMM could fill the disk there, so its size is monitored, and it is closed before its contents are used.
import { lstat, mkdtemp, opendir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import type { VmmIdentity } from '../engine.ts';
import { giveTo, takeBack } from '../jail/jail.ts';

const PREFIX = 'save-';
const POLL_MS = 500;
const BLOCK_BYTES = 512;

type StagingOptions = {
  readonly identity: VmmIdentity;
  /** Names of the files that a save writes, and their maximum total size. */
  readonly names: readonly string[];
  readonly maxBytes: number;
  /** Empty files that are created first and that the VMM cannot replace. */
  readonly reserved: readonly string[];
  readonly terminate: (reason: string) => Promise<void>;
  readonly log: Logger;
};

export class Staging implements AsyncDisposable {
  readonly path: string;
  readonly #options: StagingOptions;
  #timer: NodeJS.Timeout | undefined;

  private constructor(path: string, options: StagingOptions) {
    this.path = path;
    this.#options = options;
    this.#startPolling();
  }

  static async open(options: StagingOptions): Promise<Staging> {
    const { paths, jail } = options.identity;
    const path = await mkdtemp(join(paths.dir, PREFIX));
    for (const name of options.reserved) await writeFile(join(path, name), '', { flag: 'wx', mode: 0o600 });
    await giveTo(jail, path);
    return new Staging(path, options);
  }

  /**
   * Closes the directory: the VMM can create no more files in it and has none of them open. Rejects, and ends the VMM,
   * if it still has one open.
   */
  async close(): Promise<void> {
    this.#stop();
    await takeBack(this.path);
    const { pid } = this.#options.identity;
    const maps = await readFile(`/proc/${pid}/maps`, 'utf8').catch(() => '');
    const isHeld = (await this.#opened()).length > 0 || maps.includes(this.path);
    const excess = isHeld ? 'it keeps what it has saved' : await this.#excess();
    if (excess === undefined) return;
    await this.#options.terminate(`${excess}, as no VMM does`);
    throw new Error(`its VMM was ended: ${excess}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop();
    await removeStaged(this.path);
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #startPolling(): void {
    this.#timer = setInterval(() => {
      void this.#checkSize().catch((err) =>
        this.#options.log.debug({ err: toError(err) }, 'cannot measure the size of a save'),
      );
    }, POLL_MS).unref();
  }

  async #checkSize(): Promise<void> {
    const opened = await this.#opened();
    const hidden = opened.some((path) => path.endsWith(' (deleted)'));
    const excess = hidden ? 'it hides files while it is saved' : await this.#excess();
    if (excess === undefined || this.#timer === undefined) return;
    this.#stop();
    await this.#options.terminate(`${excess}, as no VMM does`);
  }

  /** Files of this directory that the VMM has open. */
  async #opened(): Promise<string[]> {
    const dir = `/proc/${this.#options.identity.pid}/fd`;
    const fds = await readdir(dir).catch(() => []);
    const links = await Promise.all(fds.map((fd) => readlink(join(dir, fd)).catch(() => '')));
    return links.filter((link) => link.startsWith(`${this.path}/`));
  }

  async #excess(): Promise<string | undefined> {
    const { names, maxBytes } = this.#options;
    let bytes = 0;
    for await (const { name } of await opendir(this.path)) {
      if (!names.includes(name)) return 'it makes files of its own while it is saved';
      bytes += ((await lstat(join(this.path, name)).catch(() => undefined))?.blocks ?? 0) * BLOCK_BYTES;
    }
    return bytes > maxBytes ? `it has saved ${bytes} bytes where ${maxBytes} are enough` : undefined;
  }
}

/** Removes what a daemon that was killed during a save left. */
export async function removeStaging(dir: string): Promise<void> {
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    if (!entry.name.startsWith(PREFIX)) continue;
    const path = join(dir, entry.name);
    // Any other entry with such a name was not created by a save, and must not prevent adoption of the VMM.
    await (entry.isDirectory() ? removeStaged(path) : rm(path, { force: true }));
  }
}

/**
 * The directory is closed first, so nothing is added while it is emptied. Without a daemon, the VMM may have created
 * more names than fit into memory.
 */
async function removeStaged(path: string): Promise<void> {
  const isOurs = await takeBack(path).then(
    () => true,
    () => false,
  );
  if (isOurs)
    for await (const { name } of await opendir(path))
      await rm(join(path, name), { recursive: true, force: true });
  await rm(path, { recursive: true, force: true });
}
