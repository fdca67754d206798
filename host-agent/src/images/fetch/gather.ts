// Copies an OCI layout of the host into a directory of the daemon. Skopeo opens files by name and would follow symbolic
// links out of the layout, including links created while it reads (TOCTOU).
import { type FileHandle, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { show } from '@sandboxd/api';
import { z } from 'zod';
import { copyBounded } from '../../lib/bounded-copy.ts';
import { AppError } from '../../lib/errors.ts';
import type { Descriptor } from './choose.ts';

export type GatherOptions = {
  /** Opens a regular file of the layout by its relative path. */
  readonly open: (name: string) => Promise<FileHandle>;
  /** Limit for all files together. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
};

const DIGEST = /^sha256:[\da-f]{64}$/;
const MAX_DOCUMENT_BYTES = 8 << 20;

const described = z.object({ digest: z.string().regex(DIGEST) });
const document = z.object({ config: z.unknown().optional(), layers: z.array(z.unknown()).catch([]) });

/** Creates the layout `dir` with the image of `manifest`. AppError invalid_argument for a layout above the limit. */
export async function gatherLayout(
  dir: string,
  manifest: Descriptor,
  { open, maxBytes, signal }: GatherOptions,
): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}', { mode: 0o600 });
  await writeIndex(dir, manifest);
  const text = await readBlob({ open }, manifest.digest);
  const { config, layers } = parse(text ?? '{}');
  let bytes = 0;
  const all = [manifest, config, ...layers].flatMap((each) => described.safeParse(each).data ?? []);
  for (const digest of new Set(all.map((each) => each.digest))) {
    const name = blobName(digest);
    // A file outside the layout counts as missing. The later fetch reports missing files.
    const opened = await open(name).catch(() => undefined);
    if (opened === undefined) continue;
    await using file = opened;
    const bounds = { maxBytes: maxBytes - bytes, what: 'the directory', signal };
    bytes += await copyBounded(file, join(dir, name), bounds);
  }
}

/** Makes this image the only one in the layout's index. */
export async function writeIndex(dir: string, manifest: Descriptor): Promise<void> {
  const index = JSON.stringify({ schemaVersion: 2, manifests: [manifest] });
  await writeFile(join(dir, 'index.json'), index, { mode: 0o600 });
}

/** Returns the text of index.json. AppError invalid_argument. */
export async function readIndex({ open }: Pick<GatherOptions, 'open'>): Promise<string> {
  await using file = await open('index.json').catch((cause: unknown) => {
    throw new AppError('invalid_argument', 'the index.json of the directory is gone', { cause });
  });
  return await readDocument(file, 'index.json');
}

/** Returns the text of a blob; undefined when it is missing. AppError invalid_argument for a blob that is too large. */
export async function readBlob(
  { open }: Pick<GatherOptions, 'open'>,
  digest: string,
): Promise<string | undefined> {
  const name = blobName(digest);
  const opened = await open(name).catch(() => undefined);
  if (opened === undefined) return undefined;
  await using file = opened;
  return await readDocument(file, name);
}

async function readDocument(file: FileHandle, name: string): Promise<string> {
  const { size } = await file.stat();
  if (size > MAX_DOCUMENT_BYTES)
    throw new AppError('invalid_argument', `the ${name} of the layout has ${size} bytes, which is too much`);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
  return buffer.subarray(0, bytesRead).toString();
}

function parse(text: string): z.infer<typeof document> {
  try {
    return document.parse(JSON.parse(text));
  } catch {
    return { config: undefined, layers: [] };
  }
}

function blobName(digest: string): string {
  if (!DIGEST.test(digest))
    throw new AppError('invalid_argument', `${show(digest)} is not a digest of a blob`);
  return `blobs/${digest.replace(':', '/')}`;
}
