// The blocks of a directory: in each its entries, sorted by name, and behind them the names.
import { BLOCK_BYTES, DIRENT_BYTES, FILE_TYPES } from './format.ts';
import type { DirectoryInode, Inode } from './inode.ts';

export type Dirent = { readonly name: string; readonly inode: Inode };

/** With `.` and `..`; sorted over all blocks, byte by byte, as the kernel searches them. */
export function sortedDirents(directory: DirectoryInode, parent: DirectoryInode): Dirent[] {
  const dirents: Dirent[] = [
    { name: '.', inode: directory },
    { name: '..', inode: parent },
  ];
  for (const [name, { inode }] of directory.entries) dirents.push({ name, inode });
  return dirents.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** How many entries each block has, and the bytes of the whole: full blocks and what is used of the last. */
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

/** Zeroes fill what is not used of blocks but the last. */
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
