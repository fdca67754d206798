// SHA-256 of texts, values, files and directories: the keys of all caches.
import { createHash, hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const READ_CHUNK_BYTES = 4 << 20;
const SHORT_DIGEST_LENGTH = 16;

export function shortDigest(digest: string): string {
  return digest.slice(0, SHORT_DIGEST_LENGTH);
}

export function digestText(text: string): string {
  return hash('sha256', text, 'hex');
}

/** Digest of a JSON value, independent of the order of object keys. */
export function digestValue(value: unknown): string {
  return digestText(JSON.stringify(value, sortKeys));
}

function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  // JSON.stringify drops undefined fields, so absent and undefined are equal.
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

export async function digestFile(path: string, signal?: AbortSignal): Promise<string> {
  const sum = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: READ_CHUNK_BYTES }), sum, { signal });
  return sum.digest('hex');
}

/** Names, permission bits and contents of all files below a directory; links are followed. */
export async function digestDirectory(directory: string): Promise<string> {
  const lines: string[] = [];
  const visit = async (relative: string): Promise<void> => {
    for (const name of (await readdir(join(directory, relative))).sort()) {
      const path = join(relative, name);
      const stats = await stat(join(directory, path));
      if (stats.isDirectory()) await visit(path);
      else
        lines.push(`${(stats.mode & 0o777).toString(8)} ${await digestFile(join(directory, path))} ${path}`);
    }
  };
  await visit('');
  return digestText(lines.join('\n'));
}
