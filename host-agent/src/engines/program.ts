// The program of an engine as a file.
import { accessSync, constants, statSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** Absolute path of a program that PATH finds; the name itself when it does not. */
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

/** Others when it is another program. */
export async function readProgramFacts(name: string): Promise<Readonly<Record<string, string>>> {
  const program = findProgram(name);
  const path = await realpath(program).catch(() => program);
  const file = await stat(path).catch(() => undefined);
  return { program, path, size: String(file?.size), modifiedMs: String(file?.mtimeMs) };
}
