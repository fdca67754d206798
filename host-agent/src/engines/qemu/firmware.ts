// Directories of the firmware that the program loads into guests: its jail shows them.
import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { runProgram } from '../../lib/programs.ts';

const known = new Map<string, Promise<readonly string[]>>();

/** Existing directories, as the program lists them. */
export function listFirmware(program: string): Promise<readonly string[]> {
  let directories = known.get(program);
  if (directories === undefined) {
    directories = ask(program);
    known.set(program, directories);
  }
  return directories;
}

async function ask(program: string): Promise<readonly string[]> {
  const { stdout } = await runProgram(program, ['-L', 'help']);
  const named = stdout.split('\n').filter((line) => line.startsWith('/'));
  const found = named.map(async (line) => {
    const path = resolve(line);
    return (await access(path).then(
      () => true,
      () => false,
    ))
      ? [path]
      : [];
  });
  return (await Promise.all(found)).flat();
}
