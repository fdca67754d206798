// The jail of VMMs: a user id, namespaces and a root directory for each, no capabilities, and a seccomp filter. A small
// program (native/jail.c) sets it up and then executes the VMM, so the pid stays the same.
import { constants } from 'node:fs';
import { chmod, chown, lstat, open, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';
import { holdOwn, pathOf } from '../../lib/held-path.ts';
import { hasProcess } from '../../lib/proc.ts';
import { runProgram } from '../../lib/programs.ts';
import { type CgroupOptions, Cgroups, removeCgroup } from './cgroups.ts';
import {
  giveBackUid,
  LEASES_DIR,
  leaseOwner,
  removeGroups,
  sweepGroups,
  UidLeases,
  type UidRange,
  vmmGroupOf,
} from './uid-leases.ts';

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** What a VMM finds in its root directory, at the same paths as on the host. */
export type View = {
  /** Files and directories that it reads. They become readable for every user that can reach their path. */
  readonly reads: readonly string[];
  /** Files and directories that it owns from now on; a missing file is created. */
  readonly writes: readonly string[];
  /**
   * Directories of the daemon in which the VMM finds files that are added later. It can neither list them nor create
   * files in them.
   */
  readonly holds?: readonly string[];
  /** Devices; /dev/null and /dev/urandom are always there. */
  readonly devices?: readonly string[];
};

/** How a VMM is jailed, for a later daemon; JSON-safe. */
export type JailIdentity = {
  readonly uid: number;
  /** Path of its cgroup; absent if the host has none. */
  readonly cgroup?: string;
};

export type JailOptions = {
  /** Path of the jail program. */
  readonly program: string;
  readonly uids: UidRange;
  readonly cgroups: CgroupOptions;
};

export type CellOptions = {
  /** Absolute path. */
  readonly program: string;
  readonly argv0: string;
  readonly args: readonly string[];
  readonly view: View;
  /** Path of the network namespace that it runs in; absent: a new, empty one. */
  readonly namespace?: string | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Limit of any file's size (RLIMIT_FSIZE), its logs included. */
  readonly maxFileBytes: number;
  /** Number of descriptors that it inherits, the standard ones included. */
  readonly descriptors: number;
};

/** A prepared jail for one VMM, and the command that starts it. */
export type Cell = JailIdentity & { readonly program: string; readonly args: readonly string[] };

/**
 * Threads and descriptors in addition to those of its vCPUs: a pool of 64 threads for its disks, queues and their
 * events.
 */
const BASE_THREADS = 128;
const BASE_DESCRIPTORS = 1024;
const DESCRIPTORS_PER_CPU = 4;
const DEVICES = ['/dev/null', '/dev/urandom'];
/** The device that opens a tap of the namespace. */
const TAP_DEVICE = '/dev/net/tun';
/** For all users. */
const READABLE = 0o444;
/** Mode of directories that all users may pass through but not list. */
const PASSABLE = 0o711;

export class Jail {
  readonly #options: JailOptions;
  readonly #leases: UidLeases;
  /** Optional parts that this host lacks, each as a lower-case phrase. */
  readonly missing: readonly string[];
  readonly #cgroups: Cgroups;
  readonly #programFiles = new Map<string, Promise<readonly string[]>>();

  private constructor(options: JailOptions, leases: UidLeases, cgroups: Cgroups) {
    this.#options = options;
    this.#leases = leases;
    this.#cgroups = cgroups;
    this.missing = cgroups.missing;
  }

  /** Whether guests' disks must bypass the host's page cache. */
  get needsDirectWrites(): boolean {
    return this.#cgroups.needsDirectWrites;
  }

  /** AppError unsupported, with what is missing, on a host that cannot jail VMMs. `log`: of groups that stay. */
  static async open(options: JailOptions, log?: Pick<Logger, 'warn'>): Promise<Jail> {
    const { uids, program } = options;
    try {
      if (process.getuid?.() !== 0) throw new Error('the daemon is not root');
      const cgroups = await Cgroups.open(options.cgroups);
      const owner = await leaseOwner(options.cgroups.dir);
      const leases = await UidLeases.open(uids, owner, LEASES_DIR, (uid) => removeGroups(uid, cgroups, log));
      await sweepGroups(cgroups, leases, log);
      const jail = new Jail(options, leases, cgroups);
      const cell = await jail.enter({
        program,
        argv0: 'jail',
        args: [],
        view: { reads: [], writes: [] },
        vcpus: 1,
        memoryMib: 1,
        maxFileBytes: 0,
        descriptors: 3,
      });
      await using undo = new AsyncDisposableStack();
      undo.defer(() => leaveJail(cell));
      await runProgram(cell.program, ['try', '1', ...cell.args]);
      return jail;
    } catch (cause) {
      const { stderr = '', message } = toError(cause) as Error & { stderr?: string };
      const what = /^jail: (.*)$/m.exec(stderr)?.[1] ?? message;
      throw new AppError(
        'unsupported',
        `guests are not started without a jail for their VMMs, and there can be none here: ${what}; start the daemon as root on a host that allows it, or give --insecure-no-jail`,
        { cause },
      );
    }
  }

  /**
   * Leases a user id and gives it the VMM's files. On failure the user id is released. AppError exhausted if all are
   * taken.
   */
  async enter(options: CellOptions): Promise<Cell> {
    const { view, namespace, vcpus, memoryMib, maxFileBytes, descriptors, argv0, args } = options;
    const uid = await this.#leases.take();
    let cgroup: string | undefined;
    try {
      const threads = BASE_THREADS + vcpus;
      cgroup = await this.#cgroups.make(vmmGroupOf(uid), { vcpus, memoryMib, threads });
      const [program, files] = await this.#find(options.program);
      for (const path of view.reads) await permit(path);
      for (const path of view.holds ?? []) await chmod(path, PASSABLE);
      for (const path of view.writes) await own(path, uid);
      const mount = (kind: string, paths: readonly string[]) => paths.flatMap((path) => [kind, path]);
      const numbers = {
        uid,
        fds: descriptors,
        files: BASE_DESCRIPTORS + DESCRIPTORS_PER_CPU * vcpus,
        'file-bytes': maxFileBytes,
        threads,
      };
      return {
        uid,
        ...(cgroup !== undefined && { cgroup }),
        program: this.#options.program,
        args: [
          // Any directory without a VMM's files would do: other VMMs can see its contents.
          ...['root', LEASES_DIR],
          ...(cgroup === undefined ? [] : ['cgroup', cgroup]),
          ...(namespace === undefined ? [] : ['net', namespace]),
          ...Object.entries(numbers).flatMap(([name, value]) => [name, String(value)]),
          ...mount('rx', files),
          // Directories first: their contents may be mounted with other rights.
          ...mount('rw', [...(view.holds ?? []), ...view.writes]),
          ...mount('ro', view.reads),
          ...mount('dev', [
            ...DEVICES,
            ...(namespace === undefined ? [] : [TAP_DEVICE]),
            ...(view.devices ?? []),
          ]),
          ...['--', argv0, program, ...args],
        ],
      };
    } catch (error) {
      // What failed first is what the caller should know.
      await leaveJail({ uid, ...(cgroup !== undefined && { cgroup }) }).catch(() => undefined);
      throw error;
    }
  }

  /** The files of a program are searched once. */
  async prepare(program: string): Promise<void> {
    await this.#find(program);
  }

  /** For a VMM of an earlier daemon that may have been killed during a save. */
  async limitDisk({ cgroup }: JailIdentity): Promise<void> {
    if (cgroup !== undefined) await this.#cgroups.limitDisk(cgroup);
  }

  /** The VMM has started: from now on the user id is leased to the VMM's process, not to this daemon. */
  async confirm(
    { uid }: JailIdentity,
    vmm: { readonly pid: number; readonly startTicks: number },
  ): Promise<void> {
    await this.#leases.handOver(uid, vmm);
  }

  async #find(name: string): Promise<readonly [program: string, files: readonly string[]]> {
    const program = await realpath(name);
    let files = this.#programFiles.get(program);
    if (files === undefined) {
      files = findProgramFiles(program);
      this.#programFiles.set(program, files);
    }
    return [program, await files];
  }
}

