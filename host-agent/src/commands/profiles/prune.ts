// `sandboxd profiles prune`: removes replaced bakes that are not in use.

import type { Flags, Input } from '@sandboxd/api/command-line';
import { KEPT_BAKES, listProfiles, pruneBakes, resolveProfile } from '@sandboxd/rootfs-builder';
import { type Command, parseCount } from '../command.ts';
import { openDataDir, SHARED_FLAGS } from '../shared-config.ts';
import { formatMib } from './format.ts';

export const KEEP_FLAG: Flags = {
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
export async function pruneProfile(dataDir: string, name: string, keep: number): Promise<string> {
  const { removed, freedBytes, inUse } = await pruneBakes(dataDir, name, keep);
  const used = inUse.length === 0 ? '' : `; old ones in use: ${inUse.length}`;
  return `${name}: old bakes removed: ${removed.length}, ${formatMib(freedBytes)}${used}`;
}

async function bakedNames(dataDir: string): Promise<string[]> {
  return (await listProfiles(dataDir)).map(({ manifest }) => manifest.name);
}

/** Throws UsageError. */
export function readKeep(input: Input): number {
  return parseCount('keep', input.text('keep') ?? String(KEPT_BAKES));
}
