// Parses the OCI layout that skopeo wrote. Its blobs are in a directory that all layouts share.

import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { show } from '@sandboxd/api';
import { z } from 'zod';
import { readChunks } from '../../lib/bounded-copy.ts';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { isImageConfig, PLATFORM_HERE, rankOf, showPlatform } from './choose.ts';
import { configDocument, type ImageConfig, toImageConfig } from './config.ts';

const digest = z.string().regex(/^sha256:[\da-f]{64}$/);
const mediaType = z.string().nullish();
const descriptor = z.object({ digest, mediaType, urls: z.array(z.string()).nullish() });
const index = z.object({ manifests: z.array(descriptor).length(1) });
const manifest = z.object({ config: descriptor, layers: z.array(descriptor) });
export type LaidOut = {
  /** SHA-256 in hexadecimal. */
  readonly configDigest: string;
  readonly config: ImageConfig;
  readonly layers: readonly { readonly digest: string; readonly diffId?: string | undefined }[];
  /** All blobs of the image, including manifest and config. */
  readonly blobs: readonly string[];
};

/** Limit of manifest and config, which are read into memory. */
const MAX_DOCUMENT_BYTES = 8 << 20;
/**
 * AppError upstream when the layout is not an image for this platform; the message begins with `what`. DamagedBlobs
 * when a blob does not match its digest.
 */
export async function readLayout(dir: string, blobsDir: string, what: string): Promise<LaidOut> {
  const [found] = (await readDocument(join(dir, 'index.json'), index, `${what}: its index`)).manifests;
  const manifestHex = toHex(found?.digest ?? '');
  await dropDamaged(blobsDir, [manifestHex]);
  const listed = await readDocument(blobPath(blobsDir, manifestHex), manifest, `${what}: its manifest`);
  assertImage(listed, what);
  const configDigest = toHex(listed.config.digest);
  await dropDamaged(blobsDir, [configDigest]);
  const about = await readDocument(blobPath(blobsDir, configDigest), configDocument, `${what}: its config`);
  if (rankOf(about) === undefined)
    throw new AppError(
      'upstream',
      `${what} is for ${showPlatform(about)}; sandboxes here run ${PLATFORM_HERE}`,
    );
  const diffIds = about.rootfs?.diff_ids ?? [];
  if (diffIds.length !== listed.layers.length)
    throw new AppError(
      'upstream',
      `${what} has ${listed.layers.length} layers, and its config tells of ${diffIds.length}`,
    );
  const foreign = listed.layers.findIndex(({ urls }) => (urls ?? []).length > 0);
  if (foreign >= 0)
    throw new AppError(
      'upstream',
      `${what}: layer ${foreign + 1} is not in it but at an address of its own, and none is fetched from there`,
    );
  const layers = listed.layers.map((layer, at) => ({ digest: toHex(layer.digest), diffId: diffIds[at] }));
  return {
    configDigest,
    config: toImageConfig(about, what),
    layers,
    blobs: [...new Set([manifestHex, configDigest, ...layers.map((layer) => layer.digest)])],
  };
}

/**
 * Registries also store other artifacts (charts, signatures), and images whose layers are not archives. AppError
 * upstream with the media type, which says more than a failed attempt to parse the layer.
 */
function assertImage({ config, layers }: z.infer<typeof manifest>, what: string): void {
  if (!isImageConfig(config.mediaType))
    throw new AppError(
      'upstream',
      `${what} is not an image but an artifact of the type ${show(config.mediaType)}`,
    );
  const at = layers.findIndex((layer) => !isArchive(layer.mediaType));
  if (at < 0) return;
  const type = layers[at]?.mediaType ?? '';
  throw new AppError(
    'upstream',
    type.endsWith('+encrypted')
      ? `${what}: layer ${at + 1} is encrypted (${show(type)}), and encrypted layers are not taken`
      : `${what}: layer ${at + 1} is of the type ${show(type)}; only archives (tar) are taken`,
  );
}

/** The first bytes tell the compression, so the media type need not; some registries send no media type. */
function isArchive(type: string | null | undefined): boolean {
  if (!type || type === 'application/octet-stream') return true;
  return /\btar\b/.test(type) && !type.endsWith('+encrypted');
}

async function readDocument<T>(path: string, schema: z.ZodType<T>, what: string): Promise<T> {
  await using file = await openRegular(path);
  const { size } = await file.stat();
  if (size > MAX_DOCUMENT_BYTES)
    throw new AppError('upstream', `${what} has ${size} bytes, which is too much`);
  const text = await file.readFile('utf8');
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new AppError('upstream', `${what} is not as the OCI format wants it${explain(cause)}`, { cause });
  }
}

function explain(cause: unknown): string {
  const [issue] = cause instanceof z.ZodError ? cause.issues : [];
  if (issue === undefined) return '';
  return `: ${show(issue.path.join('.'))}: ${issue.message.replace('Invalid input: ', '')}`;
}

function toHex(text: string): string {
  return text.replace(/^sha256:/, '');
}

// Finds damaged blobs on disk, whose content does not match their digest. All images share the blobs, and a fetch
// reuses existing ones without a check.
/** The damaged blobs have been removed, so the next fetch downloads them again. */
export class DamagedBlobs extends AppError {
  readonly blobs: readonly string[];

  constructor(blobs: readonly string[], cause?: unknown) {
    super('upstream', `${blobs.length} blobs of the image are damaged on this host; send the request again`, {
      cause,
    });
    this.blobs = blobs;
  }
}

/** Path of a blob, by its SHA-256 in hexadecimal. */
export function blobPath(blobsDir: string, hex: string): string {
  return join(blobsDir, 'sha256', hex);
}

/** Removes those of `blobs` whose content does not match; rejects with DamagedBlobs if there were any. */
export async function dropDamaged(
  blobsDir: string,
  blobs: readonly string[],
  cause?: unknown,
): Promise<void> {
  const damaged: string[] = [];
  for (const hex of new Set(blobs)) if ((await digestOf(blobPath(blobsDir, hex))) !== hex) damaged.push(hex);
  for (const hex of damaged) await rm(blobPath(blobsDir, hex), { force: true });
  if (damaged.length > 0) throw new DamagedBlobs(damaged, cause);
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await using file = await openRegular(path);
  for await (const chunk of readChunks(file)) hash.update(chunk);
  return hash.digest('hex');
}
