// Files from installed npm packages that a recipe includes: a runtime's binary, and whole packages with their commands.
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
  /** Paths within the package, by command name. */
  readonly bin: Readonly<Record<string, string>>;
};

/** npm's directory for global packages. */
const LIBRARY = '/usr/local/lib/node_modules';
const COMMANDS = '/usr/local/bin';

const packageJson = z.object({
  name: z.string(),
  version: z.string(),
  /** If this is a string, the command has the package's name. */
  bin: z.union([z.string(), z.record(z.string(), z.string())]).default({}),
});

/** Searches the node_modules of `searchFrom` and of its parents. */
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

/** Installs as `npm install --global` does: the package, and a link for each of its commands. */
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
