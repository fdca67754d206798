// Node: HTTP with its own modules, directories of the file system.
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { packTar, unpackTar } from 'modern-tar/fs';
import { NodeTransport } from '../connection/node-transport.ts';
import type { Bytes, Platform } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';

const DEFAULT_HOST = 'http://127.0.0.1:7878';

export const platform: Platform = {
  name: 'node',
  createTransport: (options) => new NodeTransport(options),
  defaultHost: () => process.env.SANDBOXD_HOST || DEFAULT_HOST,
  defaultApiKey: () => process.env.SANDBOXD_API_KEY || undefined,
  defaultCa: () => (process.env.SANDBOXD_CA ? readFileSync(process.env.SANDBOXD_CA, 'utf8') : undefined),
  packDirectory: (path) => inOurWords(packTar(path), `${path} cannot be packed, or changed meanwhile`),
  unpackDirectory: async (archive, path) => {
    await mkdir(path, { recursive: true });
    await pipeline(Readable.from(archive), unpackTar(path)).catch((error: unknown) => {
      throw toOurError(error, `${path} cannot be unpacked into`);
    });
  },
};

async function* inOurWords(bytes: AsyncIterable<Uint8Array>, what: string): Bytes {
  try {
    yield* bytes;
  } catch (error) {
    throw toOurError(error, what);
  }
}

/** What the archiver itself says; errors of ours and of the system say enough. */
function toOurError(error: unknown, what: string): unknown {
  if (error instanceof SandboxdError || !(error instanceof Error) || 'code' in error) return error;
  return new SandboxdError(`${what}: ${error.message}`, { cause: error });
}
