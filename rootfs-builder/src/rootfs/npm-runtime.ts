// Finds the runtime binary that a recipe takes from an installed npm package.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { BuilderError } from '../errors.ts';
import type { NpmRuntime } from '../recipe/recipe.ts';

export type ResolvedNpmRuntime = { label: string; binaryPath: string; guestPath: string };

const packageJson = z.object({ name: z.string(), version: z.string() });

/** `searchFrom` is the directory whose node_modules (or its parents') are searched. */
export async function resolveNpmRuntime(
  runtime: NpmRuntime,
  searchFrom: string,
): Promise<ResolvedNpmRuntime> {
  try {
    const manifestPath = createRequire(join(searchFrom, 'package.json')).resolve(
      `${runtime.package}/package.json`,
    );
    const { name, version } = packageJson.parse(JSON.parse(await readFile(manifestPath, 'utf8')));
    return {
      label: `${name}@${version}`,
      binaryPath: join(dirname(manifestPath), runtime.from),
      guestPath: runtime.to,
    };
  } catch (cause) {
    const message = `npm package ${runtime.package} is not installed in ${searchFrom} or above; npm install it there, or name another directory with --npm-dir`;
    throw new BuilderError('npm_runtime_missing', message, { cause });
  }
}
