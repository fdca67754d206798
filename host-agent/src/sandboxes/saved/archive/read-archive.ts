// Reads an exported snapshot from an untrusted client. Every length is bounded before its bytes are read, and only
// three files in one new directory are written.
import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { constants, createZstdDecompress } from 'node:zlib';
import { toError } from '../../../lib/errors.ts';
import { writeFully } from '../../../lib/write-fully.ts';
import {
  type ArchiveManifest,
  archiveManifestSchema,
  badArchive,
  CHUNK_BYTES,
  CHUNK_HEADER_BYTES,
  DIGEST_BYTES,
  END_MARK,
  MAGIC,
  MAX_MANIFEST_BYTES,
  MAX_STATE_BYTES,
  MEMORY_SLACK_BYTES,
  PARTS,
  type Part,
} from './format.ts';
import { isZero } from './write-archive.ts';

/** Maximum zstd window (log2 of bytes); our own archives need far less. */
const WINDOW_LOG = 24;
const RESERVED_NAMES = ['manifest.json', 'rootfs.ext4', 'agent.ext4'];

export type ByteSource = () => Promise<Uint8Array | undefined>;

/**
 * Limit against decompression bombs: an archive may unpack to FREE_BYTES, or to MAX_RATIO times the bytes received.
 * Memory and files of guests, whose zeros are left out, stay far below.
 */
const FREE_BYTES = 256 * 2 ** 20;
const MAX_RATIO = 400;

export class ArchiveReader implements AsyncDisposable {
  readonly #bytes: Bytes;
  readonly #whole = createHash('sha256');

  constructor(read: ByteSource, freeBytes = FREE_BYTES) {
    this.#bytes = new Bytes(read, freeBytes);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#bytes.end();
  }