/** Called after the VMM has exited. */
export async function leaveJail({ uid, cgroup }: JailIdentity): Promise<void> {
  try {
    if (cgroup !== undefined) await removeCgroup(cgroup);
  } catch (error) {
    if (!hasProcess(uid)) await giveBackUid(uid);
    throw error;
  }
  await giveBackUid(uid);
}

/** Lets the VMM write in a directory until `takeBack`. The directory of an unjailed VMM stays the daemon's. */
export async function giveTo(jail: JailIdentity | undefined, dir: string): Promise<void> {
  if (jail !== undefined) await chown(dir, jail.uid, jail.uid);
}

/** Makes a file or directory the daemon's again; every VMM that can reach it may read it. */
export async function takeBack(path: string): Promise<void> {
  // The VMM may have replaced it by anything.
  await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  await file.chown(process.geteuid?.() ?? 0, process.getegid?.() ?? 0);
  await file.chmod((await file.stat()).isDirectory() ? PASSABLE : 0o644);
}

/**
 * Makes a file readable for all users; the directories above it are closed to users outside of the jail. AppError
 * conflict for a file that other users own or can replace: it could be one that they may not read themselves.
 */
async function permit(path: string): Promise<void> {
  if (((await stat(path)).mode & READABLE) === READABLE) return;
  await using file = await holdOwn(path).catch((cause: unknown) => {
    throw new AppError(
      'conflict',
      `a VMM cannot read ${path}, and the daemon does not change that: ${toError(cause).message}; chmod a+r it, or choose another`,
      { cause },
    );
  });
  await chmod(pathOf(file), ((await file.stat()).mode | READABLE) & 0o777);
}

