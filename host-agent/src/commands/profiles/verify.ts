// `sandboxd profiles verify`.
import { verifyProfile } from '@sandboxd/rootfs-builder';
import type { Command } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { formatSeconds } from './format.ts';
import { bakedNames } from './prune.ts';

export const verify: Command = {
  name: 'verify',
  operands: '[profile]…',
  summary: 'compare images with their checksums (default: all)',
  flags: SHARED_FLAGS,
  run: async (input, signal) => {
    const { dataDir } = loadSharedConfig(input);
    for (const name of input.names.length > 0 ? input.names : await bakedNames(dataDir)) {
      const startedAt = performance.now();
      const { manifest } = await verifyProfile(dataDir, name, signal);
      process.stdout.write(
        `${name}: intact (sha256 ${manifest.rootfsSha256}, ${formatSeconds(startedAt)})\n`,
      );
    }
  },
};
