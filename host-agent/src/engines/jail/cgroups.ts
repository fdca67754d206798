// A cgroup (version 2) for each VMM and for helpers of its network, which limits memory, CPU time and disk bandwidth.
import { constants } from 'node:fs';
import { mkdir, open, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, toError } from '../../lib/errors.ts';

/** Memory of a VMM besides its guest's, including an emulator's cache of translated code. */
const OVERHEAD_MIB = 256;
const PERIOD_US = 100_000;
const MAX_WEIGHT = 10_000;
const IO_MAX = 'io.max';
const CONTROLLERS = ['memory', 'pids', 'cpu', 'io'];
/** A process that is being reaped still occupies the cgroup. */
const BUSY_RETRIES = 20;
const BUSY_RETRY_MS = 5;

export type CgroupOptions = {
  /** Absolute path, below the mount, of the parent of the VMMs' cgroups. */
  readonly path: string;
  /** CPU limit of a VMM as a share of its vCPUs; 0: unlimited. */
  readonly cpuShare: number;
  /** Read and write bandwidth limit of a VMM on the disk of `dir`; 0: unlimited. */
  readonly ioBytesPerS: number;
  readonly dir: string;
  /** Mount point of cgroup version 2; absent: the host's. */
  readonly mount?: string;
};

export type CgroupLimits = {
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Absent: that of a VMM. */
  readonly overheadMib?: number;
  readonly threads: number;
};

export class Cgroups {
  /** What this host lacks, each as a lower-case phrase. */
  readonly missing: readonly string[];
  readonly #parent: string;
  readonly #options: CgroupOptions;
  readonly #controllers: readonly string[];
  /** `major:minor` of the disk whose bandwidth is limited. */
  readonly #disk: string | undefined;

  private constructor(
    options: CgroupOptions,
    parent: string,
    controllers: readonly string[],
    disk: string | undefined,
    missing: readonly string[],
  ) {
    this.#options = options;
    this.#parent = parent;
    this.#controllers = controllers;
    this.#disk = disk;
    this.missing = missing;
  }

  /** Creates the parent cgroup with the available controllers. */
  static async open(options: CgroupOptions): Promise<Cgroups> {
    const mount = options.mount ?? (await findMount());
    if (mount === undefined) return new Cgroups(options, '', [], undefined, ['cgroup version 2']);
    const parent = join(mount, options.path);
    const missing: string[] = [];
    const controllers: string[] = [];
    try {
      await mkdir(parent, { recursive: true });
    } catch (error) {
      return new Cgroups(options, '', [], undefined, [`cgroup version 2 (${toError(error).message})`]);
    }
    const names = options.path.split('/').slice(1);
    const groups = [mount, ...names.map((_, at) => join(mount, ...names.slice(0, at + 1)))];
    for (const name of CONTROLLERS) {
      try {
        for (const group of groups) await enable(group, name);
        controllers.push(name);
      } catch (error) {
        missing.push(`cgroup controller ${name} (${errnoOf(error) ?? toError(error).message})`);
      }
    }
    const disk = options.ioBytesPerS > 0 ? await findDisk(options.dir) : undefined;
    if (options.ioBytesPerS > 0 && disk === undefined) missing.push(`a disk below ${options.dir} to limit`);
    const isLimited = disk !== undefined && controllers.includes('io');
    if (isLimited && !(await takesDirectWrites(options.dir)))
      missing.push(`direct writes below ${options.dir}, so that each counts where it is made`);
    return new Cgroups(options, parent, controllers, disk, missing);
  }

