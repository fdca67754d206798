// Merges the members of layers into the tree, lowest layer first, by the rules of the OCI image specification. File
// contents are written into the image immediately.
import { type MemberAttributes, showName, type TarEntry, type TarSink } from '@sandboxd/proto';
import { type DataWriter, FileContent } from '../erofs/data.ts';
import {
  type Attributes,
  type FileInode,
  type Inode,
  isStorable,
  NO_XATTRS,
  newDirectory,
  type Xattrs,
} from '../erofs/inode.ts';
import {
  type ConvertLimits,
  ImageError,
  MAX_SPARSE_BYTES,
  MAX_XATTR_BYTES,
  MAX_XATTR_NAME_BYTES,
} from './limits.ts';
import { Tree } from './tree.ts';

const WHITEOUT = '.wh.';
const OPAQUE = '.wh..wh..opq';
/**
 * AUFS metadata, which is not part of the filesystem. One such directory at the top of a layer holds files that hard
 * links of the same layer refer to.
 */
const RECORD = '.wh..wh.';
/** Attributes by which overlayfs marks its own metadata. */
const OVERLAY = ['trusted.overlay.', 'user.overlay.'];
const NO_ATTRIBUTES: MemberAttributes = { uid: 0, gid: 0, deviceMajor: 0, deviceMinor: 0, xattrs: NO_XATTRS };
const NO_CONTENT = { kind: 'plain', block: 0 } as const;
const MAX_TARGET_BYTES = 4095;

export class Merger implements TarSink {
  readonly tree = new Tree();
  readonly #data: DataWriter;
  readonly #limits: ConvertLimits;
  #layer = -1;
  /** The AUFS metadata of this layer. A file in it is part of the image only if a hard link refers to it. */
  #records = new Tree();
  #members = 0;
  #contentBytes = 0;
  #sparseBytes = 0;
  #file: { readonly inode: FileInode; readonly content: FileContent } | undefined;

  constructor(data: DataWriter, limits: ConvertLimits) {
    this.#data = data;
    this.#limits = limits;
  }

  /** Total bytes of all files read, including files that later layers hide. */
  get contentBytes(): number {
    return this.#contentBytes;
  }

  nextLayer(): void {
    this.#layer += 1;
    this.#records = new Tree();
  }

