// Directory blocks. Each block has its entries, sorted by name, followed by their names.
import { BLOCK_BYTES, DIRENT_BYTES, FILE_TYPES } from './format.ts';
import type { DirectoryInode, Inode } from './inode.ts';

export type Dirent = { readonly name: string; readonly inode: Inode };

/** Includes `.` and `..`. Sorted bytewise over all blocks, because the kernel uses binary search. */
export function sortedDirents(directory: DirectoryInode, parent: DirectoryInode): Dirent[] {
  const dirents: Dirent[] = [
    { name: '.', inode: directory },
    { name: '..', inode: parent },
  ];
  for (const [name, { inode }] of directory.entries) dirents.push({ name, inode });
  return dirents.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the number of entries in each block, and the total size: full blocks plus the used part of the last one. */
export function planDirectory(dirents: readonly Dirent[]): { blocks: readonly number[]; sizeBytes: number } {
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
export function encodeDirectory(
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
