// The file systems that programs expect, where the initramfs or the image did not provide them.
import { constants, lstatSync, mkdirSync, readFileSync, symlinkSync, unlinkSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { ignoreExisting } from '../lib/existing.ts';
import { logError } from '../lib/log.ts';
import { addon } from '../native/addon.ts';
import { attempt } from './attempt.ts';

const { S_IFBLK, S_IFCHR } = constants;

const NOSUID = 2;
const NODEV = 4;
const NOEXEC = 8;

type Mount = {
  readonly target: string;
  readonly type: string;
  readonly flags: number;
  readonly options: string;
};

/** Parents come before children. */
const MOUNTS: readonly Mount[] = [
  { target: '/proc', type: 'proc', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/sys', type: 'sysfs', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/dev', type: 'devtmpfs', flags: NOSUID, options: 'mode=0755' },
  // gid 5 is the tty group in Debian and most other distributions.
  { target: '/dev/pts', type: 'devpts', flags: NOSUID | NOEXEC, options: 'gid=5,mode=620,ptmxmode=666' },
  // Files here outlive the command that wrote them. /dev/shm and /run together stay below the limit of all commands
  // (exec/limits.ts), because the rest of the memory is needed elsewhere.
  { target: '/dev/shm', type: 'tmpfs', flags: NOSUID | NODEV, options: 'mode=1777,size=25%' },
  { target: '/dev/mqueue', type: 'mqueue', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/sys/fs/cgroup', type: 'cgroup2', flags: NOSUID | NODEV | NOEXEC, options: '' },
];

/**
 * A second proc mount with nothing mounted over it. The kernel lets a user namespace mount proc only if one proc mount
 * is fully visible, and the first one has this guest's boot id mounted over the kernel's (machine/identity.ts).
 * Without the second mount, bubblewrap and rootless containers fail. The directory belongs to root, as in LXC.
 */
const UNCOVERED_PROC: Mount = {
  target: '/dev/.sandbox/proc',
  type: 'proc',
  flags: NOSUID | NODEV | NOEXEC,
  options: '',
};

/** Moved to memory, with the image's content: mostly directories of the users that own them. */
const RUN = '/run';
/** The guest's identity files. */
const OWN_DIRECTORY = '/run/sandbox';
/** A larger /run stays on disk: moving it would cost memory and copy time. */
const MAX_RUN_ENTRIES = 1024;
const MAX_RUN_BYTES = 4 * 1024 * 1024;
/** Mounted beside such a directory: its content belongs to this guest and not to a root file system. */
const OWN_MOUNT: Mount = {
  target: OWN_DIRECTORY,
  type: 'tmpfs',
  flags: NOSUID | NODEV,
  options: 'mode=0755',
};

const LINKS: readonly (readonly [path: string, target: string])[] = [
  ['/dev/fd', '/proc/self/fd'],
  ['/dev/stdin', '/proc/self/fd/0'],
  ['/dev/stdout', '/proc/self/fd/1'],
  ['/dev/stderr', '/proc/self/fd/2'],
];

/**
 * The kernel loads a device's module on the first open, so the device node must exist before. Modes are those of udev:
 * every user may open fuse and tun, and the kernel checks privileges on use.
 */
const DEVICES: readonly (readonly [path: string, mode: number, major: number, minor: number])[] = [
  ['/dev/fuse', S_IFCHR | 0o666, 10, 229],
  ['/dev/net/tun', S_IFCHR | 0o666, 10, 200],
  ['/dev/loop-control', S_IFCHR | 0o600, 10, 237],
  ...Array.from({ length: 8 }, (_, number) => [`/dev/loop${number}`, S_IFBLK | 0o600, 7, number] as const),
];

/** Directories and the mode they get when missing. /tmp stays on disk because files there may be large. */
const DIRECTORIES: readonly (readonly [path: string, mode: number])[] = [
  ['/etc', 0o755],
  ['/tmp', 0o1777],
  ['/run/lock', 0o1777],
  [OWN_DIRECTORY, 0o755],
  ['/root', 0o700],
];

/** Returns the mount targets that `/proc/self/mounts` lists. */
export function parseMountTargets(text: string): Set<string> {
  const targets = text.split('\n').map((line) => line.split(' ')[1] ?? '');
  return new Set(targets.filter((target) => target !== ''));
}

/** Mounts what is missing. A failed mount (the kernel lacks the file system) is logged and skipped. */
export function mountFileSystems(): void {
  let mounted = new Set<string>();
  try {
    mounted = parseMountTargets(readFileSync('/proc/self/mounts', 'utf8'));
  } catch {
    // Nothing is mounted yet, not even /proc.
  }
  for (const mount of MOUNTS) {
    if (mounted.has(mount.target)) continue;
    attempt(`mount ${mount.target}`, () => mountAt(mount));
  }
  if (!mounted.has(UNCOVERED_PROC.target))
    attempt(`mount ${UNCOVERED_PROC.target}`, () => {
      ensureDirectory(dirname(UNCOVERED_PROC.target), 0o700);
      mountAt(UNCOVERED_PROC);
    });
  if (!mounted.has(RUN)) mountRun();
  ensureDirectories();
  attempt('make /dev/net', () => ensureDirectory('/dev/net', 0o755));
  for (const [path, ...device] of DEVICES) attempt(`make ${path}`, () => addon.makeDevice(path, ...device));
  for (const [path, target] of LINKS) {
    attempt(`link ${path}`, () => ignoreExisting(() => symlinkSync(target, path)));
  }
}

/** Moves /run to memory. The root must not run any process yet. */
export function mountRun(): void {
  const result = addon.moveToMemory(RUN, MAX_RUN_ENTRIES, MAX_RUN_BYTES, basename(OWN_DIRECTORY));
  if (result === 0) return;
  logError('/run', `stays on the disk: error ${-result}`);
  attempt(`mount ${OWN_DIRECTORY}`, () => mountAt(OWN_MOUNT));
}

/** Directories that a root file system may lack. */
export function ensureDirectories(): void {
  for (const [path, mode] of DIRECTORIES) attempt(`make ${path}`, () => ensureDirectory(path, mode));
}

function mountAt({ target, type, flags, options }: Mount): void {
  unlinkNonDirectory(target);
  ensureDirectory(target, 0o755);
  addon.mount(type, target, type, flags, options);
}

/** An image may have a file or a symbolic link at this path. */
function unlinkNonDirectory(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === false) unlinkSync(path);
}

function ensureDirectory(path: string, mode: number): void {
  const before = process.umask(0);
  try {
    ignoreExisting(() => mkdirSync(path, { mode }));
  } finally {
    process.umask(before);
  }
}