  begin(entry: TarEntry, member: MemberAttributes = NO_ATTRIBUTES): void {
    this.#members += 1;
    if (this.#members > this.#limits.entries)
      throw new ImageError(`the image has more than ${this.#limits.entries} entries`);
    const parts = this.tree.split(entry.name);
    const last = parts.at(-1);
    if (last?.startsWith(WHITEOUT)) this.#hide(entry, parts, last);
    else if (isOverlayWhiteout(entry, member)) this.#whiteout(parts);
    else if (entry.type === 'directory') this.#addDirectory(entry, member, parts);
    else if (entry.type === 'link') this.#addLink(entry, member, parts);
    else this.#addEntry(parts, this.#makeInode(entry, member));
  }

  content(bytes: Buffer, position: number): void {
    if (this.#file === undefined) return;
    this.#contentBytes += bytes.length;
    if (this.#contentBytes > this.#limits.bytes)
      throw new ImageError(`the files of the image have more than ${this.#limits.bytes} bytes`);
    this.#file.content.add(bytes, position);
  }

  finish(): void {
    if (this.#file === undefined) return;
    this.#file.inode.content = this.#file.content.finish();
    this.#file = undefined;
  }

  #hide(entry: TarEntry, parts: string[], last: string): void {
    const directory = parts.slice(0, -1);
    if (last === OPAQUE) this.#treeOf(directory).makeOpaque(directory, this.#layer);
    else if (!last.startsWith(RECORD)) {
      const hidden = last.slice(WHITEOUT.length);
      if (hidden === '' || hidden === '.' || hidden === '..')
        throw new ImageError(`${showName(entry.name)} is a whiteout of no name`);
      this.#whiteout([...directory, hidden]);
    }
  }

  /** A directory that exists keeps its entries. */
  #addDirectory(entry: TarEntry, member: MemberAttributes, parts: string[]): void {
    const attributes = toAttributes(entry, member);
    if (parts.length === 0) {
      Object.assign(this.tree.root, attributes);
      return;
    }
    const place = this.#treeOf(parts).place(parts, this.#layer);
    const known = this.tree.get(place);
    if (known?.inode.type === 'directory') {
      Object.assign(known.inode, attributes);
      known.layer = this.#layer;
    } else this.tree.put(place, newDirectory(attributes), this.#layer);
  }

  /**
   * The link's attributes replace those of the file, as in other unpackers. Archivers may omit the extended attributes
   * of a link.
   */
  #addLink(entry: TarEntry, member: MemberAttributes, parts: string[]): void {
    const targetParts = this.tree.split(entry.target);
    const target = this.tree.get(this.#treeOf(targetParts).place(targetParts, this.#layer))?.inode;
    const name = showName(entry.name);
    if (target === undefined)
      throw new ImageError(`${name} is a hard link to ${showName(entry.target)}, which is not there`);
    if (target.type === 'directory')
      throw new ImageError(`${name} is a hard link to ${showName(entry.target)}, which is a directory`);
    const { mode, xattrs, ...attributes } = toAttributes({ ...entry, type: target.type }, member);
    Object.assign(target, attributes);
    if (target.type !== 'symlink') target.mode = mode;
    // The link's extended attributes replace the file's. Merging them could exceed the limit of one inode.
    if (xattrs.size > 0) target.xattrs = xattrs;
    this.#addEntry(parts, target);
  }

  #addEntry(parts: string[], inode: Inode): void {
    const tree = this.#treeOf(parts);
    tree.put(tree.place(parts, this.#layer), inode, this.#layer);
  }

  #whiteout(parts: string[]): void {
    const tree = this.#treeOf(parts);
    tree.whiteout(tree.place(parts, this.#layer), this.#layer);
  }

  #treeOf([first]: readonly string[]): Tree {
    return first?.startsWith(RECORD) ? this.#records : this.tree;
  }

  #makeInode(entry: TarEntry, member: MemberAttributes): Inode {
    const attributes = toAttributes(entry, member);
    switch (entry.type) {
      case 'symlink':
        // Linux has one mode for symbolic links and ignores the archive's.
        return { ...attributes, mode: 0o777, type: 'symlink', target: checkTarget(entry) };
      case 'character-device':
      case 'block-device':
      case 'fifo':
        return { ...attributes, type: entry.type, major: member.deviceMajor, minor: member.deviceMinor };
      default: {
        const inode: FileInode = {
          ...attributes,
          type: 'file',
          sizeBytes: entry.sizeBytes,
          content: NO_CONTENT,
        };
        this.#checkSize(entry);
        this.#file = { inode, content: new FileContent(this.#data, entry.sizeBytes) };
        return inode;
      }
    }
  }

  #checkSize({ name, sizeBytes, contentBytes }: TarEntry): void {
    if (contentBytes > this.#limits.bytes)
      throw new ImageError(
        `${showName(name)} has ${contentBytes} bytes; an image has at most ${this.#limits.bytes}`,
      );
    if (contentBytes === sizeBytes) return;
    this.#sparseBytes += sizeBytes;
    if (this.#sparseBytes > MAX_SPARSE_BYTES)
      throw new ImageError(
        `${showName(name)} is a sparse file of ${sizeBytes} bytes; those of an image may have ${MAX_SPARSE_BYTES} together`,
      );
  }
}

/** Such a device is a whiteout to the guest's overlayfs, which would list it but could not open or remove it. */
function isOverlayWhiteout({ type }: TarEntry, { deviceMajor, deviceMinor }: MemberAttributes): boolean {
  return type === 'character-device' && deviceMajor === 0 && deviceMinor === 0;
}

function checkTarget({ name, target }: TarEntry): string {
  if (target !== '' && target.length <= MAX_TARGET_BYTES && !target.includes('\0')) return target;
  throw new ImageError(`${showName(name)} is a symbolic link to ${showName(target)}, which is not a path`);
}

function toAttributes(entry: TarEntry, member: MemberAttributes): Attributes {
  const { mode, mtimeSeconds, mtimeNanos } = entry;
  const { uid, gid } = member;
  return { mode, uid, gid, mtimeSeconds, mtimeNanos, xattrs: keepXattrs(entry, member.xattrs) };
}

/** Attributes that no filesystem stores are dropped, as other unpackers do. */
function keepXattrs({ name, type }: TarEntry, xattrs: Xattrs): Xattrs {
  if (xattrs.size === 0) return NO_XATTRS;
  const stored = new Map<string, string>();
  let bytes = 0;
  for (const [key, value] of xattrs) {
    if (!isStorable(key) || OVERLAY.some((prefix) => key.startsWith(prefix))) continue;
    // Linux allows `user.` attributes on files and directories only.
    if (key.startsWith('user.') && type !== 'file' && type !== 'directory') continue;
    bytes += key.length + value.length;
    if (key.length > MAX_XATTR_NAME_BYTES || bytes > MAX_XATTR_BYTES)
      throw new ImageError(`${showName(name)} has more extended attributes than Linux stores`);
    stored.set(key, value);
  }
  return stored;
}
