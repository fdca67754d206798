// Files of a sandbox: read and written as bytes, streams and directories.
import { platform } from '#platform';
import type { Requests } from '../connection/requests.ts';
import { readText } from '../connection/requests.ts';
import type { Bytes, WireAnswer } from '../connection/transport.ts';
import type { CallOptions, PushResult } from '../contract.ts';
import { packFile, splitPath } from './one-file.ts';

/** 2^53 − 1, which requests the whole file. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

export type FileStream = Bytes & {
  /** Size of the whole file, if known. */
  readonly sizeBytes: number | undefined;
};

export type ReadOptions = CallOptions & {
  /** Reads only the beginning of a longer file; default: the whole file. */
  readonly maxBytes?: number;
};

export type WriteOptions = CallOptions & {
  /** Permissions; default: 0o644. */
  readonly mode?: number;
  /** Required for a stream. */
  readonly sizeBytes?: number;
};

export class Files {
  readonly #requests: Requests;
  readonly #id: string;

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#id = id;
  }

  /** Reads a file. NotFoundError when it does not exist. */
  async read(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    return join(await this.stream(path, options));
  }

  async readText(path: string, options: ReadOptions = {}): Promise<string> {
    return readText({ body: await this.stream(path, options) });
  }

  /** Reads a file as a stream. */
  async stream(path: string, { maxBytes = NO_LIMIT, ...options }: ReadOptions = {}): Promise<FileStream> {
    const answer = await this.#get({ path, max_bytes: maxBytes }, options);
    const size = answer.header('x-file-size');
    return Object.assign(toIterable(answer.body), {
      sizeBytes: size === undefined ? undefined : Number(size),
    });
  }

  /** Returns a directory's contents, or one file, as a tar stream. */
  async tar(path: string, options: CallOptions = {}): Promise<Bytes> {
    return (await this.#get({ path, format: 'tar' }, options)).body;
  }

  /** Writes one file; creates missing parent directories. */
  async write(path: string, data: string | Uint8Array | Bytes, options: WriteOptions = {}): Promise<void> {
    const { directory, name } = splitPath(path);
    const { mode = 0o644, sizeBytes, signal, timeoutMs } = options;
    await this.extract(directory, packFile(name, data, { mode, sizeBytes }), { signal, timeoutMs });
  }

  /** Extracts a tar stream (plain or gzip) into a directory of the sandbox, which is created with its parents. */
  async extract(
    directory: string,
    archive: Bytes | Uint8Array,
    options: CallOptions = {},
  ): Promise<PushResult> {
    const query = { path: directory };
    return this.#requests.call('pushFiles', { params: { id: this.#id }, query, bytes: archive, ...options });
  }

  /** Copies a local directory's contents into the sandbox. Not in browsers. */
  async push(local: string, directory: string, options: CallOptions = {}): Promise<PushResult> {
    return this.extract(directory, platform.packDirectory(local), options);
  }

  /** Copies a directory's contents to a local directory, which is created if missing. Not in browsers. */
  async pull(directory: string, local: string, options: CallOptions = {}): Promise<void> {
    await platform.unpackDirectory(await this.tar(directory, options), local);
  }

  #get(query: Record<string, string | number>, options: CallOptions): Promise<WireAnswer> {
    return this.#requests.stream('readFile', { params: { id: this.#id }, query, ...options });
  }
}

/** Returns a plain iterable without the stream's other methods. */
function toIterable(bytes: Bytes): Bytes {
  return { [Symbol.asyncIterator]: () => bytes[Symbol.asyncIterator]() };
}

async function join(bytes: Bytes): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const part of bytes) {
    parts.push(part);
    sizeBytes += part.length;
  }
  const all = new Uint8Array(sizeBytes);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
