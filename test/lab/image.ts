// The lab's root image: a Debian host with this project's packages and the guests' kernel, cached by what is in it.
import { chmod, copyFile, mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { makeRootImage, type Progress, resolveKernel } from '@sandboxd/rootfs-builder';
import { ensurePackageTree } from '../../rootfs-builder/src/debian/tree.ts';
import { kernelManifestSchema } from '../../rootfs-builder/src/kernel/kernels.ts';
import { ensureDeb } from '../../rootfs-builder/src/kernel/package.ts';
import { createWorkDirectory, sweepWorkDirectories } from '../../rootfs-builder/src/lib/atomic.ts';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';
import { digestFile, digestValue, shortDigest } from '../../rootfs-builder/src/lib/digest.ts';
import { kernelPackagesDirectory } from '../../rootfs-builder/src/lib/layout.ts';
import { runStep } from '../../rootfs-builder/src/lib/progress.ts';
import { openRecipeBook } from '../../rootfs-builder/src/recipe/book.ts';
import { parseRecipe } from '../../rootfs-builder/src/recipe/recipe.ts';
import { resolveRecipe } from '../../rootfs-builder/src/recipe/resolve.ts';
import { readPackageList } from '../../scripts/package-list.ts';

const INIT = join(import.meta.dirname, 'init.sh');
const PACKAGE_LISTS = ['packages.txt', 'test-packages.txt'].map((name) =>
  resolve(import.meta.dirname, '../../scripts', name),
);
/** Packages of the lists that the lab does without: it gets what was built, and no browser. */
const LEFT_OUT = new Set(['mmdebstrap', 'g++', 'chromium-headless-shell']);
/** What a Debian host has anyway, and a minimal tree has not. */
const HOST_PACKAGES = ['procps'];
/** Raise when the same packages, kernel and init.sh would give another image. */
const IMAGE_FORMAT = 1;

type LabImage = { readonly imagePath: string; readonly packages: Readonly<Record<string, string>> };

/** `dataDir` holds the prepared guest kernel, which the lab runs too. */
export async function ensureLabImage(dataDir: string, labDir: string, progress: Progress): Promise<LabImage> {
  const recipe = parseRecipe(
    {
      name: 'lab',
      suite: 'bookworm',
      variant: 'minbase',
      packages: [...readPackageNames(), ...HOST_PACKAGES],
    },
    'of the lab',
  );
  const resolved = resolveRecipe(recipe, await openRecipeBook([]));
  const tree = await ensurePackageTree(resolved, { dataDir: labDir, refresh: false, progress });
  const kernel = await readKernelPackage(dataDir);
  const digest = digestValue({
    format: IMAGE_FORMAT,
    tree: tree.digest,
    kernel,
    init: await digestFile(INIT),
  });
  const imagePath = join(labDir, 'images', `${shortDigest(digest)}.ext4`);
  if ((await stat(imagePath).catch(() => undefined)) === undefined) {
    const deb = await runStep(progress, `modules of ${kernel.name}`, (note) =>
      ensureDeb(kernel, kernelPackagesDirectory(dataDir), note),
    );
    await runStep(progress, 'root image of the lab', () => buildImage(imagePath, tree.archivePath, deb));
  }
  return { imagePath, packages: tree.packages };
}

function readPackageNames(): string[] {
  const names = PACKAGE_LISTS.flatMap((path) => readPackageList(path)).map(({ name }) => name);
  return names.filter((name) => !LEFT_OUT.has(name));
}

/** Path of the package that the guests' kernel is from. */
export async function readKernelDeb(dataDir: string, progress: Progress): Promise<string> {
  const kernel = await readKernelPackage(dataDir);
  return runStep(progress, `modules of ${kernel.name}`, (note) =>
    ensureDeb(kernel, kernelPackagesDirectory(dataDir), note),
  );
}

async function readKernelPackage(dataDir: string): Promise<{ name: string; version: string }> {
  const { vmlinuxPath } = await resolveKernel(dataDir, {});
  const manifest = kernelManifestSchema.parse(
    JSON.parse(await readFile(join(dirname(vmlinuxPath), 'manifest.json'), 'utf8')),
  );
  return { name: manifest.package, version: manifest.version };
}

async function buildImage(imagePath: string, treeArchive: string, kernelDeb: string): Promise<void> {
  const parent = dirname(imagePath);
  await sweepWorkDirectories(parent);
  const workDirectory = await createWorkDirectory(parent);
  try {
    const root = join(workDirectory, 'root');
    await mkdir(root);
    const tarOptions = ['--zstd', '--numeric-owner', '--xattrs', '--xattrs-include=*', '--exclude=./dev/*'];
    await runCommand('tar', ['-C', root, ...tarOptions, '-xpf', treeArchive]);
    await addModules(root, kernelDeb, join(workDirectory, 'kernel'));
    // Mount points: the lab's root is read-only until its own init runs.
    for (const path of ['data', 'lab/job', 'lab/checkout'])
      await mkdir(join(root, path), { recursive: true });
    await copyFile(INIT, join(root, 'lab/init'));
    await chmod(join(root, 'lab/init'), 0o755);
    const image = join(workDirectory, 'image');
    await makeRootImage(root, image);
    await rename(image, imagePath);
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

/** Only the modules of the kernel package: its kernel is booted from outside, and its scripts would make an initramfs. */
export async function addModules(root: string, kernelDeb: string, unpacked: string): Promise<void> {
  await runCommand('dpkg-deb', ['-x', kernelDeb, unpacked]);
  const modules = join(unpacked, 'lib/modules');
  await runCommand('cp', ['-a', modules, join(root, 'usr/lib')]);
  const release = basename((await runCommand('ls', [modules])).trim());
  await runCommand('chroot', [root, 'depmod', release]);
}
