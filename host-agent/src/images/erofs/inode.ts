// A file system in memory, but for the content of its files: what layers are merged into and images are written from.

/** Names and values are bytes: strings of code units below 256. */
export type Xattrs = ReadonlyMap<string, string>;

export type Attributes = {
  /** The twelve permission bits. */
  mode: number;
  uid: number;
  gid: number;
  mtimeSeconds: number;
  mtimeNanos: number;
  xattrs: Xattrs;
};

/** Where a file's content lies in the image. */
export type Content =
  /** One piece from this block on. */
  | { readonly kind: 'plain'; readonly block: number }
  /** The block of each of its blocks; HOLE where there is none. */
  | { readonly kind: 'sparse'; readonly blocks: Uint32Array };

export const HOLE = 0xffff_ffff;

export type DirectoryInode = Attributes & {
  readonly type: 'directory';
  readonly entries: Map<string, Entry>;
};
export type FileInode = Attributes & { readonly type: 'file'; sizeBytes: number; content: Content };
export type SymlinkInode = Attributes & { readonly type: 'symlink'; readonly target: string };
export type DeviceInode = Attributes & {
  readonly type: 'character-device' | 'block-device' | 'fifo';
  readonly major: number;
  readonly minor: number;
};
export type Inode = DirectoryInode | FileInode | SymlinkInode | DeviceInode;

/** One name of an inode. */
export type Entry = {
  readonly inode: Inode;
  /** The layer that this name, or for a directory its last attributes, came with. */
  layer: number;
};

export const NO_XATTRS: Xattrs = new Map();

export function newDirectory(attributes?: Partial<Attributes>): DirectoryInode {
  return {
    type: 'directory',
    mode: 0o755,
    uid: 0,
    gid: 0,
    mtimeSeconds: 0,
    mtimeNanos: 0,
    xattrs: NO_XATTRS,
    ...attributes,
    entries: new Map(),
  };
}
