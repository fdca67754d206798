// Where VMMs run: each as a user of its own, in namespaces and a root directory of its own, without capabilities and with few
// system calls. A small program (native/jail.c) sets it up and becomes the VMM, so that this is the process that was started.
import { constants } from 'node:fs';
import { chmod, chown, lstat, open, realpath, stat } from 'node:fs/promises';
import { AppError, toError } from '../../lib/errors.ts';
import { holdOwn, pathOf } from '../../lib/held-path.ts';
import { runProgram } from '../../lib/programs.ts';
import { type CgroupOptions, Cgroups, removeCgroup } from './cgroups.ts';
import { findProgramFiles } from './program-files.ts';
import { giveBackUid, LEASES_DIR, UidLeases, type UidRange } from './uid-leases.ts';

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** What a VMM finds in its root directory, at the places where the host has it. */
export type View = {
  /** Files and directories that it reads: from now on every user may, who gets as far as there. */
  readonly reads: readonly string[];
  /** Files and directories that become its own; a file that is not there is made. */
  readonly writes: readonly string[];
  /** Directories that stay the daemon's, in which it finds what it is given later; it can list none and make nothing there. */
  readonly holds?: readonly string[];
  /** Devices; /dev/null and /dev/urandom are there in any case. */
  readonly devices?: readonly string[];
};

/** How a VMM is jailed, for who finds it again; JSON-safe. */
export type JailIdentity = {
  readonly uid: number;
  /** Path of its control group; absent where the host has none. */
  readonly cgroup?: string;
};

export type JailOptions = {
  /** Path of the program that jails. */
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
  /** Path of the network namespace that it runs in; absent: one of its own, with nothing in it. */
  readonly namespace?: string | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
  /** It can make no file larger, its logs included. */
  readonly maxFileBytes: number;
  /** Descriptors that it gets, the standard ones included. */
  readonly descriptors: number;
};

/** A jail for one VMM, to be started by this command. */
export type Cell = JailIdentity & { readonly program: string; readonly args: readonly string[] };

/** Threads and descriptors beside those of its CPUs: a pool of 64 for its disks, queues and their events. */
const BASE_THREADS = 128;
const BASE_DESCRIPTORS = 1024;
const DESCRIPTORS_PER_CPU = 4;
const DEVICES = ['/dev/null', '/dev/urandom'];
/** With it a tap of the namespace is opened. */
const TAP_DEVICE = '/dev/net/tun';
/** By everybody. */
const READABLE = 0o444;
/** Directories that everybody passes through who gets as far as there. */
const PASSABLE = 0o711;

export class Jail {
  readonly #options: JailOptions;
  readonly #leases: UidLeases;
  /** Parts that are not essential and that this host does not have, each as a lower-case phrase. */
  readonly missing: readonly string[];
  readonly #cgroups: Cgroups;
  readonly #programFiles = new Map<string, Promise<readonly string[]>>();

  private constructor(options: JailOptions, leases: UidLeases, cgroups: Cgroups) {
    this.#options = options;
    this.#leases = leases;
    this.#cgroups = cgroups;
    this.missing = cgroups.missing;
  }

  /** Whether guests' disks are to be used past the host's page cache. */
  get needsDirectWrites(): boolean {
    return this.#cgroups.needsDirectWrites;
  }

  /** AppError unsupported, with what is missing, on a host that cannot jail VMMs. */
  static async open(options: JailOptions): Promise<Jail> {
    const { uids, cgroups, program } = options;
    try {
      if (process.getuid?.() !== 0) throw new Error('the daemon is not root');
      const leases = await UidLeases.open(uids);
      const jail = new Jail(options, leases, await Cgroups.open(cgroups));
      for (const uid of leases.freed) await jail.#cgroups.remove(groupOf(uid));
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

  /** Leases a user and gives it its files. What fails gives the user back. AppError exhausted when all are taken. */
  async enter(options: CellOptions): Promise<Cell> {
    const { view, namespace, vcpus, memoryMib, maxFileBytes, descriptors, argv0, args } = options;
    const uid = await this.#leases.take();
    let cgroup: string | undefined;
    try {
      const threads = BASE_THREADS + vcpus;
      cgroup = await this.#cgroups.make(groupOf(uid), { vcpus, memoryMib, threads });
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
          // Any directory would do where no file of a VMM is: the others still see what is in it.
          ...['root', LEASES_DIR],
          ...(cgroup === undefined ? [] : ['cgroup', cgroup]),
          ...(namespace === undefined ? [] : ['net', namespace]),
          ...Object.entries(numbers).flatMap(([name, value]) => [name, String(value)]),
          ...mount('rx', files),
          // Directories first: what is in them may be shown otherwise.
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
      await leaveJail({ uid, ...(cgroup !== undefined && { cgroup }) });
      throw error;
    }
  }

  /** Of one that a daemon before this has started, and may have been saving when it ended. */
  async limitDisk({ cgroup }: JailIdentity): Promise<void> {
    if (cgroup !== undefined) await this.#cgroups.limitDisk(cgroup);
  }

  /** The VMM has started: its user is its own from now on, also without this daemon. */
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

/** The VMM is gone. */
export async function leaveJail({ uid, cgroup }: JailIdentity): Promise<void> {
  if (cgroup !== undefined) await removeCgroup(cgroup);
  await giveBackUid(uid);
}

/** A directory that the VMM may write in until it is taken back; one of a VMM that is not jailed stays the daemon's. */
export async function giveTo(jail: JailIdentity | undefined, dir: string): Promise<void> {
  if (jail !== undefined) await chown(dir, jail.uid, jail.uid);
}

/** A file or directory is the daemon's again, and every VMM that sees it may read it. */
export async function takeBack(path: string): Promise<void> {
  // The VMM may have put anything there.
  await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  await file.chown(process.geteuid?.() ?? 0, process.getegid?.() ?? 0);
  await file.chmod((await file.stat()).isDirectory() ? PASSABLE : 0o644);
}

function groupOf(uid: number): string {
  return `vmm-${uid}`;
}

/**
 * To all users: the directories above are closed to those who are not in the jail. AppError conflict for a file of others, or that others
 * can exchange: it could be one that nobody else may read.
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
