// `sandboxd profiles …`: rootfs profiles.
import { listProfileNames, verifyProfile } from '@sandboxd/rootfs-builder';
import type { Command, Group } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { bake, prune } from './bake.ts';
import { formatSeconds } from './format.ts';
import { list } from './list.ts';

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
