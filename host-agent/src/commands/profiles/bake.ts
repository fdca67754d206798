// `sandboxd profiles bake` and `prune`: bakes profiles, prepares the guest kernel if there is none, and removes
// replaced bakes.
import type { Flags, Input } from '@sandboxd/api/command-line';
import {
  bakeProfile,
  builtinProfileNames,
  digestInit,
  ensureKernel,
  findRecipe,
  KEPT_BAKES,
  listProfiles,
  openRecipeBook,
  type Progress,
  pruneBakes,
  readRecipe,
  requireBakingHost,
  resolveProfile,
} from '@sandboxd/rootfs-builder';
import type { Config } from '../../config/index.ts';
import { type Command, parseCount } from '../command.ts';
import { AGENT_DIR, INIT_PATH, NPM_DIR } from '../installation.ts';
import { ProgressLine } from '../progress.ts';
import { loadSharedConfig, openDataDir, SHARED_FLAGS } from '../shared-config.ts';
import { formatMib, formatSeconds } from './format.ts';

const KEEP_FLAG: Flags = {
  keep: {
    type: 'string',
    placeholder: 'count',
    help: `unused replaced bakes to keep (${KEPT_BAKES}); with 0, a create that started before the newest bake may fail`,
  },
};

export const prune: Command = {
  name: 'prune',
  operands: '[profile]…',
  summary: 'remove replaced bakes that no sandbox, snapshot or template uses (default: all profiles)',
  flags: { ...SHARED_FLAGS, ...KEEP_FLAG },
  run: async (input, signal) => {
    const keep = readKeep(input);
    const { dataDir } = await openDataDir(input);
    for (const name of input.operands) await resolveProfile(dataDir, name);
    for (const name of input.operands.length > 0 ? input.operands : await bakedNames(dataDir)) {
      signal.throwIfAborted();
      process.stdout.write(`${await pruneProfile(dataDir, name, keep)}\n`);
    }
  },
};

/** Prunes one profile; returns a line with the result. */
async function pruneProfile(dataDir: string, name: string, keep: number): Promise<string> {
  const { removed, freedBytes, inUse } = await pruneBakes(dataDir, name, keep);
  const used = inUse.length === 0 ? '' : `; old ones in use: ${inUse.length}`;
  return `${name}: old bakes removed: ${removed.length}, ${formatMib(freedBytes)}${used}`;
}

async function bakedNames(dataDir: string): Promise<string[]> {
  return (await listProfiles(dataDir)).map(({ manifest }) => manifest.name);
}

/** Throws UsageError. */
function readKeep(input: Input): number {
  return parseCount('keep', input.text('keep') ?? String(KEPT_BAKES));
}

export const bake: Command = {
  name: 'bake',
  operands: '[profile|recipe.json]…',
  summary: `bake profiles (${builtinProfileNames().join(', ')}, or recipe files; default: default_profile, which is base), and the kernel if it is missing`,
  flags: {
    ...SHARED_FLAGS,
    refresh: { type: 'boolean', help: 'ignore the cache and use the newest packages and kernel' },
    mirror: {
      type: 'string',
      placeholder: 'url',
      help: 'Debian mirror, instead of the host’s apt sources',
    },
    'npm-dir': {
      type: 'string',
      placeholder: 'path',
      help: 'directory whose node_modules contain the runtimes of your own recipes',
    },
    ...KEEP_FLAG,
  },
  run: async (input, signal) => {
    const given = loadSharedConfig(input);
    const keep = readKeep(input);
    await requireBakingHost();
    const book = await openRecipeBook(input.operands.filter(isFile));
    const names = input.operands.length > 0 ? input.operands : [given.defaults.profile];
    const recipes = await Promise.all(
      names.map((name) => (isFile(name) ? readRecipe(name) : findRecipe(book, name))),
    );
    if (!hasOwnKernel(given)) await digestInit(INIT_PATH);
    using line = new ProgressLine();
    const config = await openDataDir(input);
    await prepareKernel(config, input, line.show);
    for (const recipe of recipes) {
      signal.throwIfAborted();
      const startedAt = performance.now();
      const mirror = input.text('mirror');
      const { manifest, directory, isFresh } = await bakeProfile({
        dataDir: config.dataDir,
        agentDir: AGENT_DIR,
        npmDir: input.text('npm-dir') ?? NPM_DIR,
        recipe,
        book,
        refresh: input.isSet('refresh'),
        progress: line.show,
        signal,
        ...(mirror === undefined ? {} : { mirror }),
      });
      const about = `${formatMib(manifest.sizeBytes)}, ${manifest.entries} entries, ${formatSeconds(startedAt)}`;
      print(`${manifest.name}: ${isFresh ? 'baked' : 'up to date'} (${about}) ${directory}`);
      if (isFresh) print(await pruneProfile(config.dataDir, manifest.name, keep));
    }
  },
};

/** With both files configured, Debian's kernel is not needed. */
function hasOwnKernel({ kernelPath, initramfsPath }: Config): boolean {
  return kernelPath !== undefined && initramfsPath !== undefined;
}

async function prepareKernel(config: Config, input: Input, progress: Progress): Promise<void> {
  if (hasOwnKernel(config)) return;
  const startedAt = performance.now();
  const { version, isFresh } = await ensureKernel({
    dataDir: config.dataDir,
    initPath: INIT_PATH,
    refresh: input.isSet('refresh'),
    progress,
  });
  print(`kernel ${version}: ${isFresh ? 'prepared' : 'up to date'} (${formatSeconds(startedAt)})`);
}

function isFile(name: string): boolean {
  return name.endsWith('.json');
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
