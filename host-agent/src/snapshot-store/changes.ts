// What differs in a file from a copy of it that was sent before: blocks of 4 KiB, several of which make a piece, which
// the store keeps as a chunk. For one page that a guest has changed, a whole chunk of the file would be sent.
//
//   piece: the number of each block in the file (u48, little-endian), then the blocks; the last of a file has zeros
//   after its end
import { open } from 'node:fs/promises';
import { readExtents } from '../lib/extents.ts';
import { CHUNK_BYTES } from './chunk.ts';

export const BLOCK_BYTES = 4096;
const NUMBER_BYTES = 6;
/** In a chunk. */
export const MAX_BLOCKS = Math.floor(CHUNK_BYTES / (NUMBER_BYTES + BLOCK_BYTES));

/** It is read sooner than a program could find its holes. */
const SMALL_BYTES = 4 * CHUNK_BYTES;

/** Whole blocks, valid until the next. */
export type ChangedPages = { readonly offset: number; readonly pages: Buffer };

export type Piece = { readonly blocks: number; readonly bytes: Buffer };

type Copy = {
  readonly path: string;
  /** Numbers of its aligned chunks that are not all zeros. */
  readonly chunks: Iterable<number>;
};

/** The pieces that make the copy what the file is; both are `sizeBytes` long, and stay as they are. */
export async function* readChanges(path: string, copy: Copy, sizeBytes: number): AsyncGenerator<Piece> {
  await using file = await open(path, 'r');
  await using before = await open(copy.path, 'r');
  const [own, old] = [Buffer.alloc(CHUNK_BYTES), Buffer.alloc(CHUNK_BYTES)];
  let piece = new PieceWriter();
  for (const index of await findWindows(path, copy, sizeBytes)) {
    const at = index * CHUNK_BYTES;
    const length = Math.min(CHUNK_BYTES, sizeBytes - at);
    const [{ bytesRead: a }, { bytesRead: b }] = await Promise.all([
      file.read(own, 0, length, at),
      before.read(old, 0, length, at),
    ]);
    if (a !== length || b !== length) throw new Error(`${path} or its copy became shorter while it was read`);
    if (own.compare(old, 0, length, 0, length) === 0) continue;
    for (let start = 0; start < length; start += BLOCK_BYTES) {
      const end = Math.min(start + BLOCK_BYTES, length);
      if (own.compare(old, start, end, start, end) === 0) continue;
      piece.add((at + start) / BLOCK_BYTES, own.subarray(start, end));
      if (piece.blocks < MAX_BLOCKS) continue;
      yield piece.end();
      piece = new PieceWriter();
    }
  }
  if (piece.blocks > 0) yield piece.end();
}

/** The pieces of changes that are known, of a file of whole blocks. */
export async function* toPieces(changes: AsyncIterable<ChangedPages>): AsyncGenerator<Piece> {
  let piece = new PieceWriter();
  for await (const { offset, pages } of changes)
    for (let at = 0; at < pages.length; at += BLOCK_BYTES) {
      piece.add((offset + at) / BLOCK_BYTES, pages.subarray(at, at + BLOCK_BYTES));
      if (piece.blocks < MAX_BLOCKS) continue;
      yield piece.end();
      piece = new PieceWriter();
    }
  if (piece.blocks > 0) yield piece.end();
}

/** Numbers of aligned chunks of which the file or the copy has something, in their order. */
async function findWindows(path: string, { chunks }: Copy, sizeBytes: number): Promise<number[]> {
  if (sizeBytes <= SMALL_BYTES) return [...Array(Math.ceil(sizeBytes / CHUNK_BYTES)).keys()];
  const found = new Set(chunks);
  for (const { offset, length } of await readExtents(path)) {
    const end = Math.min(offset + length, sizeBytes);
    for (let index = Math.floor(offset / CHUNK_BYTES); index * CHUNK_BYTES < end; index++) found.add(index);
  }
  return [...found].sort((a, b) => a - b);
}

class PieceWriter {
  readonly #numbers: number[] = [];
  readonly #content = Buffer.alloc(MAX_BLOCKS * BLOCK_BYTES);

  get blocks(): number {
    return this.#numbers.length;
  }

  add(number: number, block: Buffer): void {
    block.copy(this.#content, this.blocks * BLOCK_BYTES);
    this.#numbers.push(number);
  }

  end(): Piece {
    const { blocks } = this;
    const head = Buffer.alloc(blocks * NUMBER_BYTES);
    for (const [at, number] of this.#numbers.entries())
      head.writeUIntLE(number, at * NUMBER_BYTES, NUMBER_BYTES);
    return { blocks, bytes: Buffer.concat([head, this.#content.subarray(0, blocks * BLOCK_BYTES)]) };
  }
}

export function pieceLength(blocks: number): number {
  return blocks * (NUMBER_BYTES + BLOCK_BYTES);
}

/** What a piece changes in a file of this size; blocks that follow each other are one. Throws if it is no piece. */
export function* readPiece(
  piece: Buffer,
  blocks: number,
  sizeBytes: number,
): Generator<{ readonly offset: number; readonly bytes: Buffer }> {
  if (piece.length !== pieceLength(blocks)) throw new Error('it has another length');
  const content = piece.subarray(blocks * NUMBER_BYTES);
  const numberAt = (at: number): number => piece.readUIntLE(at * NUMBER_BYTES, NUMBER_BYTES);
  for (let first = 0; first < blocks; ) {
    const number = numberAt(first);
    let next = first + 1;
    while (next < blocks && numberAt(next) === number + next - first) next += 1;
    const offset = number * BLOCK_BYTES;
    if (offset + (next - first - 1) * BLOCK_BYTES >= sizeBytes)
      throw new Error('it has a block behind the end');
    const end = Math.min(next * BLOCK_BYTES, first * BLOCK_BYTES + sizeBytes - offset);
    yield { offset, bytes: content.subarray(first * BLOCK_BYTES, end) };
    first = next;
  }
}
