// Exports a saved guest as one stream; only a few chunks are in memory at a time.
import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline, Readable, type Transform } from 'node:stream';
import { constants, createZstdCompress } from 'node:zlib';
import type { Chunk, PullStream } from '../../../lib/byte-queue.ts';
import { AppError } from '../../../lib/errors.ts';
import { readExtents } from '../../../lib/extents.ts';
import type { About } from '../../snapshot-about.ts';
import type { SavedGuest } from '../saved-guest.ts';
import {
  ARCHIVE_FORMAT,
  type ArchiveManifest,
  CHUNK_BYTES,
  CHUNK_HEADER_BYTES,
  END_MARK,
  MAGIC,
  PARTS,
  type Part,
} from './format.ts';

export type Exported = {
  readonly saved: SavedGuest;
  readonly sourceId: string;
  readonly takenAtMs: number;
  readonly about: About;
};

/**
 * The files are locked until the stream ends or is cancelled. A delete does not wait for the reader, but aborts the
 * stream.
 */
export function exportStream(exported: Exported): PullStream {
  const zstd = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  // Errors are reported by the next read.
  const { leaving } = exported.saved;
  const onLeaving = () =>
    zstd.destroy(new AppError('not_found', 'the snapshot was deleted while it was read'));
  leaving.addEventListener('abort', onLeaving, { once: true });
  zstd.once('close', () => leaving.removeEventListener('abort', onLeaving));
  pipeline(Readable.from(archiveWhileUsed(exported), { highWaterMark: 2 }), zstd, () => undefined);
  return toPullStream(zstd);
}

/** Yields the archive while the saved guest is locked against removal. */
async function* archiveWhileUsed(exported: Exported): AsyncGenerator<Buffer> {
  const { promise: done, resolve: finish } = Promise.withResolvers<void>();
  const { promise: ready, resolve: markReady, reject: fail } = Promise.withResolvers<void>();
  const use = exported.saved.use(() => {
    markReady();
    return done;
  });
  use.catch(fail);
  try {
    await ready;
    yield* writeArchive(exported);
  } finally {
    finish();
  }
}

export async function* writeArchive({ saved, ...origin }: Exported): AsyncGenerator<Buffer> {
  const whole = createHash('sha256');
  const send = (bytes: Buffer, ...more: Hash[]): Buffer => {
    for (const hash of [whole, ...more]) hash.update(bytes);
    return bytes;
  };
  const text = Buffer.from(JSON.stringify(await describeArchive(saved, origin)));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  yield send(Buffer.concat([MAGIC, length, text]));
  for (const part of PARTS) {
    const digest = createHash('sha256');
    for await (const chunk of readChunks(join(saved.dir, saved.manifest.files[part].name)))
      yield send(chunk, digest);
    yield send(Buffer.alloc(CHUNK_HEADER_BYTES), digest);
    yield send(digest.digest());
  }
  yield whole.digest();
}

export async function describeArchive(
  saved: SavedGuest,
  { sourceId, takenAtMs, about }: Omit<Exported, 'saved'>,
): Promise<ArchiveManifest> {
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
      ...(Object.keys(about).length > 0 && { about }),
      rootfs: { ...rootfs, ...(agentPath !== undefined && { agent: basename(agentPath) }) },
    },
    parts: { memory, state, disk },
  };
}

async function* readChunks(path: string): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r');
  for (const extent of await readExtents(path)) {
    const end = extent.offset + extent.length;
    for (let at = extent.offset; at < end; at += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, end - at);
      const chunk = Buffer.allocUnsafe(CHUNK_HEADER_BYTES + length);
      const { bytesRead } = await file.read(chunk, CHUNK_HEADER_BYTES, length, at);
      if (bytesRead !== length) throw new Error(`${path} became shorter while it was read`);
      chunk.writeBigUInt64BE(BigInt(at));
      chunk.writeUInt32BE(length, 8);
      if (!isZero(chunk.subarray(CHUNK_HEADER_BYTES))) yield chunk;
    }
  }
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

export function isZero(bytes: Buffer): boolean {
  return bytes.equals(ZEROS.subarray(0, bytes.length));
}

async function* withEnd(stream: Transform): AsyncGenerator<Buffer, undefined> {
  yield* stream;
  yield END_MARK;
}

function toPullStream(stream: Transform): PullStream {
  const chunks = withEnd(stream);
  return {
    async next(): Promise<Chunk | undefined> {
      const { done, value } = await chunks.next();
      return done === true ? undefined : { bytes: value, release: () => undefined };
    },
    cancel: () => void stream.destroy(),
  };
}
