// Constants of the EROFS format (fs/erofs/erofs_fs.h of Linux), as far as uncompressed images use them.

export const BLOCK_BYTES = 4096;
export const BLOCK_BITS = 12;
export const MAGIC = 0xe0f5e1e2;
export const SUPER_OFFSET = 1024;
/** Alignment of inodes; an inode's number is its offset in these units. */
export const SLOT_BYTES = 32;
export const INODE_BYTES = 64;
export const MAX_NAME_BYTES = 255;
export const DIRENT_BYTES = 12;
export const XATTR_HEADER_BYTES = 12;
export const XATTR_ENTRY_BYTES = 4;

/** i_format: the extended inode version in bit 0, the data layout in the bits above. */
export const LONG_INODE = 1;
export const LAYOUT = { plain: 0, inline: 2, chunks: 4 } as const;
/** Incompatible-feature flag for chunk-based files. */
export const INCOMPAT_CHUNKED_FILE = 4;

export const FILE_TYPES = {
  file: { dirent: 1, mode: 0o100000 },
  directory: { dirent: 2, mode: 0o040000 },
  'character-device': { dirent: 3, mode: 0o020000 },
  'block-device': { dirent: 4, mode: 0o060000 },
  fifo: { dirent: 5, mode: 0o010000 },
  symlink: { dirent: 7, mode: 0o120000 },
} as const;

/** e_name_index for each name prefix; only the rest of the name is stored. */
export const XATTR_PREFIXES: readonly (readonly [prefix: string, index: number])[] = [
  ['user.', 1],
  ['system.posix_acl_access', 2],
  ['system.posix_acl_default', 3],
  ['trusted.', 4],
  ['security.', 6],
];

export function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
