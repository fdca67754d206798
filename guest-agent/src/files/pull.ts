// One file's content, in frames as the host grants credit.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import {
  AgentError,
  type FileEntryInput,
  type FilePlace,
  type FilePull,
  type FileRead,
  FLOW,
  MAX_DATA_BYTES,
  type SourceBytes,
  type Stream,
  showName,
} from '@sandboxd/proto';
import { readUserFiles } from '../exec/users.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { actAs, findActor } from './as-user.ts';
import { Describer } from './entry.ts';
import { fileError, readError } from './errors.ts';
import { toPathBytes } from './guest-path.ts';
import { Root, toPath } from './place.ts';
import { freshUs, isDirectory, isRegular, newStatus, SPECIAL, sizeOf, specialKind } from './status.ts';

const { errno } = systemConstants;

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
  new Pull(stream, { fd: toReadable(fd, status, name), name, status, maxBytes, isEmulated });
}

/** Throws AgentError when the file cannot be read. */
export function startFileRead(stream: Stream, read: FileRead, isEmulated: boolean): void {
  if (!read.place) throw new AgentError('invalid', 'the call names no file');
  const place = read.place as FilePlace;
  const names = readUserFiles();
  const actor = findActor(place.user, names);
  const { fd, name, status } = actAs(actor, () => openPlace(place));
  const begin = (): void => {
    addon.statusOf(fd, status);
    const entry = new Describer(names).describe(status);
    new Pull(stream, { fd, name, status, maxBytes: Number.MAX_SAFE_INTEGER, isEmulated, part: read, entry });
  };
  // A change within the same tick would have the same version.
  const waitUs = freshUs(status, addon.coarseClock());
  if (waitUs === 0) {
    begin();
    return;
  }
  const timer = setTimeout(
    () => {
      try {
        begin();
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        stream.finish({ error: { code: error.code, message: error.message } });
      }
    },
    Math.ceil(waitUs / 1000),
  );
  const stop = (): void => {
    clearTimeout(timer);
    addon.close(fd);
  };
  stream.handlers = {
    cancel: () => {
      stop();
      stream.finish({ error: { code: 'cancelled', message: 'the read was cancelled' } });
    },
    lost: stop,
  };
}

function openPlace(place: FilePlace): Pick<PullOptions, 'fd' | 'name' | 'status'> {
  using root = new Root(place);
  const name = toPath(place.path);
  const found = root.at(name);
  const status = newStatus();
  try {
    addon.statusOf(found, status);
    const isReadable = isRegular(status) || isDirectory(status);
    const fd = isReadable ? addon.reopen(found, constants.O_RDONLY) : SPECIAL;
    return { fd: toReadable(fd, status, name), name, status };
  } finally {
    addon.close(found);
  }
}

/** The descriptor, if it is a regular file's; it is closed otherwise. Throws AgentError. */
function toReadable(fd: number, status: Float64Array, name: string): number {
  if (fd === SPECIAL)
    throw new AgentError(
      'invalid',
      `${showName(name)} is ${specialKind(status)}; only regular files can be read`,
    );
  if (fd < 0) throw fileError(fd, name);
  if (!isDirectory(status)) return fd;
  addon.close(fd);
  throw new AgentError('is_directory', `${showName(name)} is a directory; format=tar gives what is in it`);
}

type PullOptions = {
  readonly fd: number;
  readonly name: string;
  readonly status: Float64Array;
  readonly maxBytes: number;
  readonly isEmulated: boolean;
  /** The wanted part of a file whose size is known. */
  readonly part?: Pick<FileRead, 'first' | 'last' | 'lastBytes'>;
  readonly entry?: FileEntryInput;
};

/** Offset and length of the wanted part. */
function toExtent(sizeBytes: number, { part, maxBytes }: PullOptions): [offset: number, length: number] {
  const { first, last, lastBytes } = part ?? {};
  if (typeof first !== 'number' && typeof last !== 'number' && typeof lastBytes === 'number') {
    const offset = Math.max(0, sizeBytes - lastBytes);
    return [offset, sizeBytes - offset];
  }
  const offset = Math.min(first ?? 0, sizeBytes);
  const end = Math.min((last ?? Number.MAX_SAFE_INTEGER - 1) + 1, sizeBytes);
  return [offset, Math.min(Math.max(0, end - offset), maxBytes)];
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

  /** Takes ownership of the descriptor. Throws AgentError. */
  constructor(stream: Stream, options: PullOptions) {
    const { fd, name, status, maxBytes, isEmulated, entry } = options;
    this.#stream = stream;
    this.#fd = fd;
    this.#name = name;
    let offsetBytes = 0;
    let sizeBytes = sizeOf(status);
    try {
      const head = sizeBytes < SMALL_BYTES ? readHead(fd, name) : undefined;
      this.#isSizeKnown = head?.isWhole ?? true;
      if (head !== undefined) sizeBytes = head.bytes.length;
      this.#head = head?.bytes ?? Buffer.alloc(0);
      this.#left = maxBytes;
      if (this.#isSizeKnown) {
        [offsetBytes, this.#left] = toExtent(sizeBytes, options);
        if (head !== undefined) this.#head = this.#head.subarray(offsetBytes, offsetBytes + this.#left);
        else if (offsetBytes > 0 && addon.seek(fd, offsetBytes) < 0) throw fileError(-errno.EIO, name);
        if (isEmulated && offsetBytes === 0 && this.#left >= DIRECT_BYTES) addon.startDirectRead(fd);
      } else this.#head = this.#head.subarray(0, maxBytes);
    } catch (error) {
      addon.close(fd);
      throw error;
    }
    stream.setSource(FLOW.out, (limit, sourceLimit) => this.#take(limit, sourceLimit));
    stream.handlers = {
      cancel: () => {
        this.#close();
        stream.finish({ error: { code: 'cancelled', message: 'the pull was cancelled' } });
      },
      lost: () => this.#close(),
    };
    const known = { isSizeKnown: true, sizeBytes, contentBytes: this.#left, offsetBytes };
    stream.opened({ ...(this.#isSizeKnown && known), ...(entry && { entry }) });
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
