// Completes an image: writes inodes, directories and the superblock after the file contents.
import { writeSync } from 'node:fs';
import type { DataWriter } from './data.ts';
import {
  BLOCK_BITS,
  BLOCK_BYTES,
  DIRENT_BYTES,
  FILE_TYPES,
  INCOMPAT_CHUNKED_FILE,
  INODE_BYTES,
  LAYOUT,
  LONG_INODE,
  MAGIC,
  roundUp,
  SLOT_BYTES,
  SUPER_OFFSET,
} from './format.ts';
import { type DirectoryInode, type Inode, writeXattrs, xattrBytes, xattrCount } from './inode.ts';

/** Slot of the first inode. Slot 0 is not used, because many programs treat inode number 0 as invalid. */
const FIRST_SLOT = 2;
/** Fixed, so that equal contents give equal images. */
const UUID = Buffer.from('5a9db0c5000040008000000000000002', 'hex');

type Placed = {
  readonly inode: Inode;
  /** Offset in the inode area. */
  at: number;
  nlink: number;
  readonly xattrBytes: number;
  readonly directory?: {
    readonly dirents: readonly Dirent[];
    readonly plan: ReturnType<typeof planDirectory>;
  };
  /** Bytes stored after the inode: a link's target, a directory's last block, or the block list of a sparse file. */
  readonly tailBytes: number;
  /** First own data block, after the inode area. */
  block: number;
};

export type ImageSize = { readonly sizeBytes: number; readonly entries: number };

/** Writes the rest of the image. `entries` counts the names in it, without the root. */
export function finishImage(fd: number, data: DataWriter, root: DirectoryInode): ImageSize {
  data.pad();
  const metaBlock = data.nextBlock;
  const { placed, entries } = collect(root);
  const areaBytes = place([...placed.values()]);
  const areaBlocks = Math.ceil(areaBytes / BLOCK_BYTES);
  let block = metaBlock + areaBlocks;
  for (const each of placed.values()) {
    each.block = block;
    block += ownBlocks(each);
  }
  const nidOf = (inode: Inode): number => (placed.get(inode)?.at ?? 0) / SLOT_BYTES;
  const area = Buffer.alloc(areaBlocks * BLOCK_BYTES);
  let number = 0;
  const own: Buffer[] = [];
  for (const each of placed.values()) own.push(...encode(area, each, ++number, nidOf));
  data.write(area);
  for (const bytes of own) data.write(bytes);
  data.end(block * BLOCK_BYTES);
  const first = encodeSuperBlock({ metaBlock, blocks: block, inodes: placed.size });
  writeSync(fd, first, 0, first.length, 0);
  return { sizeBytes: block * BLOCK_BYTES, entries };
}

function collect(root: DirectoryInode): { placed: Map<Inode, Placed>; entries: number } {
  const placed = new Map<Inode, Placed>();
  const rootPlaced = describe(root, root);
  rootPlaced.nlink = 2;
  placed.set(root, rootPlaced);
  let entries = 0;
  const pending: DirectoryInode[] = [root];
  for (const parent of pending) {
    for (const { inode, name } of placed.get(parent)?.directory?.dirents ?? []) {
      if (name === '.' || name === '..') continue;
      entries += 1;
      const known = placed.get(inode);
      if (known !== undefined) {
        known.nlink += 1;
        continue;
      }
      const each = describe(inode, parent);
      each.nlink = inode.type === 'directory' ? 2 : 1;
      placed.set(inode, each);
      if (inode.type !== 'directory') continue;
      const above = placed.get(parent);
      if (above !== undefined) above.nlink += 1;
      pending.push(inode);
    }
  }
  return { placed, entries };
}

