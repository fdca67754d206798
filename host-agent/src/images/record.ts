// The stored record of a converted image, and the information shown to clients.
import type { ImageConfig } from './fetch/config.ts';

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
