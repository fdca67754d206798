// What the registry keeps of a converted image, and what others are told of it.
import type { ImageConfig } from './fetch/config.ts';

/** By its digest, hexadecimal: of root filesystem and config together. */
export type ImageRecord = {
  /** Whose create or pull brought it first: a tenant, or a key without one. */
  readonly owner?: string;
  /** References in their one spelling, the first one first; none for an image whose names others have now. */
  readonly refs: readonly string[];
  readonly configDigest: string;
  readonly config: ImageConfig;
  readonly layers: readonly string[];
  /** Blobs of the layout that it was made of. */
  readonly blobs: readonly string[];
  /** SHA-256 of the root filesystem, which is named by it. */
  readonly rootfsDigest: string;
  /** Of the host's file that it was made of, if it was one. */
  readonly fileKey?: string;
  /** It is that file itself, which was a root filesystem. */
  readonly isCopy?: true;
  readonly sizeBytes: number;
  readonly entries: number;
  readonly contentBytes: number;
  readonly convertedAtMs: number;
  /** When a sandbox was last made of it, or it was pulled. */
  readonly usedAtMs: number;
};

/** How layers became a root filesystem. */
export const CONVERT_MODE = 'erofs';
/** A root filesystem was taken as it is. */
export const COPY_MODE = 'copy';

export type ImageInfo = {
  /** `sha256:…`. */
  readonly digest: string;
  /** As people write it. */
  readonly sourceRef?: string;
  /** All references that lead to it, that one included. */
  readonly refs: readonly string[];
  readonly config: ImageConfig;
  readonly contentBytes: number;
  readonly sizeBytes: number;
  readonly entries: number;
  readonly convertMode: string;
  readonly convertedAtMs: number;
};

/** Names of one image. */
export const MAX_REFS = 64;
/** All records together: each list of the images has them all. Of what nothing runs from the longest unused goes beyond. */
export const MAX_RECORDS_BYTES = 8 << 20;