async function own(path: string, uid: number): Promise<void> {
  const isDirectory = (await lstat(path).catch(() => undefined))?.isDirectory() === true;
  const flags = isDirectory ? O_RDONLY | O_DIRECTORY : O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;
  await using file = await open(path, flags | O_NOFOLLOW, 0o600);
  await file.chown(uid, uid);
}

/** The program, and the directories of its libraries under each name that may be used for them. */
export async function findProgramFiles(program: string): Promise<string[]> {
  const libraries = parseLibraries(await listLibraries(program));
  const real = await Promise.all(libraries.map((path) => realpath(path)));
  const directories = [...libraries, ...real].map((path) => dirname(path));
  const aliases = await Promise.all(directories.map((path) => realpath(path)));
  return [program, ...new Set([...directories, ...aliases])];
}

/** ldd fails for a statically linked program, which has no libraries. */
async function listLibraries(program: string): Promise<string> {
  return runProgram('ldd', [program]).then(
    ({ stdout }) => stdout,
    () => '',
  );
}

/** Parses `libc.so.6 => /lib/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`. */
export function parseLibraries(text: string): string[] {
  return [...text.matchAll(/^\s*(?:\S+ => )?(\/\S+) \(0x[0-9a-f]+\)$/gm)].map(([, path = '']) => path);
}

type ConfinedCommand = {
  readonly program: string;
  readonly args: readonly string[];
  /** Files that it can read, in addition to the program's own. */
  readonly reads: readonly string[];
  /** Number of descriptors that it inherits, the standard ones included. */
  readonly descriptors: number;
  readonly memoryMib: number;
};

/** The kernel's maximum; disks are smaller. */
const ANY_SIZE = 2 ** 60;
const VCPUS = 2;

/**
 * The command that runs the program in a jail; `leave` must be called after it has exited. AppError exhausted if no
 * user id is free.
 */
export async function confine(
  jail: Jail,
  command: ConfinedCommand,
): Promise<{ readonly program: string; readonly args: readonly string[]; leave(): Promise<void> }> {
  const { program, args, reads, descriptors, memoryMib } = command;
  const cell = await jail.enter({
    program,
    argv0: 'confined',
    args,
    view: { reads, writes: [] },
    vcpus: VCPUS,
    memoryMib,
    descriptors,
    maxFileBytes: ANY_SIZE,
  });
  return { program: cell.program, args: cell.args, leave: () => leaveJail(cell) };
}
