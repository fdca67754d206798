// The stored record of a converted image, and the information shown to clients.

import type { Labels } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import type { ImageConfig } from './fetch/config.ts';
import { formatReference, parseReference, shortReference } from './reference.ts';

/** Its key is the hexadecimal digest of root filesystem and config. */
export type ImageRecord = {
  /** The tenant, or a key without one, whose create or pull added the image. */
  readonly owner?: string;
  /** References in canonical spelling, oldest first; empty after other images took all its names. */
  readonly refs: readonly string[];
  readonly configDigest: string;
  readonly config: ImageConfig;
  readonly layers: readonly string[];
  /** Blobs of the source layout. */
  readonly blobs: readonly string[];
  /** SHA-256 of the root filesystem; also its file name. */
  readonly rootfsDigest: string;
  /** Identity of the host file that it was converted from. */
  readonly fileKey?: string;
  /** The root filesystem is a copy of a host file, without conversion. */
  readonly isCopy?: true;
  readonly sizeBytes: number;
  readonly entries: number;
  readonly contentBytes: number;
  readonly convertedAtMs: number;
  /** Labels that clients set; absent: none. */
  readonly labels?: Labels;
  /** Time of the last create or pull. */
  readonly usedAtMs: number;
};

/** The image's layers were converted. */
export const CONVERT_MODE = 'erofs';
/** A root filesystem was copied unchanged. */
export const COPY_MODE = 'copy';

export type ImageInfo = {
  /** `sha256:…`. */
  readonly digest: string;
  /** The first reference in short form. */
  readonly sourceRef?: string;
  /** All references in short form, including `sourceRef`. */
  readonly refs: readonly string[];
  readonly config: ImageConfig;
  readonly labels: Labels;
  readonly contentBytes: number;
  readonly sizeBytes: number;
  readonly entries: number;
  readonly convertMode: string;
  readonly convertedAtMs: number;
};

/** Maximum number of references of one image. */
export const MAX_REFS = 64;
/**
 * Limit of all records together, because a list of images contains all of them. Beyond it, unused images are evicted,
 * least recently used first.
 */
export const MAX_RECORDS_BYTES = 8 << 20;

// Finds the image that a text names: a reference in any spelling, a digest, or the prefix of a digest.
export type StoredImage = { readonly id: string; readonly record: ImageRecord };

const DIGEST_PREFIX = /^(?:sha256:)?([\da-f]{1,64})$/;

/** Undefined when no image matches. AppError conflict for an ambiguous digest prefix. */
export function findImage(images: readonly StoredImage[], text: string): StoredImage | undefined {
  const reference = parseReference(text);
  if (reference !== undefined) {
    const name = formatReference(reference);
    const named = images.find(({ record }) => record.refs.includes(name));
    if (named !== undefined) return named;
  }
  const prefix = DIGEST_PREFIX.exec(text)?.[1];
  if (prefix === undefined) return undefined;
  const found = images.filter(({ id }) => id.startsWith(prefix));
  if (found.length < 2) return found[0];
  const ids = found.map(({ id }) => `sha256:${id.slice(0, 16)}`).join(', ');
  throw new AppError(
    'conflict',
    `${text} is the beginning of the digests of ${found.length} images (${ids}); send more of it`,
  );
}

/** Whether the text is neither a reference nor a digest prefix, so that no image can have this name. */
export function isMeaningless(text: string): boolean {
  return parseReference(text) === undefined && !DIGEST_PREFIX.test(text);
}

/** Whether the text can be pulled from a registry; other names exist only on this daemon. */
export function isPullable(text: string): boolean {
  return !text.startsWith('sha256:') && parseReference(text) !== undefined;
}

export function toInfo({ id, record }: StoredImage): ImageInfo {
  const { config, contentBytes, sizeBytes, entries, convertedAtMs } = record;
  const refs = record.refs.flatMap((ref) => parseReference(ref) ?? []).map(shortReference);
  const [sourceRef] = refs;
  return {
    digest: `sha256:${id}`,
    ...(sourceRef !== undefined && { sourceRef }),
    refs,
    config,
    labels: record.labels ?? {},
    contentBytes,
    sizeBytes,
    entries,
    convertMode: record.isCopy ? COPY_MODE : CONVERT_MODE,
    convertedAtMs,
  };
}
