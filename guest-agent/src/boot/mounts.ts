// The file systems that programs expect, where the initramfs or the image did not provide them.
import { lstatSync, mkdirSync, readFileSync, symlinkSync, unlinkSync } from 'node:fs';
import { ignoreExisting } from '../lib/existing.ts';
import { addon } from '../native/addon.ts';
import { attempt } from './attempt.ts';

const NOSUID = 2;
const NODEV = 4;
const NOEXEC = 8;

type Mount = {
  readonly target: string;
  readonly type: string;
  readonly flags: number;
  readonly options: string;
};

/** Parents before children. */
const MOUNTS: readonly Mount[] = [
  { target: '/proc', type: 'proc', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/sys', type: 'sysfs', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/dev', type: 'devtmpfs', flags: NOSUID, options: 'mode=0755' },
  // gid 5 is tty, in Debian as in most distributions.
  { target: '/dev/pts', type: 'devpts', flags: NOSUID | NOEXEC, options: 'gid=5,mode=620,ptmxmode=666' },
  { target: '/dev/shm', type: 'tmpfs', flags: NOSUID | NODEV, options: 'mode=1777' },
  { target: '/dev/mqueue', type: 'mqueue', flags: NOSUID | NODEV | NOEXEC, options: '' },
  { target: '/run', type: 'tmpfs', flags: NOSUID | NODEV, options: 'mode=0755' },
  { target: '/sys/fs/cgroup', type: 'cgroup2', flags: NOSUID | NODEV | NOEXEC, options: '' },
];

const LINKS: readonly (readonly [path: string, target: string])[] = [
  ['/dev/fd', '/proc/self/fd'],
  ['/dev/stdin', '/proc/self/fd/0'],
  ['/dev/stdout', '/proc/self/fd/1'],
  ['/dev/stderr', '/proc/self/fd/2'],
];

/** Directories with the mode they get when they are missing. /tmp stays on disk: what is put there may be large. */
const DIRECTORIES: readonly (readonly [path: string, mode: number])[] = [
  ['/etc', 0o755],
  ['/tmp', 0o1777],
  ['/run/lock', 0o1777],
  ['/run/sandbox', 0o755],
  ['/root', 0o700],
];

/** Targets of the mounts that `/proc/self/mounts` lists. */
export function parseMountTargets(text: string): Set<string> {
  const targets = text.split('\n').map((line) => line.split(' ')[1] ?? '');
  return new Set(targets.filter((target) => target !== ''));
}

/** Mounts what is missing. One that fails (a kernel without it) is logged and passed over. */
export function mountFileSystems(): void {
  let mounted = new Set<string>();
  try {
    mounted = parseMountTargets(readFileSync('/proc/self/mounts', 'utf8'));
  } catch {
    // Nothing is mounted yet, not even /proc.
  }
  for (const { target, type, flags, options } of MOUNTS) {
    if (mounted.has(target)) continue;
    attempt(`mount ${target}`, () => {
      unlinkNonDirectory(target);
      ensureDirectory(target, 0o755);
      addon.mount(type, target, type, flags, options);
    });
  }
  ensureDirectories();
  for (const [path, target] of LINKS) {
    attempt(`link ${path}`, () => ignoreExisting(() => symlinkSync(target, path)));
  }
}

/** Those that a root may lack. */
export function ensureDirectories(): void {
  for (const [path, mode] of DIRECTORIES) attempt(`make ${path}`, () => ensureDirectory(path, mode));
}

/** An image may have a file or a link there. */
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
