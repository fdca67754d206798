// In-memory filesystem without file contents. Layers are merged into it, and images are written from it.

/** Names and values are bytes, as strings of code units below 256. */
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

/** Location of a file's content in the image. */
export type Content =
  /** Contiguous from this block on. */
  | { readonly kind: 'plain'; readonly block: number }
  /** The image block of each file block; HOLE for a hole. */
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

/** One directory entry (name) of an inode. */
export type Entry = {
  readonly inode: Inode;
  /** The layer that added this entry, or, for a directory, last set its attributes. */
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
