// A Debian with what the package depends on and nothing more, as it would be installed there.
import { mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { openRecipeBook, type Progress, parseRecipe, resolveRecipe } from '@sandboxd/rootfs-builder';
import { ensurePackageTree, type PackageTree } from '../../rootfs-builder/src/debian/tree.ts';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';

const ROOT = resolve(import.meta.dirname, '../..');

type HostOptions = {
  /** Path of the package. */
  readonly deb: string;
  readonly suite: string;
  /** Beside what it depends on. */
  readonly packages: readonly string[];
  /** Where trees are kept from one run to the next. */
  readonly cacheDir: string;
  readonly progress: Progress;
};

/** Path of the package that `make deb` made of this version. */
export async function builtDeb(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  return join(ROOT, `dist/sandboxd_${version}_amd64.deb`);
}

export async function ensureHostTree({
  deb,
  suite,
  packages,
  cacheDir,
  progress,
}: HostOptions): Promise<PackageTree> {
  const depends = (await runCommand('dpkg-deb', ['--field', deb, 'Depends'])).split(',');
  const names = depends.flatMap((each) => each.trim().split(/[\s|]/)[0] || []);
  const about = {
    name: 'package-host',
    suite,
    variant: 'minbase',
    packages: [...new Set([...names, ...packages])],
  };
  const recipe = resolveRecipe(parseRecipe(about, 'of the host'), await openRecipeBook([]));
  await mkdir(cacheDir, { recursive: true });
  return ensurePackageTree(recipe, { dataDir: cacheDir, refresh: false, progress });
}

export async function unpackTree(archivePath: string, root: string): Promise<void> {
  await mkdir(root, { recursive: true });
  const options = ['--zstd', '--numeric-owner', '--xattrs', '--xattrs-include=*', '--exclude=./dev/*'];
  await runCommand('tar', ['-C', root, ...options, '-xpf', archivePath]);
}
