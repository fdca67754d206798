// Finds an engine's program file.
import { accessSync, constants, statSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** Absolute path of a program in PATH; the name itself if it is not found. */
export function findProgram(name: string, path = process.env.PATH ?? ''): string {
  if (name.includes('/')) return name;
  const isProgram = (file: string): boolean => {
    try {
      accessSync(file, constants.X_OK);
      return statSync(file).isFile();
    } catch {
      return false;
    }
  };
  const files = path.split(':').map((dir) => join(dir === '' ? '.' : dir, name));
  const found = files.find(isProgram);
  return found === undefined ? name : resolve(found);
}

/** Facts that change when the program is replaced. */
export async function readProgramFacts(name: string): Promise<Readonly<Record<string, string>>> {
  const program = findProgram(name);
  const path = await realpath(program).catch(() => program);
  const file = await stat(path).catch(() => undefined);
  return { program, path, size: String(file?.size), modifiedMs: String(file?.mtimeMs) };
}