function describe(inode: Inode, parent: DirectoryInode): Placed {
  const common = { inode, at: 0, nlink: 0, block: 0, xattrBytes: xattrBytes(inode.xattrs) };
  const inlineSpace = BLOCK_BYTES - INODE_BYTES - common.xattrBytes;
  if (inode.type === 'directory') {
    const dirents = sortedDirents(inode, parent);
    const plan = planDirectory(dirents);
    const last = plan.sizeBytes % BLOCK_BYTES;
    return { ...common, directory: { dirents, plan }, tailBytes: last <= inlineSpace ? last : 0 };
  }
  if (inode.type === 'symlink')
    return { ...common, tailBytes: inode.target.length <= inlineSpace ? inode.target.length : 0 };
  if (inode.type === 'file' && inode.content.kind === 'sparse')
    return { ...common, tailBytes: inode.content.blocks.byteLength };
  return { ...common, tailBytes: 0 };
}

/** Assigns an offset to each inode; an inode and its inline tail share one block. Returns the end of the area. */
function place(all: readonly Placed[]): number {
  let at = FIRST_SLOT * SLOT_BYTES;
  for (const each of all) {
    const whole = INODE_BYTES + each.xattrBytes + each.tailBytes;
    const together = isInline(each) ? whole : INODE_BYTES;
    if ((at % BLOCK_BYTES) + together > BLOCK_BYTES) at = roundUp(at, BLOCK_BYTES);
    each.at = at;
    at = roundUp(at + whole, SLOT_BYTES);
  }
  return at;
}

function isInline({ inode, tailBytes }: Placed): boolean {
  return tailBytes > 0 && inode.type !== 'file';
}

/** Number of own data blocks after the inode area. */
function ownBlocks({ inode, directory, tailBytes }: Placed): number {
  if (directory !== undefined) return Math.ceil((directory.plan.sizeBytes - tailBytes) / BLOCK_BYTES);
  if (inode.type === 'symlink' && tailBytes === 0) return Math.ceil(inode.target.length / BLOCK_BYTES);
  return 0;
}

/** Encodes the inode and its tail into the area; returns the contents of its own data blocks. */
function encode(area: Buffer, each: Placed, number: number, nidOf: (inode: Inode) => number): Buffer[] {
  const { inode, at } = each;
  const { mode, uid, gid, mtimeSeconds, mtimeNanos } = inode;
  area.writeUInt16LE(LONG_INODE | (layoutOf(each) << 1), at);
  area.writeUInt16LE(xattrCount(each.xattrBytes), at + 2);
  area.writeUInt16LE(FILE_TYPES[inode.type].mode | mode, at + 4);
  area.writeBigUInt64LE(BigInt(sizeOf(each)), at + 8);
  area.writeUInt32LE(pointerOf(each), at + 16);
  area.writeUInt32LE(number, at + 20);
  area.writeUInt32LE(uid, at + 24);
  area.writeUInt32LE(gid, at + 28);
  area.writeBigInt64LE(BigInt(mtimeSeconds), at + 32);
  area.writeUInt32LE(mtimeNanos, at + 40);
  area.writeUInt32LE(each.nlink, at + 44);
  if (each.xattrBytes > 0) writeXattrs(area, at + INODE_BYTES, inode.xattrs);
  const tailAt = at + INODE_BYTES + each.xattrBytes;
  if (inode.type === 'file') {
    if (inode.content.kind === 'sparse')
      for (const [n, block] of inode.content.blocks.entries()) area.writeUInt32LE(block, tailAt + 4 * n);
    return [];
  }
  const bytes =
    each.directory !== undefined
      ? encodeDirectory(each.directory.dirents, each.directory.plan, nidOf)
      : Buffer.from(inode.type === 'symlink' ? inode.target : '', 'latin1');
  bytes.copy(area, tailAt, bytes.length - each.tailBytes);
  const rest = bytes.subarray(0, bytes.length - each.tailBytes);
  const padding = roundUp(rest.length, BLOCK_BYTES) - rest.length;
  return rest.length === 0 ? [] : [rest, Buffer.alloc(padding)];
}

