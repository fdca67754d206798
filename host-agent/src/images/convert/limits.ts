// How much an archive may cost: what passes one of these is no image that anybody made on purpose.

export type ConvertLimits = {
  /** Of all layers, unpacked. */
  readonly bytes: number;
  /** Members of all layers. */
  readonly entries: number;
  readonly layers: number;
};

const MIB = 2 ** 20;

export const DEFAULT_CONVERT_LIMITS: ConvertLimits = {
  bytes: 64 * 1024 * MIB,
  entries: 2_000_000,
  layers: 512,
};

/** As Linux has them. */
export const MAX_PATH_BYTES = 4095;
export const MAX_LINKS = 40;
/** Every directory on the way to an entry is a step. */
export const MAX_DEPTH = 1024;
/** Of one file or directory, all together; Linux takes 64 KiB for each. */
export const MAX_XATTR_BYTES = 65_536;
export const MAX_XATTR_NAME_BYTES = 255;
/** Of all sparse files as they appear: each of their blocks takes four bytes of memory here. */
export const MAX_SPARSE_BYTES = 32 * 1024 * MIB;
/** The layers may unpack to so many times the sizes of those that are different, and to this in any case. */
export const MAX_RATIO = 400;
export const FREE_RATIO_BYTES = 256 * MIB;
/** Entries that whiteouts may look at, by entry that there is: each looks at all beneath what it removes. */
export const WHITEOUT_WORK = 64;

/** The image is not one that can be converted; `message` is a sentence about it. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
}
