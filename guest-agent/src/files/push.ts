// One push: from the stream through the tar reader to the disk, with the disk's speed as backpressure.
import process from 'node:process';
import type { Gunzip } from 'node:zlib';
import {
  AgentError,
  type FilePush,
  type ResultInput,
  type Stream,
  TarError,
  TarReader,
} from '@sandboxd/proto';
import { readUserFiles } from '../exec/users.ts';
import { errorCode } from '../lib/error-code.ts';
import { findActor, type Owner, ownAs } from './as-user.ts';
import { Destination } from './destination.ts';
import { Extractor } from './extractor.ts';
import { toPathBytes } from './guest-path.ts';

/** Magic bytes of formats that clients send by mistake, for a better message. */
const OTHERS: readonly (readonly [string, string])[] = [
  ['28b52ffd', 'zstd'],
  ['fd377a58', 'xz'],
  ['425a68', 'bzip2'],
  ['504b0304', 'zip'],
];
const GZIP = [0x1f, 0x8b] as const;
const ROOT: Owner = { uid: 0, gid: 0 };
/** Below this size, a direct write is not worth the switch. */
const DIRECT_WRITE_BYTES = 512 * 1024;

/** Throws AgentError when the destination cannot be opened or created. */
export function startPush(stream: Stream, { path, owner }: FilePush, writesDirect: boolean): void {
  const actor = owner === '' ? ROOT : findActor(owner, readUserFiles());
  const destination = ownAs(actor, () => Destination.open(toPathBytes(path)));
  new Push(stream, new Extractor(destination, writesDirect), actor);
}

class Push {
  readonly #stream: Stream;
  readonly #owner: Owner;
  readonly #extractor: Extractor;
  readonly #reader: TarReader;
  #gunzip: Gunzip | undefined;
  #firstByte: Buffer | undefined;
  #hasBegun = false;
  #isOver = false;

  constructor(stream: Stream, extractor: Extractor, owner: Owner) {
    this.#stream = stream;
    this.#owner = owner;
    this.#extractor = extractor;
    this.#reader = new TarReader(extractor, { isForRoot: true, dropsSetId: owner.uid !== 0 });
    stream.handlers = {
      data: (_flow, chunk) => this.#attempt(() => this.#take(chunk)),
      end: () => this.#attempt(() => this.#end()),
      cancel: () => this.#finish(failure('cancelled', 'the push was cancelled')),
      lost: () => this.#finish(undefined),
    };
  }

  #take(chunk: Buffer): void {
    if (!this.#hasBegun) {
      const start = this.#firstByte === undefined ? chunk : Buffer.concat([this.#firstByte, chunk]);
      if (start.length < 2) {
        this.#firstByte = Buffer.from(start);
        this.#stream.consumed(chunk.length);
        return;
      }
      this.#begin(start);
      this.#pass(start, chunk.length);
    } else this.#pass(chunk, chunk.length);
  }

  #begin(start: Buffer): void {
    this.#hasBegun = true;
    this.#firstByte = undefined;
    const hex = start.toString('hex', 0, 4);
    const other = OTHERS.find(([magic]) => hex.startsWith(magic))?.[1];
    if (other !== undefined) throw new TarError(`this is ${other}; send a tar archive, plain or gzip`);
    if (start[0] !== GZIP[0] || start[1] !== GZIP[1]) return;
    // Loaded for the first compressed archive, so that the agent starts faster.
    const gunzip = process.getBuiltinModule('node:zlib').createGunzip({ chunkSize: 65_536 });
    gunzip.on('data', (plain: Buffer) => this.#attempt(() => this.#reader.push(plain)));
    gunzip.on('end', () => this.#attempt(() => this.#complete()));
    gunzip.on('error', (error) => this.#attempt(() => this.#damaged(error)));
    this.#gunzip = gunzip;
  }

  #pass(bytes: Buffer, chunkBytes: number): void {
    if (this.#gunzip === undefined) {
      this.#reader.push(bytes);
      this.#stream.consumed(chunkBytes);
      this.#offerDirectWrite();
    } else {
      // A copy, because the chunk is borrowed. Its credit returns after decompression, so that little data is buffered.
      this.#gunzip.write(Buffer.from(bytes), () => this.#stream.consumed(chunkBytes));
    }
  }

  /** Native code writes the rest of a large file. */
  #offerDirectWrite(): void {
    const target = this.#extractor.directFile;
    if (target === undefined || this.#reader.plainContentLeft < DIRECT_WRITE_BYTES) return;
    this.#stream.offerDirectWrite({
      target,
      wanted: () => (this.#extractor.directFile === target ? this.#reader.plainContentLeft : 0),
      took: (bytes) =>
        this.#attempt(() => {
          this.#extractor.wrote(bytes);
          this.#reader.skipContent(bytes);
        }),
      failed: (errno) => this.#attempt(() => this.#extractor.failed(errno)),
    });
  }

  #end(): void {
    if (this.#firstByte !== undefined) this.#reader.push(this.#firstByte);
    if (this.#gunzip === undefined) this.#complete();
    else this.#gunzip.end();
  }

  #complete(): void {
    this.#reader.end();
    const { files, bytes } = this.#extractor.counts;
    this.#finish({ filePush: { files, bytes } });
  }

  #damaged(error: Error): void {
    if (errorCode(error) === 'Z_BUF_ERROR')
      throw new TarError('the archive is cut off: its gzip stream has no end');
    throw new TarError(`the archive is damaged: its gzip stream cannot be read (${error.message})`);
  }

  /** Runs a step. An error becomes the call's result. */
  #attempt(step: () => void): void {
    if (this.#isOver) return;
    try {
      ownAs(this.#owner, step);
    } catch (error) {
      if (!(error instanceof TarError || error instanceof AgentError)) {
        this.#finish(undefined);
        throw error;
      }
      const { files } = this.#extractor.counts;
      const before = `${files} ${files === 1 ? 'file was' : 'files were'} written before`;
      const code = error instanceof AgentError ? error.code : 'invalid';
      this.#finish(failure(code, `${error.message}; ${before}`));
    }
  }

  #finish(result: ResultInput | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#gunzip?.removeAllListeners();
    this.#gunzip?.on('error', () => {});
    this.#gunzip?.destroy();
    this.#extractor.close();
    if (result !== undefined) this.#stream.finish(result);
  }
}

function failure(code: string, message: string): ResultInput {
  return { error: { code, message } };
}
