// Programs of ours that a built-in profile has: the files of programs/<profile>, which are assets of the daemon's
// executable.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getAsset, isSea } from 'node:sea';

/** Each is an asset of the executable by this path (scripts/build-sandboxd.ts). */
export const PROGRAM_FILES: Readonly<Record<string, readonly string[]>> = {
  code: ['charts.py', 'contexts.py', 'kernel.py', 'server.py'],
};

/** Files of a recipe. */
export function readPrograms(profile: string): { readonly path: string; readonly content: string }[] {
  const names = PROGRAM_FILES[profile] ?? [];
  return names.map((name) => ({
    path: `/usr/lib/sandbox-${profile}/${name}`,
    content: readProgram(`${profile}/${name}`),
  }));
}

function readProgram(path: string): string {
  if (isSea()) return getAsset(path, 'utf8');
  return readFileSync(join(import.meta.dirname, '../../programs', path), 'utf8');
}