  /**
   * Whether guests' disks must bypass the host's page cache: write-back is charged to the cgroup that wrote the file
   * first, which is the daemon's.
   */
  get needsDirectWrites(): boolean {
    const [isLimited, lacks] = [this.#disk !== undefined, this.missing.some((what) => /^direct/.test(what))];
    return isLimited && this.#controllers.includes('io') && !lacks;
  }

  /** Undefined if the host has none of the controllers. */
  async make(name: string, limits: CgroupLimits): Promise<string | undefined> {
    if (this.#controllers.length === 0) return undefined;
    const path = join(this.#parent, name);
    await removeCgroup(path);
    await mkdir(path);
    for (const [controller, file, value] of this.#values(limits))
      if (this.#controllers.includes(controller)) await writeFile(join(path, file), value);
    return path;
  }

  /** Restores a disk limit that may have been lifted. */
  async limitDisk(path: string): Promise<void> {
    const limit = this.#diskLimit();
    if (limit !== undefined && this.#controllers.includes('io')) await writeFile(join(path, IO_MAX), limit);
  }

  async remove(name: string): Promise<void> {
    if (this.#controllers.length > 0) await removeCgroup(join(this.#parent, name));
  }

  async list(): Promise<string[]> {
    if (this.#controllers.length === 0) return [];
    const entries = await readdir(this.#parent, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  }

  /** Rejects if a process is in it. */
  async removeEmpty(name: string): Promise<void> {
    await rmdir(join(this.#parent, name));
  }

  #values({
    vcpus,
    memoryMib,
    overheadMib = OVERHEAD_MIB,
    threads,
  }: CgroupLimits): [controller: string, file: string, value: string][] {
    const { cpuShare } = this.#options;
    const diskLimit = this.#diskLimit();
    const cpuUs = Math.ceil(vcpus * cpuShare * PERIOD_US);
    return [
      ['memory', 'memory.max', String((memoryMib + overheadMib) * 2 ** 20)],
      ['memory', 'memory.swap.max', '0'],
      ['pids', 'pids.max', String(threads)],
      ['cpu', 'cpu.weight', String(Math.min(MAX_WEIGHT, 100 * vcpus))],
      ['cpu', 'cpu.max', `${cpuShare === 0 ? 'max' : cpuUs} ${PERIOD_US}`],
      ...(diskLimit === undefined ? [] : [['io', IO_MAX, diskLimit] as [string, string, string]]),
    ];
  }

  #diskLimit(): string | undefined {
    const { ioBytesPerS } = this.#options;
    return this.#disk && `${this.#disk} rbps=${ioBytesPerS} wbps=${ioBytesPerS}`;
  }
}

/** Lifts the disk limits while `work` runs. If the daemon is killed meanwhile, they stay lifted. */
export async function withoutDiskLimits(
  cgroup: string | undefined,
  work: () => Promise<unknown>,
): Promise<void> {
  const path = join(cgroup ?? '', IO_MAX);
  const text = cgroup === undefined ? '' : await readFile(path, 'latin1').catch(() => '');
  const limits = text.split('\n').filter((line) => line !== '');
  for (const limit of limits) await writeFile(path, limit.replaceAll(/=\d+/g, '=max'));
  try {
    await work();
  } finally {
    for (const limit of limits)
      await writeFile(path, limit).catch((error: unknown) => {
        // The cgroup disappears with its process.
        if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENODEV') throw error;
      });
  }
}

/** For a process that has exited. What else is in it, such as a child that was being started, is killed. */
export async function removeCgroup(path: string): Promise<void> {
  await killAll(path);
  for (let tries = 0; ; tries++) {
    try {
      await rmdir(path);
      return;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return;
      if (errnoOf(error) !== 'EBUSY' || tries >= BUSY_RETRIES) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, BUSY_RETRY_MS));
  }
}

/** Kernels before 5.14 do not have the file; there a process that is left keeps the group from being removed. */
async function killAll(path: string): Promise<void> {
  try {
    await writeFile(join(path, 'cgroup.kill'), '1', { flag: 'r+' });
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

/** An already enabled controller is left alone: another program may have delegated this cgroup to us. */
async function enable(group: string, controller: string): Promise<void> {
  const path = join(group, 'cgroup.subtree_control');
  const enabled = await readFile(path, 'latin1').catch(() => '');
  if (enabled.trim().split(' ').includes(controller)) return;
  await writeFile(path, `+${controller}`);
}

async function findMount(): Promise<string | undefined> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  return mounts.find(([, , type]) => type === 'cgroup2')?.[1];
}

/** Not every file system supports O_DIRECT. */
async function takesDirectWrites(dir: string): Promise<boolean> {
  const path = join(dir, `.direct-${process.pid}`);
  const { O_RDWR, O_CREAT, O_DIRECT } = constants;
  try {
    await using _file = await open(path, O_RDWR | O_CREAT | O_DIRECT, 0o600);
    return true;
  } catch {
    return false;
  } finally {
    await rm(path, { force: true });
  }
}

/** Splits a 32-bit device number as the kernel's headers do. */
export function deviceNumber(dev: number): string {
  return `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`;
}

/** The whole disk, because limits apply to disks, not partitions; undefined for a file system without one. */
async function findDisk(dir: string): Promise<string | undefined> {
  const read = (path: string) => readFile(path, 'latin1').then((text) => text.trim());
  const device = `/sys/dev/block/${deviceNumber((await stat(dir)).dev)}`;
  const isPartition = await read(`${device}/partition`).then(
    () => true,
    () => false,
  );
  return read(`${device}${isPartition ? '/..' : ''}/dev`).catch(() => undefined);
}
