// The Node platform: its HTTP modules and the local filesystem.
import { readFileSync } from 'node:fs';
import { NodeTransport } from '../connection/node-transport.ts';
import type { Platform } from '../connection/transport.ts';
import { HeldDirectory } from './held-directory.ts';
import { packDirectory } from './pack-directory.ts';
import { unpackDirectory } from './unpack-directory.ts';

const DEFAULT_HOST = 'http://127.0.0.1:7878';

export const platform: Platform = {
  name: 'node',
  createTransport: (options) => new NodeTransport(options),
  defaultHost: () => process.env.SANDBOXD_HOST || DEFAULT_HOST,
  defaultApiKey: () => process.env.SANDBOXD_API_KEY || undefined,
  defaultCa: () => (process.env.SANDBOXD_CA ? readFileSync(process.env.SANDBOXD_CA, 'utf8') : undefined),
  packDirectory: async function* (path) {
    await using directory = await HeldDirectory.open(path);
    yield* packDirectory(directory);
  },
  unpackDirectory: async (archive, path) => {
    await using directory = await HeldDirectory.ensure(path);
    await unpackDirectory(archive, directory);
  },
};
