// What an installation of the daemon is made of, by name in dist and in the directory that it lies in elsewhere.
import { chmodSync, cpSync, globSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Small static programs of our own: they lie beside the executable. */
export const PROGRAMS = ['claim', 'jail', 'memfd', 'peers', 'portd'];
/** The same, but they load libraries of the host. */
export const DYNAMIC_PROGRAMS = ['netd'];
/** Runs beside the daemon, in a process with nothing else. */
export const CONVERTER = 'convert-image.mjs';

const FILES = ['sandboxd', 'addons', 'agent', 'guest-init', 'node_modules', CONVERTER];

/** Replaces what is there by what was built. Everybody may read it. */
export function copyProgram(target: string): void {
  mkdirSync(target, { recursive: true });
  for (const name of [...FILES, ...PROGRAMS, ...DYNAMIC_PROGRAMS]) {
    rmSync(join(target, name), { recursive: true, force: true });
    cpSync(join('dist', name), join(target, name), { recursive: true, verbatimSymlinks: true });
  }
  rmSync(join(target, 'agent/.stamp'), { force: true });
  rmSync(join(target, 'sandbox'), { force: true });
  // Under this name it is the command.
  symlinkSync('sandboxd', join(target, 'sandbox'));
  for (const path of globSync('**', { cwd: target })) {
    const absolute = join(target, path);
    const stats = statSync(absolute);
    chmodSync(absolute, stats.isDirectory() || stats.mode & 0o100 ? 0o755 : 0o644);
  }
}