function layoutOf(each: Placed): number {
  if (each.inode.type === 'file') return each.inode.content.kind === 'sparse' ? LAYOUT.chunks : LAYOUT.plain;
  return isInline(each) ? LAYOUT.inline : LAYOUT.plain;
}

function sizeOf({ inode, directory }: Placed): number {
  if (directory !== undefined) return directory.plan.sizeBytes;
  if (inode.type === 'file') return inode.sizeBytes;
  return inode.type === 'symlink' ? inode.target.length : 0;
}

/** i_u: first block, device number, or chunk format (0: chunks of one block). */
function pointerOf({ inode, block }: Placed): number {
  if (inode.type === 'file') return inode.content.kind === 'plain' ? inode.content.block : 0;
  if (inode.type === 'character-device' || inode.type === 'block-device')
    return ((inode.minor & 0xff) | (inode.major << 8) | ((inode.minor & ~0xff) << 12)) >>> 0;
  return inode.type === 'fifo' ? 0 : block;
}

function encodeSuperBlock(image: {
  readonly metaBlock: number;
  readonly blocks: number;
  readonly inodes: number;
}): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const at = SUPER_OFFSET;
  block.writeUInt32LE(MAGIC, at);
  block.writeUInt8(BLOCK_BITS, at + 12);
  block.writeUInt16LE(FIRST_SLOT, at + 14);
  block.writeBigUInt64LE(BigInt(image.inodes), at + 16);
  block.writeUInt32LE(image.blocks, at + 36);
  block.writeUInt32LE(image.metaBlock, at + 40);
  UUID.copy(block, at + 48);
  block.writeUInt32LE(INCOMPAT_CHUNKED_FILE, at + 80);
  return block;
}

// Directory blocks. Each block has its entries, sorted by name, followed by their names.
type Dirent = { readonly name: string; readonly inode: Inode };

/** Includes `.` and `..`. Sorted bytewise over all blocks, because the kernel uses binary search. */
function sortedDirents(directory: DirectoryInode, parent: DirectoryInode): Dirent[] {
  const dirents: Dirent[] = [
    { name: '.', inode: directory },
    { name: '..', inode: parent },
  ];
  for (const [name, { inode }] of directory.entries) dirents.push({ name, inode });
  return dirents.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the number of entries in each block, and the total size: full blocks plus the used part of the last one. */
function planDirectory(dirents: readonly Dirent[]): { blocks: readonly number[]; sizeBytes: number } {
  const blocks: number[] = [];
  let count = 0;
  let used = 0;
  for (const { name } of dirents) {
    const bytes = DIRENT_BYTES + name.length;
    if (used + bytes > BLOCK_BYTES) {
      blocks.push(count);
      count = 0;
      used = 0;
    }
    count += 1;
    used += bytes;
  }
  blocks.push(count);
  return { blocks, sizeBytes: (blocks.length - 1) * BLOCK_BYTES + used };
}

/** Unused bytes of all blocks but the last are zero. */
function encodeDirectory(
  dirents: readonly Dirent[],
  { blocks, sizeBytes }: ReturnType<typeof planDirectory>,
  nidOf: (inode: Inode) => number,
): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  let next = 0;
  for (const [index, count] of blocks.entries()) {
    const start = index * BLOCK_BYTES;
    let nameAt = count * DIRENT_BYTES;
    for (let n = 0; n < count; n++, next++) {
      const dirent = dirents[next];
      if (dirent === undefined) throw new Error('the plan is of another directory');
      const at = start + n * DIRENT_BYTES;
      bytes.writeBigUInt64LE(BigInt(nidOf(dirent.inode)), at);
      bytes.writeUInt16LE(nameAt, at + 8);
      bytes.writeUInt8(FILE_TYPES[dirent.inode.type].dirent, at + 10);
      bytes.write(dirent.name, start + nameAt, 'latin1');
      nameAt += dirent.name.length;
    }
  }
  return bytes;
}
