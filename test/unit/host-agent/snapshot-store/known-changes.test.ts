// Changes that are known without a comparison, and files that are compared without a search for their holes.
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  BLOCK_BYTES,
  MAX_BLOCKS,
  type Piece,
  readChanges,
  readPiece,
  toPieces,
} from '../../../../host-agent/src/snapshot-store/changes.ts';
import { CHUNK_BYTES } from '../../../../host-agent/src/snapshot-store/index.ts';

/** Two chunks of content, and a copy of them. */
function makeFiles(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'known-changes-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [path, copy] = [join(dir, 'memory'), join(dir, 'copy')];
  writeFileSync(path, randomBytes(2 * CHUNK_BYTES));
  copyFileSync(path, copy);
  const write = async (offset: number, bytes: Buffer): Promise<void> => {
    await using file = await open(path, 'r+');
    await file.write(bytes, 0, bytes.length, offset);
  };
  return { path, copy, write };
}

t.test('pieces of changes that are known are those of a comparison', async (t) => {
  const { path, copy, write } = makeFiles(t);
  const size = 6 * CHUNK_BYTES;
  for (const each of [path, copy]) truncateSync(each, size);
  await write(BLOCK_BYTES, Buffer.alloc((MAX_BLOCKS + 2) * BLOCK_BYTES, 'many'));
  await write(5 * CHUNK_BYTES, Buffer.alloc(2 * BLOCK_BYTES, 'new'));
  const now = readFileSync(path);
  const changed = [
    [1, MAX_BLOCKS + 2],
    [(5 * CHUNK_BYTES) / BLOCK_BYTES, 2],
  ];
  async function* known() {
    // As a reader of a file has it: each is gone with the next.
    const pages = Buffer.alloc((MAX_BLOCKS + 2) * BLOCK_BYTES);
    for (const [first = 0, count = 0] of changed) {
      const offset = first * BLOCK_BYTES;
      const length = now.copy(pages, 0, offset, offset + count * BLOCK_BYTES);
      yield { offset, pages: pages.subarray(0, length) };
      pages.fill(0);
    }
  }
  const all = async (pieces: AsyncIterable<Piece>) => {
    const found: Piece[] = [];
    for await (const { blocks, bytes } of pieces) found.push({ blocks, bytes: Buffer.from(bytes) });
    return found;
  };
  const pieces = await all(toPieces(known()));
  t.same(
    pieces.map(({ blocks }) => blocks),
    [MAX_BLOCKS, 4],
  );
  t.same(pieces, await all(readChanges(path, { path: copy, chunks: [0, 1] }, size)));
});

t.test('a small file is compared without a search for its holes', async (t) => {
  const { path, copy, write } = makeFiles(t);
  for (const each of [path, copy]) truncateSync(each, 3 * CHUNK_BYTES + 5);
  await write(3 * CHUNK_BYTES + 1, Buffer.from('end'));
  const found: Piece[] = [];
  for await (const piece of readChanges(path, { path: copy, chunks: [] }, 3 * CHUNK_BYTES + 5))
    found.push(piece);
  t.same(
    found.flatMap(({ blocks, bytes }) => [...readPiece(bytes, blocks, 3 * CHUNK_BYTES + 5)]),
    [{ offset: 3 * CHUNK_BYTES, bytes: Buffer.from('\0end\0') }],
  );
});
