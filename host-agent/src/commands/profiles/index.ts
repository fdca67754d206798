// `sandboxd profiles …`: rootfs profiles.
import type { Flags, Input } from '@sandboxd/api/command-line';
import {
  bakeProfile,
  builtinProfileNames,
  digestInit,
  ensureKernel,
  findRecipe,
  KEPT_BAKES,
  listProfileNames,
  listProfiles,
  openRecipeBook,
  type Progress,
  pruneBakes,
  readRecipe,
  requireBakingHost,
  resolveProfile,
  verifyProfile,
} from '@sandboxd/rootfs-builder';
import type { Config } from '../../config/index.ts';
import { type Command, type Group, parseCount } from '../command.ts';
import { AGENT_DIR, INIT_PATH, NPM_DIR } from '../installation.ts';
import { ProgressLine } from '../progress.ts';
import { loadSharedConfig, openDataDir, SHARED_FLAGS } from '../shared-config.ts';

// Formats sizes and durations for output.

export function formatMib(sizeBytes: number): string {
  return `${(sizeBytes / 2 ** 20).toFixed(0)} MiB`;
}

/** `startedAt` is a value of performance.now(). */
function formatSeconds(startedAt: number): string {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}

// `sandboxd profiles bake` and `prune`: bakes profiles, prepares the guest kernel if there is none, and removes
// replaced bakes.

const KEEP_FLAG: Flags = {
  keep: {
    type: 'string',
    placeholder: 'count',
    help: `unused replaced bakes to keep (${KEPT_BAKES}); with 0, a create that started before the newest bake may fail`,
  },
};

const prune: Command = {
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

const bake: Command = {
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

const NAME_COLUMNS = 16;
const SIZE_COLUMNS = 9;

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the baked profiles',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print the manifests as a JSON array' } },
  run: async (input) => {
    const { dataDir } = loadSharedConfig(input);
    const manifests = (await listProfiles(dataDir)).map(({ manifest }) => manifest);
    if (input.isSet('json')) {
      process.stdout.write(`${JSON.stringify(manifests, null, 2)}\n`);
      return;
    }
    const names = await listProfileNames(dataDir);
    for (const name of names.filter((each) => manifests.every((manifest) => manifest.name !== each)))
      await resolveProfile(dataDir, name).catch((error) => process.stderr.write(`${error.message}\n`));
    if (names.length === 0) {
      process.stderr.write(`no profile is baked in ${dataDir}; \`sandboxd profiles bake\` makes one\n`);
    }
    for (const { name, digest, sizeBytes, createdAt, description } of manifests) {
      const size = formatMib(sizeBytes).padStart(SIZE_COLUMNS);
      process.stdout.write(
        `${name.padEnd(NAME_COLUMNS)} ${digest.slice(0, 16)} ${size}  ${createdAt}  ${description}\n`,
      );
    }
  },
};

const verify: Command = {
  name: 'verify',
  operands: '[profile]…',
  summary: 'verify the checksums of profiles (default: all)',
  flags: SHARED_FLAGS,
  run: async (input, signal) => {
    const { dataDir } = loadSharedConfig(input);
    // Includes damaged profiles, which `listProfiles` omits.
    const names = input.operands.length > 0 ? input.operands : await listProfileNames(dataDir);
    if (names.length === 0)
      throw new Error(`no profile is baked in ${dataDir}; \`sandboxd profiles bake\` makes one`);
    for (const name of names) {
      const startedAt = performance.now();
      const { manifest } = await verifyProfile(dataDir, name, signal);
      process.stdout.write(
        `${name}: intact (sha256 ${manifest.rootfsSha256}, ${formatSeconds(startedAt)})\n`,
      );
    }
  },
};

export const profiles: Group = {
  name: 'profiles',
  summary:
    'Rootfs profiles, from which sandboxes are created. All commands are safe while a daemon uses the data directory.',
  commands: [bake, list, verify, prune],
};
