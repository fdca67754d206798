// The bakery's command: bake, list and verify profiles, prepare the guest kernel.
import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { BuilderError, describeError } from './errors.ts';
import { ensureKernel } from './kernel/kernels.ts';
import { openRecipeBook } from './recipe/book.ts';
import { parseRecipe } from './recipe/recipe.ts';
import { findRecipe } from './recipe/resolve.ts';
import { bakeProfile } from './rootfs/bake.ts';
import { listProfiles, verifyProfile } from './rootfs/profiles.ts';
import { KEPT_BAKES, pruneBakes } from './rootfs/prune.ts';
import { printProgress } from './terminal.ts';

const USAGE = `usage: node rootfs-builder/src/cli.ts <command> [options]

  bake [profile…]     bake profiles: built-in names or recipe files (*.json); default base
  list [--json]       show the baked profiles
  verify [profile…]   compare images with their checksums; default all
  prune [profile…]    remove replaced bakes that nobody uses, as each bake does; default all
  kernel              prepare kernel and initramfs

  --data-dir <dir>    where results are kept (default: .data of the checkout)
  --agent-dir <dir>   the built guest agent (default: dist/agent of the checkout)
  --npm-dir <dir>     where npm runtimes are installed (default: the checkout)
  --mirror <url>      Debian mirror to use instead of the host's apt sources
  --keep <count>      replaced bakes that stay in any case (default 2)
  --refresh           look for newer packages, ignore what is cached

exit codes: 0 done, 1 failed, 2 wrong usage`;

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;
const checkout = resolve(import.meta.dirname, '../..');

const { values: flags, positionals } = readArguments();
const [command, ...names] = positionals;
const dataDir = resolve(flags['data-dir'] ?? join(checkout, '.data'));

try {
  switch (command) {
    case 'bake':
      await bake();
      break;
    case 'list':
      await list();
      break;
    case 'verify':
      await verify();
      break;
    case 'prune':
      for (const name of names.length > 0 ? names : await bakedNames()) await prune(name);
      break;
    case 'kernel':
      await prepareKernel();
      break;
    default:
      exitWithUsage(command === undefined ? 'a command is missing' : `unknown command "${command}"`);
  }
} catch (error) {
  console.error(`error: ${error instanceof BuilderError ? error.message : describeUnexpected(error)}`);
  process.exitCode = EXIT_FAILED;
}

async function bake(): Promise<void> {
  const isFile = (name: string) => name.endsWith('.json');
  const book = await openRecipeBook(names.filter(isFile));
  for (const name of names.length > 0 ? names : ['base']) {
    const startedAt = performance.now();
    const recipe = isFile(name) ? await readRecipe(name) : findRecipe(book, name);
    const { manifest, directory, isFresh } = await bakeProfile({
      dataDir,
      agentDir: resolve(flags['agent-dir'] ?? join(checkout, 'dist/agent')),
      npmDir: resolve(flags['npm-dir'] ?? checkout),
      recipe,
      book,
      refresh: flags.refresh,
      progress: printProgress,
      ...(flags.mirror === undefined ? {} : { mirror: flags.mirror }),
    });
    const size = `${(manifest.sizeBytes / 2 ** 20).toFixed(0)} MiB, ${manifest.entries} entries`;
    console.log(
      `${manifest.name}: ${isFresh ? 'baked' : 'up to date'} (${size}, ${seconds(startedAt)}) ${directory}`,
    );
    if (isFresh) await prune(manifest.name);
  }
}

async function readRecipe(path: string) {
  return parseRecipe(await readFile(path, 'utf8'), path);
}

async function list(): Promise<void> {
  const manifests = (await listProfiles(dataDir)).map(({ manifest }) => manifest);
  if (flags.json) {
    console.log(JSON.stringify(manifests, null, 2));
    return;
  }
  if (manifests.length === 0)
    console.error(`no intact profile in ${dataDir}; see the bake and verify commands`);
  for (const { name, digest, sizeBytes, createdAt, description } of manifests) {
    const size = `${(sizeBytes / 2 ** 20).toFixed(0)} MiB`.padStart(9);
    console.log(`${name.padEnd(16)} ${digest.slice(0, 16)} ${size}  ${createdAt}  ${description}`);
  }
}

async function verify(): Promise<void> {
  for (const name of names.length > 0 ? names : await bakedNames()) {
    const startedAt = performance.now();
    const { manifest } = await verifyProfile(dataDir, name);
    console.log(`${name}: intact (sha256 ${manifest.rootfsSha256}, ${seconds(startedAt)})`);
  }
}

async function bakedNames(): Promise<string[]> {
  return (await listProfiles(dataDir)).map(({ manifest }) => manifest.name);
}

async function prune(name: string): Promise<void> {
  const { removed, freedBytes, inUse } = await pruneBakes(dataDir, name, readKeep());
  const used = inUse.length === 0 ? '' : `; ${inUse.length} old ones are in use`;
  console.log(
    `${name}: ${removed.length} old bakes removed, ${(freedBytes / 2 ** 20).toFixed(0)} MiB${used}`,
  );
}

function readKeep(): number {
  const text = flags.keep ?? String(KEPT_BAKES);
  return /^\d{1,6}$/.test(text)
    ? Number(text)
    : exitWithUsage(`--keep must be a whole number, not "${text}"`);
}

async function prepareKernel(): Promise<void> {
  const startedAt = performance.now();
  const kernel = await ensureKernel({
    dataDir,
    initSourcePath: join(checkout, 'rootfs-builder/initramfs/init.c'),
    refresh: flags.refresh,
    progress: printProgress,
  });
  const state = kernel.isFresh ? 'prepared' : 'up to date';
  console.log(`kernel ${kernel.version}: ${state} (${seconds(startedAt)}) ${dirname(kernel.vmlinuxPath)}`);
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        'data-dir': { type: 'string' },
        'agent-dir': { type: 'string' },
        'npm-dir': { type: 'string' },
        mirror: { type: 'string' },
        keep: { type: 'string' },
        refresh: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return exitWithUsage(describeError(error));
  }
}

function exitWithUsage(problem: string): never {
  console.error(`${problem}\n\n${USAGE}`);
  process.exit(EXIT_USAGE);
}

function seconds(startedAt: number): string {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}

function describeUnexpected(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
