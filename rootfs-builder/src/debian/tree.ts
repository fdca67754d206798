// A recipe's package tree: mmdebstrap's output as a compressed archive, cached by suite, variant and packages.
import { readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { createWorkDirectory, sweepWorkDirectories, syncPath, writeFileAtomically } from '../lib/atomic.ts';
import { mirrorEnvironment, runCommand, SCRATCH } from '../lib/command.ts';
import { digestValue, shortDigest } from '../lib/digest.ts';
import { treesDirectory } from '../lib/layout.ts';
import { type Progress, runStep } from '../lib/progress.ts';
import type { ResolvedRecipe } from '../recipe/resolve.ts';
import { readHostAptSettings } from './apt-settings.ts';
import { type AptSource, readHostSources, toSourceLine } from './sources.ts';

/** Increase when a change of the options below changes the content of a tree. */
const TREE_FORMAT = 1;

export type PackageTree = {
  archivePath: string;
  /** Identifies the resolved package versions, not the bytes: two builds of an archive differ in time stamps. */
  digest: string;
  packages: Record<string, string>;
};

type PackageTreeOptions = {
  dataDir: string;
  /** Query the mirror even when a tree is cached. */
  refresh: boolean;
  /** Use this mirror instead of the host's apt sources. */
  mirror?: string | undefined;
  progress: Progress;
  signal?: AbortSignal | undefined;
};

const treeRecord = z.object({
  packages: z.record(z.string(), z.string()),
  archiveSizeBytes: z.number(),
});

/** File name in the work directory. */
const ARCHIVE = 'tree.tar.zst';
// Also stored in the guest as dpkg settings, so that packages installed later stay small. Licences are kept.
const DPKG_OPTIONS = [
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/lintian/*',
  'path-exclude=/usr/share/locale/*',
];

export async function ensurePackageTree(
  recipe: ResolvedRecipe,
  options: PackageTreeOptions,
): Promise<PackageTree> {
  const inputs = {
    format: TREE_FORMAT,
    suite: recipe.suite,
    variant: recipe.variant,
    packages: recipe.packages,
    ...(recipe.users && { users: recipe.users }),
  };
  const directory = treesDirectory(options.dataDir);
  const stem = join(directory, shortDigest(digestValue(inputs)));
  const cached = await readTree(stem, inputs);
  if (cached !== undefined && !options.refresh) return cached;
  await sweepWorkDirectories(directory);
  const workDirectory = await createWorkDirectory(directory);
  try {
    const archive = join(workDirectory, ARCHIVE);
    await runStep(options.progress, `packages of ${recipe.name} (mmdebstrap)`, (note) =>
      buildArchive(recipe, workDirectory, options, note),
    );
    const packages = await readPackageVersions(archive);
    // The versions are unchanged: keep the old archive, so that everything made from it stays valid.
    if (cached !== undefined && digestValue(cached.packages) === digestValue(packages)) return cached;
    await syncPath(archive);
    const { size } = await stat(archive);
    await rename(archive, `${stem}.tar.zst`);
    await writeFileAtomically(
      `${stem}.json`,
      `${JSON.stringify({ packages, archiveSizeBytes: size }, null, 2)}\n`,
    );
    return toTree(stem, inputs, packages);
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

async function readTree(stem: string, inputs: object): Promise<PackageTree | undefined> {
  try {
    const record = treeRecord.parse(JSON.parse(await readFile(`${stem}.json`, 'utf8')));
    const { size } = await stat(`${stem}.tar.zst`);
    return size === record.archiveSizeBytes ? toTree(stem, inputs, record.packages) : undefined;
  } catch {
    return undefined; // missing or damaged; it is only a cache
  }
}

function toTree(stem: string, inputs: object, packages: Record<string, string>): PackageTree {
  return { archivePath: `${stem}.tar.zst`, digest: digestValue({ inputs, packages }), packages };
}

async function buildArchive(
  recipe: ResolvedRecipe,
  workDirectory: string,
  options: PackageTreeOptions,
  note: (text: string) => void,
): Promise<void> {
  const sources = options.mirror === undefined ? await readHostSources(recipe.suite) : [];
  const args = mmdebstrapArguments(recipe, join(SCRATCH, ARCHIVE), {
    sources,
    mirror: options.mirror,
    aptSettings: await readHostAptSettings(),
  });
  await runCommand('mmdebstrap', args, {
    env: mirrorEnvironment(),
    signal: options.signal,
    scratch: workDirectory,
    onLine: (line) => {
      // "I: extracting archives..." lines are its stages; other lines are dpkg's output.
      const stage = /^I: (?!.*(tempdir|architecture))(.*?)\.*$/.exec(line)?.[2];
      if (stage !== undefined) note(stage);
    },
  });
}

/** The mmdebstrap command line. */
export function mmdebstrapArguments(
  recipe: Pick<ResolvedRecipe, 'suite' | 'variant' | 'packages' | 'users'>,
  archive: string,
  host: { sources: AptSource[]; mirror?: string | undefined; aptSettings: string[] },
): string[] {
  return [
    '--mode=root',
    '--format=tar', // the archive's suffix selects the compression
    `--variant=${recipe.variant}`,
    ...(recipe.packages.length > 0 ? [`--include=${recipe.packages.join(',')}`] : []),
    ...host.aptSettings.map((setting) => `--aptopt=${setting}`),
    ...DPKG_OPTIONS.map((option) => `--dpkgopt=${option}`),
    // Scripts of packages, such as those of Java, link pages of alternatives there, and fail without the directory.
    '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
    // mmdebstrap runs the line with the root directory as its first argument. Names have no special characters.
    ...(recipe.users ?? []).map(
      (name) => `--customize-hook=chroot "$1" useradd --create-home --user-group --shell /bin/bash ${name}`,
    ),
    recipe.suite,
    archive,
    ...(host.mirror === undefined ? host.sources.map(toSourceLine) : [host.mirror]),
  ];
}

async function readPackageVersions(archive: string): Promise<Record<string, string>> {
  const args = ['--zstd', '--occurrence=1', '-xOf', archive, './var/lib/dpkg/status'];
  return parseDpkgStatus(await runCommand('tar', args));
}

/** dpkg's status file → installed packages and their versions, sorted by name. */
export function parseDpkgStatus(text: string): Record<string, string> {
  const entries = text.split('\n\n').flatMap((stanza): [string, string][] => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(stanza)?.[1];
    const name = field('Package');
    const version = field('Version');
    const isInstalled = field('Status')?.endsWith(' installed') === true;
    return name !== undefined && version !== undefined && isInstalled ? [[name, version]] : [];
  });
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}
