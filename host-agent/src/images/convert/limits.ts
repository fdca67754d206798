// Limits of a conversion. They are far above those of real images, and protect against decompression bombs.

export type ConvertLimits = {
  /** Total bytes of all layers, decompressed. */
  readonly bytes: number;
  /** Archive members of all layers. */
  readonly entries: number;
  readonly layers: number;
};

const MIB = 2 ** 20;

export const DEFAULT_CONVERT_LIMITS: ConvertLimits = {
  bytes: 64 * 1024 * MIB,
  entries: 2_000_000,
  layers: 512,
};

/** Linux's PATH_MAX (without the final zero byte) and its limit of symbolic links in one lookup. */
export const MAX_PATH_BYTES = 4095;
export const MAX_LINKS = 40;
/** Path resolution takes one step for each directory, so deep paths are costly. */
export const MAX_DEPTH = 1024;
/** Total size of the extended attributes of one inode. Linux allows 64 KiB for each attribute. */
export const MAX_XATTR_BYTES = 65_536;
export const MAX_XATTR_NAME_BYTES = 255;
/** Total apparent size of all sparse files: each block of them takes four bytes of the converter's memory. */
export const MAX_SPARSE_BYTES = 32 * 1024 * MIB;
/**
 * Maximum ratio of decompressed to compressed bytes, where equal layers count once as compressed. Below
 * FREE_RATIO_BYTES decompressed, any ratio is accepted.
 */
export const MAX_RATIO = 400;
export const FREE_RATIO_BYTES = 256 * MIB;
/**
 * Maximum number of entries that whiteouts may visit, per entry of the image: a whiteout visits all entries below the
 * one it removes.
 */
export const WHITEOUT_WORK = 64;

/** The image cannot be converted; `message` is a sentence with the reason. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
}
