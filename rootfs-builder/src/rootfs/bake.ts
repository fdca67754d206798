// Bakes one profile: package tree + recipe + agent → image and manifest, cached by the digest of all inputs.
import { access, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensurePackageTree, type PackageTree } from '../debian/tree.ts';
import { BuilderError } from '../errors.ts';
import {
  createWorkDirectory,
  publishDirectory,
  retireDirectory,
  sweepWorkDirectories,
  syncPath,
  writeFileAtomically,
} from '../lib/atomic.ts';
import { requirePrograms, runCommand } from '../lib/command.ts';
import { digestDirectory, digestFile, digestValue } from '../lib/digest.ts';
import { bakedDirectory, CURRENT_FILE, profileDirectory } from '../lib/layout.ts';
import { type Progress, runStep, silentProgress } from '../lib/progress.ts';
import type { Recipe } from '../recipe/recipe.ts';
import { type RecipeBook, type ResolvedRecipe, recipeDigest, resolveRecipe } from '../recipe/resolve.ts';
import { makeRootImage } from './ext4.ts';
import {
  copyAgent,
  copyExecutable,
  ensureGuestDirectory,
  neutralSettings,
  trimTree,
  writeGuestFiles,
} from './guest-files.ts';
import { type ProfileManifest, ROOTFS_FORMAT } from './manifest.ts';
import {
  installNpmPackage,
  labelOf,
  type NpmPackage,
  type ResolvedNpmRuntime,
  resolveNpmPackage,
  resolveNpmRuntime,
} from './npm-packages.ts';
import { MANIFEST_FILE, markIntact, type ResolvedProfile, ROOTFS_FILE, readBaked } from './profiles.ts';

export type BakeOptions = {
  dataDir: string;
  /** The finished agent directory (dist/agent), copied to /.sandbox. */
  agentDir: string;
  recipe: Recipe;
  /** The recipes that `recipe` may extend. */
  book: RecipeBook;
  /** Directory whose node_modules hold npm runtimes; default the working directory. */
  npmDir?: string;
  /** Query the mirror for newer packages, and replace a damaged image. */
  refresh?: boolean;
  mirror?: string;
  progress?: Progress;
  signal?: AbortSignal;
};

export type BakeResult = ResolvedProfile & { isFresh: boolean };

type BakeInputs = {
  recipe: ResolvedRecipe;
  tree: PackageTree;
  agentDigest: string;
  runtime: ResolvedNpmRuntime | undefined;
  npmPackages: readonly NpmPackage[];
  digest: string;
};

/** Makes the profile current in `dataDir` and returns it. `isFresh` is false on a cache hit. */
export async function bakeProfile(options: BakeOptions): Promise<BakeResult> {
  const { dataDir, progress = silentProgress, signal } = options;
  const recipe = resolveRecipe(options.recipe, options.book);
  const agentDigest = await digestAgent(options.agentDir);
  const { npmDir = process.cwd() } = options;
  const runtime = recipe.npmRuntime && (await resolveNpmRuntime(recipe.npmRuntime, npmDir));
  const npmPackages = await Promise.all(recipe.npmPackages.map((name) => resolveNpmPackage(name, npmDir)));
  const { refresh = false, mirror } = options;
  const tree = await ensurePackageTree(recipe, { dataDir, refresh, mirror, progress, signal });
  const digest = digestValue({
    format: ROOTFS_FORMAT,
    recipe: recipeDigest(recipe),
    tree: tree.digest,
    agent: agentDigest,
    npmRuntime: runtime?.label,
    npmPackages: npmPackages.map(labelOf),
  });
  const inputs = { recipe, tree, agentDigest, runtime, npmPackages, digest };
  const cached = await readUsable(dataDir, recipe.name, digest);
  if (cached !== undefined) {
    await makeCurrent(dataDir, recipe.name, digest);
    return { ...cached, isFresh: false };
  }
  return buildProfile(inputs, options);
}

