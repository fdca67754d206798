// Files of a sandbox: read and written as bytes, streams and directories.
import { platform } from '#platform';
import { readText } from '../connection/answers.ts';
import { readLines } from '../connection/lines.ts';
import type { Requests } from '../connection/requests.ts';
import type { Bytes, WireAnswer } from '../connection/transport.ts';
import type { CallOptions, CopyResult, FileEntry, PushResult, WatchEvent } from '../contract.ts';
import { ConnectionError, NotFoundError } from '../errors.ts';
import { packFile, splitPath } from './one-file.ts';
import type {
  FileChanges,
  FileContent,
  FileOptions,
  FileStream,
  ListOptions,
  PushOptions,
  ReadOptions,
  ReplaceOptions,
  StatOptions,
  WriteOptions,
} from './options.ts';

/** 2^53 − 1, which requests the whole file. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

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
    { owner, ...options }: PushOptions = {},
  ): Promise<PushResult> {
    const query = { path: directory, owner };
    return this.#requests.call('pushFiles', { params: { id: this.#id }, query, bytes: archive, ...options });
  }

  /** Copies a local directory's contents into the sandbox. Not in browsers. */
  async push(local: string, directory: string, options: PushOptions = {}): Promise<PushResult> {
    return this.extract(directory, platform.packDirectory(local), options);
  }

  /** Copies a directory's contents to a local directory, which is created if missing. Not in browsers. */
  async pull(directory: string, local: string, options: CallOptions = {}): Promise<void> {
    await platform.unpackDirectory(await this.tar(directory, options), local);
  }

  #get(query: Record<string, string | number>, options: CallOptions): Promise<WireAnswer> {
    return this.#requests.stream('readFile', { params: { id: this.#id }, query, ...options });
  }

  /** Describes a file; `follow: false` a symbolic link itself. NotFoundError when it does not exist. */
  stat(path: string, options: StatOptions = {}): Promise<FileEntry> {
    const { follow = true, withAttributes, ...rest } = options;
    const { query, call } = split(rest);
    return this.#requests.call('statFile', {
      ...this.#call(call),
      query: { ...query, path, follow: follow ? undefined : 'false', ...toAttributesQuery(withAttributes) },
    });
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, { ...options, follow: false });
      return true;
    } catch (error) {
      if (error instanceof NotFoundError) return false;
      throw error;
    }
  }

  /** Entries of a directory, page by page; `depth` levels of subdirectories, default 1. */
  async *list(
    path: string,
    { depth, withAttributes, ...options }: ListOptions = {},
  ): AsyncGenerator<FileEntry, void> {
    const { query, call } = split(options);
    let cursor: string | undefined;
    do {
      const page = await this.#requests.call('listFiles', {
        ...this.#call(call),
        query: { ...query, path, depth, cursor, ...toAttributesQuery(withAttributes) },
      });
      yield* page.entries;
      // An empty page with a cursor would loop forever.
      cursor = page.entries.length === 0 ? undefined : page.next_cursor;
    } while (cursor !== undefined);
  }

  /**
   * Changes in a directory, with `recursive` also in those in it, until the loop ends or the signal aborts. The first
   * event is `armed`: list the directory after it, and again after `overflow`. The last one is `end`, with the reason.
   * ConnectionError when the connection is lost: watch again, and list again.
   */
  async *watch(
    path: string,
    { recursive = false, ...options }: FileOptions & { readonly recursive?: boolean } = {},
  ): AsyncGenerator<WatchEvent, void> {
    const { query, call } = split(options);
    const { body } = await this.#requests.stream('watchFiles', {
      ...this.#call(call),
      query: { ...query, path, ...(recursive && { recursive: 'true' }) },
      accept: 'application/x-ndjson',
    });
    for await (const line of readLines(body)) {
      if (line === '') continue;
      const event = JSON.parse(line) as WatchEvent;
      yield event;
      if (event.type === 'end') return;
    }
    throw new ConnectionError('the watch ended without a reason: the connection was lost');
  }

  /** The content of a file with its ETag, or the bytes from `first` to `last` of it. */
  async content(
    path: string,
    { first, last, ...options }: FileOptions & { readonly first?: number; readonly last?: number } = {},
  ): Promise<FileContent> {
    const { query, call } = split(options);
    const isPart = first !== undefined || last !== undefined;
    const { body, header } = await this.#requests.stream('readContent', {
      ...this.#call(call),
      query: { ...query, path },
      ...(isPart && { headers: { range: `bytes=${first ?? 0}-${last ?? ''}` } }),
    });
    const size = header('content-length');
    return Object.assign(toIterable(body), {
      etag: header('etag'),
      sizeBytes: size === undefined ? undefined : Number(size),
    });
  }

  /**
   * Replaces a file's content: readers see the old or the new one. Missing parent directories are made. `mode` defaults
   * to that of an existing file, otherwise 0o644; extended attributes of an existing file do not stay.
   * PreconditionError if a condition does not hold.
   */
  replace(
    path: string,
    data: string | Uint8Array | Bytes,
    { mode, ifMatch, ifNoneMatch, attributes, ...options }: ReplaceOptions = {},
  ): Promise<FileEntry> {
    const { query, call } = split(options);
    return this.#requests.call('writeContent', {
      ...this.#call(call),
      query: {
        ...query,
        path,
        mode: mode?.toString(8),
        ...(attributes !== undefined && { attributes: JSON.stringify(attributes) }),
      },
      bytes: data,
      headers: {
        ...(ifMatch !== undefined && { 'if-match': ifMatch }),
        ...(ifNoneMatch !== undefined && { 'if-none-match': ifNoneMatch }),
      },
    });
  }

  /** Makes a directory with its parents. ConflictError if it exists, unless `mayExist`. */
  mkdir(
    path: string,
    {
      mode,
      mayExist = false,
      ...options
    }: FileOptions & { readonly mode?: number; readonly mayExist?: boolean } = {},
  ): Promise<FileEntry> {
    const { query, call } = split(options);
    const body = {
      ...query,
      path,
      may_exist: mayExist,
      ...(mode !== undefined && { mode: mode.toString(8) }),
    };
    return this.#requests.call('makeDirectory', { ...this.#call(call), body });
  }

  /** Moves or renames. ConflictError if the new name exists, unless `overwrite`. */
  move(
    path: string,
    to: string,
    { overwrite = false, ...options }: FileOptions & { readonly overwrite?: boolean } = {},
  ): Promise<FileEntry> {
    const { query, call } = split(options);
    return this.#requests.call('moveFile', { ...this.#call(call), body: { ...query, path, to, overwrite } });
  }

  /** Copies in the sandbox; `recursive` for a directory. ConflictError if the new name exists, unless `overwrite`. */
  copy(
    path: string,
    to: string,
    options: FileOptions & { readonly overwrite?: boolean; readonly recursive?: boolean } = {},
  ): Promise<CopyResult> {
    const { overwrite = false, recursive = false, ...rest } = options;
    const { query, call } = split(rest);
    const body = { ...query, path, to, overwrite, recursive };
    return this.#requests.call('copyFile', { ...this.#call(call), body });
  }

  /** Removes a file, or with `recursive` a directory; resolves with the number of entries removed. */
  async remove(
    path: string,
    { recursive = false, ...options }: FileOptions & { readonly recursive?: boolean } = {},
  ): Promise<number> {
    const { query, call } = split(options);
    const { removed } = await this.#requests.call('removeFiles', {
      ...this.#call(call),
      query: { ...query, path, ...(recursive && { recursive: 'true' }) },
    });
    return removed;
  }

  /** Changes permissions, owner (name|uid[:group|gid]), modification time or extended attributes. */
  change(path: string, change: FileChanges, options: FileOptions = {}): Promise<FileEntry> {
    const { query, call } = split(options);
    const { mode, owner, modifiedAt, attributes } = change;
    const body = {
      ...query,
      path,
      ...(mode !== undefined && { mode: mode.toString(8) }),
      ...(owner !== undefined && { owner }),
      ...(modifiedAt !== undefined && { modified_at: modifiedAt.toISOString() }),
      ...(attributes !== undefined && { attributes }),
    };
    return this.#requests.call('changeFile', { ...this.#call(call), body });
  }

  #call(options: CallOptions) {
    return { params: { id: this.#id }, ...options };
  }
}

/** Separates what is sent from how the call is made. */
function split({ user, root, signal, timeoutMs }: FileOptions) {
  return {
    query: { ...(user !== undefined && { user }), ...(root !== undefined && { root }) },
    call: { signal, timeoutMs },
  };
}

function toAttributesQuery(isWanted: boolean | undefined): { readonly with_attributes?: 'true' } {
  return isWanted ? { with_attributes: 'true' } : {};
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
