// What a recipe takes from installed npm packages: the binary of a runtime, and whole packages with their commands.
import { chmod, cp, readFile, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { z } from 'zod';
import { BuilderError } from '../errors.ts';
import type { NpmRuntime } from '../recipe/recipe.ts';
import { ensureGuestDirectory } from './guest-files.ts';

export type ResolvedNpmRuntime = { label: string; binaryPath: string; guestPath: string };

export type NpmPackage = {
  readonly name: string;
  readonly version: string;
  readonly directory: string;
  /** Paths in it, by the name of the command. */
  readonly bin: Readonly<Record<string, string>>;
};

/** Where npm itself has what it installs for everybody. */
const LIBRARY = '/usr/local/lib/node_modules';
const COMMANDS = '/usr/local/bin';

const packageJson = z.object({
  name: z.string(),
  version: z.string(),
  /** A text: the command has the package's name. */
  bin: z.union([z.string(), z.record(z.string(), z.string())]).default({}),
});

/** `searchFrom` is the directory whose node_modules (or its parents') are searched. */
export async function resolveNpmPackage(name: string, searchFrom: string): Promise<NpmPackage> {
  try {
    const manifestPath = createRequire(join(searchFrom, 'package.json')).resolve(`${name}/package.json`);
    const { bin, ...about } = packageJson.parse(JSON.parse(await readFile(manifestPath, 'utf8')));
    const commands = typeof bin === 'string' ? { [basename(about.name)]: bin } : bin;
    return { ...about, bin: commands, directory: dirname(manifestPath) };
  } catch (cause) {
    const message = `npm package ${name} is not installed in ${searchFrom} or above; npm install it there, or name another directory with --npm-dir`;
    throw new BuilderError('npm_runtime_missing', message, { cause });
  }
}

export async function resolveNpmRuntime(
  runtime: NpmRuntime,
  searchFrom: string,
): Promise<ResolvedNpmRuntime> {
  const found = await resolveNpmPackage(runtime.package, searchFrom);
  return {
    label: labelOf(found),
    binaryPath: join(found.directory, runtime.from),
    guestPath: runtime.to,
  };
}

export function labelOf({ name, version }: NpmPackage): string {
  return `${name}@${version}`;
}

/** As `npm install --global` does: the package, and a link to each of its commands. */
export async function installNpmPackage(root: string, { name, directory, bin }: NpmPackage): Promise<void> {
  const library = await ensureGuestDirectory(root, LIBRARY);
  const commands = await ensureGuestDirectory(root, COMMANDS);
  await cp(directory, join(library, name), { recursive: true, dereference: true });
  for (const [command, path] of Object.entries(bin)) {
    const target = join(library, name, path);
    await chmod(target, 0o755);
    await rm(join(commands, command), { force: true });
    await symlink(relative(commands, target), join(commands, command));
  }
}
