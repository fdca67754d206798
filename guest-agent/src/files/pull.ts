// One file's content, in frames as the host grants credit.
import {
  AgentError,
  type FilePull,
  FLOW,
  MAX_DATA_BYTES,
  type SourceBytes,
  type Stream,
  showName,
} from '@sandboxd/proto';
import { addon, NOT_NOW } from '../native/addon.ts';
import { fileError, readError } from './errors.ts';
import { toPathBytes } from './guest-path.ts';
import { isDirectory, newStatus, SPECIAL, sizeOf, specialKind } from './status.ts';

/** Files below this size are read at once, because files of /proc and /sys report a wrong size. */
const SMALL_BYTES = 16 * 1024;
/** Emulated guests read larger files with O_DIRECT, unless they are in the page cache. */
const DIRECT_BYTES = 4 * 1024 * 1024;
/** Maximum bytes read to determine the length of a file. */
const MAX_HEAD_BYTES = 1024 * 1024;

/** Shared by all pulls: the link has copied the bytes before a stream asks for more. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES);

/** Throws AgentError when the file cannot be read. */
export function startPull(stream: Stream, { path, maxBytes }: FilePull, isEmulated: boolean): void {
  const status = newStatus();
  const name = toPathBytes(path);
  const fd = addon.openFile(name, status);
  if (fd === SPECIAL)
    throw new AgentError(
      'invalid',
      `${showName(name)} is ${specialKind(status)}; only regular files can be read`,
    );
  if (fd < 0) throw fileError(fd, name);
  try {
    if (isDirectory(status))
      throw new AgentError(
        'is_directory',
        `${showName(name)} is a directory; format=tar gives what is in it`,
      );
    new Pull(stream, fd, name, maxBytes, sizeOf(status), isEmulated);
  } catch (error) {
    addon.close(fd);
    throw error;
  }
}

class Pull {
  readonly #stream: Stream;
  readonly #fd: number;
  readonly #name: string;
  /** Bytes that were read but not sent yet. */
  #head: Buffer;
  /** Bytes still to be sent; the maximum when the size is unknown. */
  #left: number;
  readonly #isSizeKnown: boolean;
  #isOver = false;

  constructor(
    stream: Stream,
    fd: number,
    name: string,
    maxBytes: number,
    statedBytes: number,
    isEmulated: boolean,
  ) {
    this.#stream = stream;
    this.#fd = fd;
    this.#name = name;
    const head = statedBytes < SMALL_BYTES ? readHead(fd, name) : undefined;
    this.#head = head?.bytes ?? Buffer.alloc(0);
    this.#isSizeKnown = head?.isWhole ?? true;
    const sizeBytes = head === undefined ? statedBytes : head.bytes.length;
    this.#left = this.#isSizeKnown ? Math.min(sizeBytes, maxBytes) : maxBytes;
    this.#head = this.#head.subarray(0, maxBytes);
    if (isEmulated && this.#isSizeKnown && this.#left >= DIRECT_BYTES) addon.startDirectRead(fd);
    stream.setSource(FLOW.out, (limit, sourceLimit) => this.#take(limit, sourceLimit));
    stream.handlers = {
      cancel: () => {
        this.#close();
        stream.finish({ error: { code: 'cancelled', message: 'the pull was cancelled' } });
      },
      lost: () => this.#close(),
    };
    const file = this.#isSizeKnown ? { isSizeKnown: true, sizeBytes, contentBytes: this.#left } : {};
    stream.opened(file);
    stream.ready(FLOW.out);
  }

  #take(limit: number, sourceLimit: number): Uint8Array | SourceBytes | null {
    if (this.#isOver) return null;
    const maxBytes = Math.min(limit, this.#left);
    if (maxBytes === 0) return this.#end();
    if (this.#head.length > 0) {
      const bytes = this.#head.subarray(0, Math.min(maxBytes, MAX_DATA_BYTES));
      this.#head = this.#head.subarray(bytes.length);
      this.#left -= bytes.length;
      return bytes;
    }
    if (sourceLimit > 0) {
      const length = Math.min(sourceLimit, this.#left);
      return { descriptor: this.#fd, length, took: (result) => this.#took(result) };
    }
    const got = this.#read(maxBytes);
    this.#took(got);
    return got > 0 ? scratch.subarray(0, got) : null;
  }

  /** `result` of the read: byte count, 0 at the end, or a negative error number. */
  #took(result: number): void {
    if (result > 0) this.#left -= result;
    else if (result === 0 || result === NOT_NOW) this.#end();
    else {
      this.#close();
      throw fileError(result, this.#name);
    }
  }

  #read(lengthBytes: number): number {
    try {
      return addon.read(this.#fd, scratch, 0, lengthBytes);
    } catch (error) {
      this.#close();
      throw readError(error, this.#name);
    }
  }

  #end(): null {
    const hasShrunk = this.#isSizeKnown && this.#left > 0;
    this.#close();
    this.#stream.finish(
      hasShrunk
        ? {
            error: {
              code: 'conflict',
              message: `${showName(this.#name)} became shorter while it was read`,
            },
          }
        : { filePull: {} },
    );
    return null;
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#head = Buffer.alloc(0);
    addon.close(this.#fd);
  }
}

/** The file's first bytes, and whether they are the whole file. Throws AgentError. */
function readHead(fd: number, name: string): { readonly bytes: Buffer; readonly isWhole: boolean } {
  const chunks: Buffer[] = [];
  let size = 0;
  while (size < MAX_HEAD_BYTES) {
    const chunk = Buffer.allocUnsafeSlow(SMALL_BYTES);
    const got = tryRead(fd, chunk, name);
    // Files like /proc/kmsg are empty now and may have data later: the current data is the whole file.
    if (got === 0 || got === NOT_NOW) return { bytes: Buffer.concat(chunks, size), isWhole: true };
    chunks.push(chunk.subarray(0, got));
    size += got;
  }
  return { bytes: Buffer.concat(chunks, size), isWhole: false };
}

function tryRead(fd: number, chunk: Buffer, name: string): number {
  try {
    return addon.read(fd, chunk, 0, chunk.length);
  } catch (error) {
    throw readError(error, name);
  }
}