  /** Must be called first. AppError invalid_argument. */
  async readManifest(): Promise<ArchiveManifest> {
    if (!(await this.#take(MAGIC.length)).equals(MAGIC)) throw badArchive('it does not begin as one');
    const length = (await this.#take(4)).readUInt32BE();
    if (length > MAX_MANIFEST_BYTES)
      throw badArchive(`its manifest has ${length} bytes, and at most ${MAX_MANIFEST_BYTES} are read`);
    const manifest = parse(await this.#take(length));
    checkSizes(manifest);
    return manifest;
  }

  /**
   * Must be called second; writes to a new directory. Parts that are not in `wantedParts` are verified but not
   * written. AppError invalid_argument; the caller removes what was written.
   */
  async readParts(
    dir: string,
    { parts }: ArchiveManifest,
    wantedParts: readonly Part[] = PARTS,
  ): Promise<void> {
    for (const key of PARTS) {
      const { name, sizeBytes, contentBytes } = parts[key];
      await using file = wantedParts.includes(key) ? await open(join(dir, name), 'wx', 0o600) : undefined;
      await file?.truncate(sizeBytes);
      const digest = createHash('sha256');
      await this.#readChunks(file, sizeBytes, contentBytes, digest);
      if (!(await this.#take(DIGEST_BYTES)).equals(digest.digest()))
        throw badArchive(`its ${key} is damaged`);
    }
    const whole = this.#whole.digest();
    if (!(await this.#bytes.take(DIGEST_BYTES)).equals(whole)) throw badArchive('its digest is another');
    if (!(await this.#bytes.isAtEnd())) throw badArchive('something comes after its end');
  }

  async #readChunks(
    file: FileHandle | undefined,
    sizeBytes: number,
    contentBytes: number,
    digest: Hash,
  ): Promise<void> {
    let end = 0;
    let content = 0;
    for (;;) {
      const header = await this.#take(CHUNK_HEADER_BYTES, digest);
      const length = header.readUInt32BE(8);
      if (length === 0) return;
      const offset = Number(header.readBigUInt64BE());
      content += length;
      if (length > CHUNK_BYTES || offset < end || offset + length > sizeBytes || content > contentBytes)
        throw badArchive(`a piece of ${length} bytes at ${offset} cannot be`);
      end = offset + length;
      const bytes = await this.#take(length, digest);
      if (file !== undefined && !isZero(bytes)) await writeFully(file, bytes, offset);
    }
  }

  async #take(length: number, digest?: Hash): Promise<Buffer> {
    const bytes = await this.#bytes.take(length);
    this.#whole.update(bytes);
    digest?.update(bytes);
    return bytes;
  }
}

function parse(text: Buffer): ArchiveManifest {
  try {
    return archiveManifestSchema.parse(JSON.parse(text.toString('utf8')));
  } catch (error) {
    throw badArchive(`its manifest cannot be read: ${toError(error).message.slice(0, 300)}`);
  }
}

/** AppError invalid_argument. */
export function checkSizes({ parts, options }: ArchiveManifest): void {
  const maxBytes = {
    memory: options.memoryMib * 2 ** 20 + MEMORY_SLACK_BYTES,
    state: MAX_STATE_BYTES,
    disk: options.diskBytes,
  };
  const names = PARTS.map((key) => parts[key].name);
  if (new Set([...names, ...RESERVED_NAMES]).size !== names.length + RESERVED_NAMES.length)
    throw badArchive('its files have names that they cannot have');
  for (const key of PARTS) {
    const { sizeBytes, contentBytes } = parts[key];
    if (sizeBytes > maxBytes[key] || contentBytes > sizeBytes)
      throw badArchive(
        `its ${key} has ${contentBytes} of ${sizeBytes} bytes, and at most ${maxBytes[key]} can be`,
      );
  }
}

/**
 * Yields all bytes except the end mark. AppError when the mark is missing: the decoder does not detect missing bytes
 * at the end.
 */
async function* withoutEnd(read: ByteSource): AsyncGenerator<Uint8Array> {
  let pending: Buffer = Buffer.alloc(0);
  for (let bytes = await read(); bytes !== undefined; bytes = await read()) {
    const all = Buffer.concat([pending, bytes]);
    const end = Math.max(0, all.length - END_MARK.length);
    pending = all.subarray(end);
    if (end > 0) yield all.subarray(0, end);
  }
  if (!pending.equals(END_MARK)) throw badArchive('it is cut off, or something comes after its end');
}

/** Decoded bytes, in the amounts that are requested. */
class Bytes {
  readonly #stream = createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG } });
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #finished: Promise<unknown>;
  readonly #freeBytes: number;
  #receivedBytes = 0;
  #unpackedBytes = 0;
  #cause: unknown;
  #isWhole = false;
  #rest: Buffer = Buffer.alloc(0);

  constructor(read: ByteSource, freeBytes: number) {
    this.#freeBytes = freeBytes;
    const counted: ByteSource = async () => {
      const bytes = await read();
      this.#receivedBytes += bytes?.length ?? 0;
      return bytes;
    };
    const source = async function* (this: Bytes): AsyncGenerator<Uint8Array> {
      try {
        yield* withoutEnd(counted);
        this.#isWhole = true;
      } catch (error) {
        this.#cause = error;
        throw error;
      }
    }.bind(this);
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#finished = promise;
    pipeline(Readable.from(source(), { highWaterMark: 2 }), this.#stream, resolve);
    this.#chunks = this.#stream[Symbol.asyncIterator]();
  }

  async take(length: number): Promise<Buffer> {
    const parts = [this.#rest];
    let available = this.#rest.length;
    while (available < length) {
      const next = await this.#next();
      if (next === undefined) throw badArchive('it is cut off');
      parts.push(next);
      available += next.length;
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts);
    this.#rest = all.subarray(length);
    return all.subarray(0, length);
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && (await this.#next()) === undefined && this.#isWhole;
  }

  async end(): Promise<void> {
    this.#stream.destroy();
    await this.#finished;
  }

  async #next(): Promise<Buffer | undefined> {
    const bytes = await this.#decoded();
    this.#unpackedBytes += bytes?.length ?? 0;
    const maxBytes = Math.max(this.#freeBytes, MAX_RATIO * this.#receivedBytes);
    if (this.#unpackedBytes > maxBytes)
      throw badArchive(`it unpacks to more than ${MAX_RATIO} times its ${this.#receivedBytes} bytes`);
    return bytes;
  }

  async #decoded(): Promise<Buffer | undefined> {
    try {
      const { done, value } = await this.#chunks.next();
      return done === true ? undefined : value;
    } catch (error) {
      // A client that disconnected or stalled is not a malformed archive.
      if (this.#cause !== undefined) throw this.#cause;
      throw badArchive(`it cannot be decompressed: ${toError(error).message}`);
    }
  }
}
