// Files that a program needs to start: its dynamic loader and its shared libraries.
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { runProgram } from '../../lib/programs.ts';

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
