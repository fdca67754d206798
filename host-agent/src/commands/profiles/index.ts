// `sandboxd profiles …`: rootfs profiles.
import { listProfileNames, listProfiles, resolveProfile, verifyProfile } from '@sandboxd/rootfs-builder';
import type { Command, Group } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { bake, prune } from './bake.ts';
import { formatMib, formatSeconds } from './format.ts';

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
