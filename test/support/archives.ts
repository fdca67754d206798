// Snapshot archives for tests: reads them, streams them in chunks, and forges invalid ones with valid digests.
import { createHash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { PullStream } from '../../host-agent/src/lib/byte-queue.ts';
import {
  type ArchiveManifest,
  END_MARK,
  MAGIC,
} from '../../host-agent/src/sandboxes/saved/archive/format.ts';

export async function readAll(stream: PullStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let chunk = await stream.next(); chunk !== undefined; chunk = await stream.next()) {
    chunks.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
  return Buffer.concat(chunks);
}

/** Streams the bytes in chunks. */
export function source(bytes: Buffer, pieceBytes = 65_536) {
  let at = 0;
  return async () => {
    const piece = bytes.subarray(at, at + pieceBytes);
    at += piece.length;
    return piece.length > 0 ? piece : undefined;
  };
}

export const whole = (...parts: Buffer[]) =>
  Buffer.concat([zstdCompressSync(Buffer.concat(parts)), END_MARK]);
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest();

type Piece = { readonly offset: number; readonly length?: number; readonly bytes?: Buffer };

type ForgeOptions = {
  readonly memory?: readonly Piece[];
  readonly disk?: readonly Piece[];
  /** Bytes appended after the archive's end. */
  readonly behind?: Buffer;
  /** Size of the manifest, padded with spaces. */
  readonly manifestBytes?: number;
  /** The part whose digest is invalid. */
  readonly wrong?: 'memory' | 'state' | 'disk' | 'whole';
};

/** An archive whose digests are valid, except for at most one. */
export function forge(manifest: object, options: ForgeOptions = {}): Buffer {
  const { memory = [], disk = [], behind = Buffer.alloc(0), manifestBytes = 0, wrong } = options;
  const text = Buffer.from(JSON.stringify(manifest).padEnd(manifestBytes));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  const digestOf = (bytes: Buffer, what: typeof wrong) => sha256(what === wrong ? Buffer.of(1) : bytes);
  const parts = (
    [
      ['memory', memory],
      ['state', []],
      ['disk', disk],
    ] as const
  ).map(([name, list]) => {
    const sent = list.map(({ offset, bytes = Buffer.alloc(0), length = bytes.length }) => {
      const header = Buffer.alloc(12);
      header.writeBigUInt64BE(BigInt(offset));
      header.writeUInt32BE(length, 8);
      return Buffer.concat([header, bytes]);
    });
    const all = Buffer.concat([...sent, Buffer.alloc(12)]);
    return Buffer.concat([all, digestOf(all, name)]);
  });
  const content = Buffer.concat([MAGIC, length, text, ...parts]);
  return whole(content, digestOf(content, 'whole'), behind);
}

/** The archive's decompressed content. */
export function contentOf(archive: Buffer): Buffer {
  return zstdDecompressSync(archive.subarray(0, -END_MARK.length));
}

export function manifestOf(archive: Buffer): ArchiveManifest {
  const plain = contentOf(archive);
  return JSON.parse(plain.subarray(12, 12 + plain.readUInt32BE(8)).toString());
}
