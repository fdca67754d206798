// In-memory filesystem without file contents. Layers are merged into it, and images are written from it.
import { roundUp, XATTR_ENTRY_BYTES, XATTR_HEADER_BYTES, XATTR_PREFIXES } from './format.ts';

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

// Extended attributes, encoded inline after the inode.
type Stored = { readonly index: number; readonly name: string; readonly value: string };

/** Encoded size in bytes; 0 without attributes. */
export function xattrBytes(xattrs: Xattrs): number {
  if (xattrs.size === 0) return 0;
  const entries = toStored(xattrs).reduce((sum, entry) => sum + entryBytes(entry), 0);
  return entries === 0 ? 0 : XATTR_HEADER_BYTES + entries;
}

/** The value of i_xattr_icount. */
export function xattrCount(bytes: number): number {
  return bytes === 0 ? 0 : (bytes - XATTR_HEADER_BYTES) / XATTR_ENTRY_BYTES + 1;
}

/** Writes the attributes at offset `at` of a zeroed buffer. */
export function writeXattrs(into: Buffer, at: number, xattrs: Xattrs): void {
  let position = at + XATTR_HEADER_BYTES;
  for (const entry of toStored(xattrs)) {
    const { index, name, value } = entry;
    into.writeUInt8(name.length, position);
    into.writeUInt8(index, position + 1);
    into.writeUInt16LE(value.length, position + 2);
    into.write(name + value, position + XATTR_ENTRY_BYTES, 'latin1');
    position += entryBytes(entry);
  }
}

/** Whether EROFS can store an attribute of this name. */
export function isStorable(name: string): boolean {
  return XATTR_PREFIXES.some(([prefix]) =>
    prefix.endsWith('.') ? name.startsWith(prefix) && name.length > prefix.length : name === prefix,
  );
}

/** Sorted by name, because archives have them in any order and equal contents must give equal images. */
function toStored(xattrs: Xattrs): Stored[] {
  return [...xattrs]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, value]) => {
      const found = XATTR_PREFIXES.find(([prefix]) => name.startsWith(prefix));
      return found === undefined ? [] : [{ index: found[1], name: name.slice(found[0].length), value }];
    });
}

function entryBytes({ name, value }: Stored): number {
  return roundUp(XATTR_ENTRY_BYTES + name.length + value.length, XATTR_ENTRY_BYTES);
}
