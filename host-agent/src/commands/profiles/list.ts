// `sandboxd profiles list`.
import { listProfileNames, listProfiles, resolveProfile } from '@sandboxd/rootfs-builder';
import type { Command } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { formatMib } from './format.ts';

const NAME_COLUMNS = 16;
const SIZE_COLUMNS = 9;

export const list: Command = {
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
