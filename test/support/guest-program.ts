// Runs a C program in a guest instead of the agent: compiled statically and appended to the real initramfs.
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { resolveKernel } from '@sandboxd/rootfs-builder';
import { FILE_TYPE, writeCpio } from '../../rootfs-builder/src/kernel/cpio.ts';
import { BAKED_DATA_DIR } from './daemon.ts';

const SOURCES = resolve(import.meta.dirname, '../guest');

type GuestProgram = {
  /** The initramfs with the program; a kernel unpacks concatenated archives. */
  readonly initramfsPath: string;
  /** Required content of `boot_args`. */
  readonly bootArgs: string;
};

/** The static program of test/guest/<name>.c, built in `dir`. */
export async function compileGuestProgram(name: string, dir: string): Promise<Buffer> {
  const program = join(dir, name);
  await promisify(execFile)('gcc', [
    '-static',
    '-Os',
    '-Wall',
    '-Werror',
    '-o',
    program,
    join(SOURCES, `${name}.c`),
  ]);
  return await readFile(program);
}

/** Builds test/guest/<name>.c. `dispose` removes the file. */
export async function buildGuestProgram(name: string): Promise<GuestProgram & AsyncDisposable> {
  const dir = join(BAKED_DATA_DIR, 'test', `program-${name}-${process.pid}`);
  await mkdir(dir, { recursive: true });
  const content = await compileGuestProgram(name, dir);
  const { initramfsPath } = await resolveKernel(BAKED_DATA_DIR, {});
  const archive = writeCpio([{ path: `test-${name}`, mode: FILE_TYPE.file | 0o755, content }]);
  const combined = join(dir, 'initramfs');
  await writeFile(combined, Buffer.concat([await readFile(initramfsPath), archive]));
  return {
    initramfsPath: combined,
    bootArgs: `sandbox.init=/test-${name}`,
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}