async function buildProfile(inputs: BakeInputs, options: BakeOptions): Promise<BakeResult> {
  const { dataDir, progress = silentProgress, signal } = options;
  const { recipe, digest } = inputs;
  requireRoot();
  const parent = profileDirectory(dataDir, recipe.name);
  await sweepWorkDirectories(parent);
  const workDirectory = await createWorkDirectory(parent);
  try {
    const root = join(workDirectory, 'root');
    await runStep(progress, `tree of ${recipe.name}`, () =>
      prepareTree(inputs, options.agentDir, root, signal),
    );
    const manifest = await runStep(progress, `image of ${recipe.name} (mke2fs)`, async (note) => {
      const rootfsPath = join(workDirectory, ROOTFS_FILE);
      const entries = await makeRootImage(root, rootfsPath, { signal });
      await rm(root, { recursive: true });
      note('checksum');
      return finishImage(inputs, rootfsPath, entries);
    });
    await writeFile(join(workDirectory, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
    await syncPath(join(workDirectory, MANIFEST_FILE));
    await publishDirectory(workDirectory, bakedDirectory(dataDir, recipe.name, digest));
    await makeCurrent(dataDir, recipe.name, digest);
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
  // Read back, because another process may have published its image first.
  const baked = await readBaked(dataDir, recipe.name, digest);
  if (baked === undefined)
    throw new BuilderError('profile_corrupt', `profile "${recipe.name}" vanished while it was baked`);
  return { ...baked, isFresh: true };
}

async function prepareTree(
  inputs: BakeInputs,
  agentDir: string,
  root: string,
  signal?: AbortSignal,
): Promise<void> {
  const { recipe, tree, runtime, npmPackages } = inputs;
  await mkdir(root, { mode: 0o755 });
  // Device nodes are omitted: guests have devtmpfs.
  const args = ['--zstd', '--numeric-owner', '--xattrs', '--xattrs-include=*', '--exclude=./dev/*'];
  await runCommand('tar', ['-C', root, ...args, '-xpf', tree.archivePath], { signal });
  await trimTree(root);
  await writeGuestFiles(root, neutralSettings(recipe.suite));
  if (runtime !== undefined) await copyExecutable(root, runtime.binaryPath, runtime.guestPath);
  for (const each of npmPackages) await installNpmPackage(root, each);
  await writeGuestFiles(root, recipe.files);
  await ensureGuestDirectory(root, recipe.workdir);
  await copyAgent(root, agentDir);
}

async function finishImage(
  inputs: BakeInputs,
  rootfsPath: string,
  entries: number,
): Promise<ProfileManifest> {
  const { recipe, tree, runtime, digest, agentDigest } = inputs;
  const now = new Date();
  const manifest: ProfileManifest = {
    formatVersion: ROOTFS_FORMAT,
    name: recipe.name,
    description: recipe.description,
    digest,
    recipeDigest: recipeDigest(recipe),
    treeDigest: tree.digest,
    agentDigest,
    suite: recipe.suite,
    packages: tree.packages,
    ...(runtime === undefined ? {} : { npmRuntime: runtime.label }),
    env: recipe.env,
    workdir: recipe.workdir,
    ...(recipe.service && { service: recipe.service }),
    rootfsSha256: await digestFile(rootfsPath),
    sizeBytes: (await stat(rootfsPath)).size,
    entries,
    rootfsMtimeMs: now.getTime(),
    createdAt: now.toISOString(),
  };
  await markIntact(rootfsPath, manifest);
  await syncPath(rootfsPath);
  return manifest;
}

/** A damaged image is set aside and rebuilt, because all inputs are available. */
async function readUsable(
  dataDir: string,
  name: string,
  digest: string,
): Promise<ResolvedProfile | undefined> {
  try {
    return await readBaked(dataDir, name, digest);
  } catch (error) {
    if (!(error instanceof BuilderError) || error.code !== 'profile_corrupt') throw error;
    await retireDirectory(bakedDirectory(dataDir, name, digest));
    return undefined;
  }
}

async function makeCurrent(dataDir: string, name: string, digest: string): Promise<void> {
  await writeFileAtomically(join(profileDirectory(dataDir, name), CURRENT_FILE), `${digest}\n`);
}

async function digestAgent(agentDir: string): Promise<string> {
  const missing = (cause: unknown) =>
    new BuilderError(
      'agent_missing',
      `no guest agent in ${agentDir}; it comes with sandboxd, beside its executable: install it again, or build it (make build)`,
      { cause },
    );
  await access(join(agentDir, 'sandbox-agent')).catch((error) => Promise.reject(missing(error)));
  return digestDirectory(agentDir);
}

/** Programs that baking runs, directly or through each other. */
const PROGRAMS = [
  'mmdebstrap',
  'mke2fs',
  'debugfs',
  'tar',
  'zstd',
  'lz4',
  'xz',
  'apt-get',
  'dpkg-deb',
  'depmod',
];

/** Throws `not_root` or `tool_missing` before minutes of work instead of after. */
export async function requireBakingHost(): Promise<void> {
  requireRoot();
  await requirePrograms(PROGRAMS);
}

function requireRoot(): void {
  if (process.getuid?.() === 0) return;
  throw new BuilderError(
    'not_root',
    'baking needs root, because files of the image belong to root; run it with sudo',
  );
}
