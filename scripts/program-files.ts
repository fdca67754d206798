// The files of a daemon installation, by name in dist and in the target directory.
import { chmodSync, cpSync, globSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Our own small static programs, next to the executable. */
export const PROGRAMS = ['claim', 'egressd', 'jail', 'memfd', 'peers', 'portd'];
/** Like PROGRAMS, but linked to libraries of the host. */
export const DYNAMIC_PROGRAMS = ['netd'];
/** Like PROGRAMS, in C++ and with Debian's libext2fs. */
export const DISK_PROGRAMS = ['diffdisks'];
/** The daemon runs it in a separate process. */
export const CONVERTER = 'convert-image.mjs';
/** It reads requests of guests, in a jail of its own. */
export const GATEWAY = 'gateway.cjs';

const FILES = ['sandboxd', 'addons', 'agent', 'guest-init', 'node_modules', CONVERTER, GATEWAY];

/** Replaces an installation with the build. Every user may read it. */
export function copyProgram(target: string): void {
  mkdirSync(target, { recursive: true });
  for (const name of [...FILES, ...PROGRAMS, ...DYNAMIC_PROGRAMS, ...DISK_PROGRAMS]) {
    rmSync(join(target, name), { recursive: true, force: true });
    cpSync(join('dist', name), join(target, name), { recursive: true, verbatimSymlinks: true });
  }
  rmSync(join(target, 'agent/.stamp'), { force: true });
  rmSync(join(target, 'sandbox'), { force: true });
  // Under this name, the executable acts as the client command.
  symlinkSync('sandboxd', join(target, 'sandbox'));
  for (const path of globSync('**', { cwd: target })) {
    const absolute = join(target, path);
    const stats = statSync(absolute);
    chmodSync(absolute, stats.isDirectory() || stats.mode & 0o100 ? 0o755 : 0o644);
  }
}
