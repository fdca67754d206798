// Writes a saved guest as one stream; at no time is more of it in memory than a few pieces.
import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline, Readable, type Transform } from 'node:stream';
import { constants, createZstdCompress } from 'node:zlib';
import type { Chunk, PullStream } from '../../../lib/byte-queue.ts';
import { AppError } from '../../../lib/errors.ts';
import { readExtents } from '../../../lib/extents.ts';
import type { SavedGuest } from '../saved-guest.ts';
import {
  ARCHIVE_FORMAT,
  type ArchiveManifest,
  END_MARK,
  MAGIC,
  PARTS,
  type Part,
  PIECE_BYTES,
  PIECE_HEADER_BYTES,
} from './format.ts';

export type Exported = { readonly saved: SavedGuest; readonly sourceId: string; readonly takenAtMs: number };

/** Its files stay until the stream is over or cancelled; a delete does not wait for its reader, but breaks it off. */
export function exportStream(exported: Exported): PullStream {
  const zstd = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  // What goes wrong is told by the next read.
  const { leaving } = exported.saved;
  const onLeaving = () =>
    zstd.destroy(new AppError('not_found', 'the snapshot was deleted while it was read'));
  leaving.addEventListener('abort', onLeaving, { once: true });
  zstd.once('close', () => leaving.removeEventListener('abort', onLeaving));
  pipeline(Readable.from(hold(exported), { highWaterMark: 2 }), zstd, () => undefined);
  return toOutflow(zstd);
}

/** As many bytes as were taken, in turn. */
async function* hold(exported: Exported): AsyncGenerator<Buffer> {
  const { promise: done, resolve: finish } = Promise.withResolvers<void>();
  const { promise: ready, resolve: begin, reject: refuse } = Promise.withResolvers<void>();
  const use = exported.saved.use(() => {
    begin();
    return done;
  });
  use.catch(refuse);
  try {
    await ready;
    yield* writeArchive(exported);
  } finally {
    finish();
  }
}

export async function* writeArchive({ saved, sourceId, takenAtMs }: Exported): AsyncGenerator<Buffer> {
  const whole = createHash('sha256');
  const send = (bytes: Buffer, ...more: Hash[]): Buffer => {
    for (const hash of [whole, ...more]) hash.update(bytes);
    return bytes;
  };
  const text = Buffer.from(JSON.stringify(await describe(saved, sourceId, takenAtMs)));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  yield send(Buffer.concat([MAGIC, length, text]));
  for (const part of PARTS) {
    const digest = createHash('sha256');
    for await (const piece of readPieces(join(saved.dir, saved.manifest.files[part].name)))
      yield send(piece, digest);
    yield send(Buffer.alloc(PIECE_HEADER_BYTES), digest);
    yield send(digest.digest());
  }
  yield whole.digest();
}

async function describe(saved: SavedGuest, sourceId: string, takenAtMs: number): Promise<ArchiveManifest> {
  const { compatibility, kernelDigest, needsResync, files, options } = saved.manifest;
  const { rootfsPath: _, agentPath, ...rootfs } = options.rootfs;
  const describePart = async (part: Part) => {
    const { name, sizeBytes } = files[part];
    const extents = await readExtents(join(saved.dir, name));
    return { name, sizeBytes, contentBytes: extents.reduce((sum, { length }) => sum + length, 0) };
  };
  const [memory, state, disk] = [
    await describePart('memory'),
    await describePart('state'),
    await describePart('disk'),
  ];
  return {
    formatVersion: ARCHIVE_FORMAT,
    sourceId,
    takenAtMs,
    compatibility,
    kernelDigest,
    needsResync,
    options: {
      ...options,
      rootfs: { ...rootfs, ...(agentPath !== undefined && { agent: basename(agentPath) }) },
    },
    parts: { memory, state, disk },
  };
}

async function* readPieces(path: string): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r');
  for (const { offset, length } of await readExtents(path)) {
    for (let at = offset; at < offset + length; at += PIECE_BYTES) {
      const wanted = Math.min(PIECE_BYTES, offset + length - at);
      const piece = Buffer.allocUnsafe(PIECE_HEADER_BYTES + wanted);
      const { bytesRead } = await file.read(piece, PIECE_HEADER_BYTES, wanted, at);
      if (bytesRead !== wanted) throw new Error(`${path} became shorter while it was read`);
      piece.writeBigUInt64BE(BigInt(at));
      piece.writeUInt32BE(wanted, 8);
      if (!isZero(piece.subarray(PIECE_HEADER_BYTES))) yield piece;
    }
  }
}

const ZEROS = Buffer.alloc(PIECE_BYTES);

export function isZero(bytes: Buffer): boolean {
  return bytes.equals(ZEROS.subarray(0, bytes.length));
}

async function* withEnd(stream: Transform): AsyncGenerator<Buffer, undefined> {
  yield* stream;
  yield END_MARK;
}

function toOutflow(stream: Transform): PullStream {
  const chunks = withEnd(stream);
  return {
    async next(): Promise<Chunk | undefined> {
      const { done, value } = await chunks.next();
      return done === true ? undefined : { bytes: value, release: () => undefined };
    },
    cancel: () => void stream.destroy(),
  };
}
