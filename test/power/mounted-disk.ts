// Mounts a disk that another thread serves: qemu-storage-daemon makes a file of it, a
// loop device a block device of that.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/until.ts';

const run = promisify(execFile);

export class MountedDisk {
  readonly path: string;
  readonly #dir: string;
  readonly #fuse: ChildProcess;
  readonly #device: string;
  #isMounted = true;

  private constructor(dir: string, fuse: ChildProcess, device: string) {
    this.path = join(dir, 'mnt');
    this.#dir = dir;
    this.#fuse = fuse;
    this.#device = device;
  }

  /** Uses `dir` for its own files, and removes it in the end; `socketPath` is where the disk is served. */
  static async mount(dir: string, socketPath: string): Promise<MountedDisk> {
    await mkdir(join(dir, 'mnt'), { recursive: true });
    const file = join(dir, 'disk');
    await writeFile(file, '');
    const node = `driver=nbd,server.type=unix,server.path=${socketPath},node-name=disk`;
    const exported = `type=fuse,id=disk,node-name=disk,mountpoint=${file},writable=on`;
    const args = ['--blockdev', `${node},cache.no-flush=off`, '--export', exported];
    const fuse = spawn('qemu-storage-daemon', args, { stdio: 'inherit' });
    let mounts = '';
    const look = (): void => void readFile('/proc/self/mounts', 'utf8').then((text) => (mounts = text));
    const looking = setInterval(look, 20);
    await until(() => mounts.includes(` ${file} `), 'the disk is a file').finally(() =>
      clearInterval(looking),
    );
    const { stdout } = await run('losetup', ['--find', '--show', file]);
    const mounted = new MountedDisk(dir, fuse, stdout.trim());
    await run('mount', ['-t', 'ext4', '-o', 'noatime', mounted.#device, mounted.path]);
    return mounted;
  }

  /** A second call does nothing. */
  async unmount(): Promise<void> {
    if (!this.#isMounted) return;
    this.#isMounted = false;
    await run('umount', [this.path]);
    await run('losetup', ['--detach', this.#device]);
    const exited = new Promise((resolve) => this.#fuse.once('exit', resolve));
    this.#fuse.kill();
    await exited;
    await rm(this.#dir, { recursive: true, force: true });
  }
}
