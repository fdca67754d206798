// envd's `/files`: downloads and uploads over plain HTTP.
import { basename } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Busboy, type BusboyHeaders } from '@fastify/busboy';
import { ApiError } from '@sandboxd/client';
import { connectionOf, type HttpContext, headerOf } from '../../http/context.ts';
import { type BodySource, readBody } from '../../http/input/body-source.ts';
import { E2bError } from '../errors.ts';
import type { EnvdCall } from './call.ts';
import { ensureParents, giveToUser, METADATA_PREFIX } from './filesystem.ts';

/** Of a request that uploads several. */
const MAX_FILES = 1000;
const MAX_FILE_NAME_BYTES = 4096;
/** Headers of a part; the names of files are in them. */
const MAX_PART_HEADER_BYTES = 16 * 1024;
const METADATA_HEADER = 'x-metadata-';
const MAX_METADATA_BYTES = 4096;
/** Of an extended attribute's name in Linux, less `user.e2b.`. */
const MAX_METADATA_KEY_BYTES = 246;
const PRINTABLE = /^[ -~]*$/;

type Metadata = Readonly<Record<string, string>>;
type Written = {
  readonly name: string;
  readonly path: string;
  readonly type: 'file';
  readonly metadata?: Metadata;
};

export async function download(c: HttpContext, call: EnvdCall): Promise<Response> {
  const path = await call.path(c.req.query('path') ?? '');
  const range = headerOf(c, 'range');
  const answer = await call.requests.stream('readContent', {
    params: call.params,
    query: { path },
    ...(range !== undefined && { headers: { range } }),
  });
  const kept = ['content-length', 'content-range', 'last-modified', 'accept-ranges'];
  for (const name of kept) {
    const value = answer.header(name);
    if (value !== undefined) c.header(name, value);
  }
  c.header('content-type', 'application/octet-stream');
  c.header('content-disposition', `inline; filename*=utf-8''${encodeURIComponent(basename(path))}`);
  const status = answer.status === 206 ? 206 : 200;
  if (c.req.method !== 'HEAD') return c.body(ReadableStream.from(cutAtError(c, answer.body)), status);
  await answer.body[Symbol.asyncIterator]().return?.();
  return c.body(null, status);
}

/** Breaks the connection at an error, because the server would append its text to the content. */
function cutAtError(c: HttpContext, body: AsyncIterable<Uint8Array>): AsyncIterableIterator<Uint8Array> {
  const source = body[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: async () => {
      try {
        return await source.next();
      } catch (err) {
        c.get('log').debug({ err }, 'a download was cut');
        connectionOf(c).outgoing?.destroy();
        return { done: true, value: undefined };
      }
    },
    return: async () => (await source.return?.()) ?? { done: true, value: undefined },
  };
}

export async function upload(c: HttpContext, call: EnvdCall): Promise<Response> {
  const named = c.req.query('path');
  const type = (headerOf(c, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase();
  const metadata = readMetadata(c);
  const body = readBody(c);
  let content: Readable | undefined;
  try {
    if (type === 'multipart/form-data') {
      const parser = createParser(headerOf(c, 'content-type') ?? '');
      content = decode(body, headerOf(c, 'content-encoding'));
      return c.json(await writeParts(call, { named, metadata }, content, parser));
    }
    if (type !== 'application/octet-stream')
      throw new E2bError(
        400,
        `content type ${JSON.stringify(type)} is neither multipart/form-data nor a byte stream`,
      );
    if (!named) throw new E2bError(400, 'an upload of bytes needs the query path');
    const path = await call.path(named);
    content = decode(body, headerOf(c, 'content-encoding'));
    return c.json([await write(call, path, content, metadata)]);
  } finally {
    content?.destroy();
    body.discard();
  }
}

function decode(body: BodySource, coding = 'identity'): Readable {
  const isPacked = coding.toLowerCase() === 'gzip';
  if (!isPacked && coding.toLowerCase() !== 'identity')
    throw new E2bError(400, `content encoding ${JSON.stringify(coding)} is not known`);
  const plain = Readable.from(toIterable(body), { objectMode: false });
  return tolerant(isPacked ? pipeline(plain, createGunzip(), () => undefined) : plain);
}

/** Its reader gets its error. Until then nothing listens, and such an error would end the daemon. */
function tolerant<S extends Readable>(stream: S): S {
  stream.on('error', () => undefined);
  return stream;
}

async function* toIterable({ read }: BodySource): AsyncGenerator<Uint8Array, void> {
  for (let chunk = await read(); chunk !== undefined; chunk = await read()) yield chunk;
}

/** Writes each file while its part arrives, one after the other. */
async function writeParts(
  call: EnvdCall,
  { named, metadata }: { readonly named: string | undefined; readonly metadata: Metadata },
  content: Readable,
  parser: Busboy,
): Promise<Written[]> {
  const written: Promise<Written>[] = [];
  const parts: Readable[] = [];
  const paths = new Set<string>();
  let last: Promise<unknown> = Promise.resolve();
  const done = Promise.withResolvers<void>();
  const fail = (error: Error): void => {
    done.reject(error);
    content.destroy();
    // The parser ends no part that is cut off, and the guest would wait for its end.
    for (const part of parts) part.destroy(error);
  };
  parser.on('file', (field, part, fileName) => {
    tolerant(part);
    if (field !== 'file') return void part.resume();
    parts.push(part);
    const work = last.then(async () => {
      const path = await call.path(named || fileName || '');
      if (paths.has(path)) throw new E2bError(400, `path ${path} is in the upload twice`);
      paths.add(path);
      return await write(call, path, part, metadata);
    });
    last = work;
    written.push(work);
    work.catch(fail);
  });
  parser.on('filesLimit', () => fail(new E2bError(400, `an upload has at most ${MAX_FILES} files`)));
  parser.on('finish', () => done.resolve());
  parser.on('error', (error) => fail(noForm(error)));
  content.once('error', (error) => fail(damaged(error)));
  content.pipe(parser);
  await done.promise;
  return await Promise.all(written);
}

function createParser(type: string): Busboy {
  const limits = {
    files: MAX_FILES,
    headerSize: MAX_PART_HEADER_BYTES,
    fieldNameSize: MAX_FILE_NAME_BYTES,
    fields: 100,
  };
  const headers: BusboyHeaders = { 'content-type': type };
  try {
    return new Busboy({ headers, preservePath: true, limits, isPartAFile });
  } catch (error) {
    throw noForm(error);
  }
}

/** Also text without the name of a file, as `FormData` has it. */
function isPartAFile(field?: string, _type?: string, fileName?: string): boolean {
  return field === 'file' || fileName !== undefined;
}

function noForm(error: unknown): E2bError {
  return new E2bError(400, `the upload is not a multipart form: ${(error as Error).message}`);
}

function damaged({ message }: Error): E2bError {
  return new E2bError(400, `the upload is damaged: ${message}`);
}

/** Of all files of an upload. E2bError 400. */
function readMetadata(c: HttpContext): Metadata {
  const found = new Map<string, string>();
  let bytes = 0;
  for (const [name, value] of Object.entries(c.req.header())) {
    if (!name.startsWith(METADATA_HEADER)) continue;
    const key = name.slice(METADATA_HEADER.length);
    if (key === '' || key.length > MAX_METADATA_KEY_BYTES)
      throw new E2bError(400, `keys of metadata have 1 to ${MAX_METADATA_KEY_BYTES} characters`);
    if (!PRINTABLE.test(value))
      throw new E2bError(400, `the value of the metadata ${key} must be printable ASCII`);
    bytes += key.length + value.length;
    if (bytes > MAX_METADATA_BYTES)
      throw new E2bError(
        400,
        `metadata of a file has at most ${MAX_METADATA_BYTES} bytes in keys and values`,
      );
    found.set(key, value);
  }
  return Object.fromEntries(found);
}

async function write(call: EnvdCall, path: string, content: Readable, metadata: Metadata): Promise<Written> {
  const { name: user } = await call.user();
  const hasMetadata = Object.keys(metadata).length > 0;
  if (user !== 'root') await ensureParents(call, path);
  try {
    const query = { path, ...(hasMetadata && { attributes: toAttributes(metadata) }) };
    await call.requests.call('writeContent', { params: call.params, query, bytes: content });
  } catch (error) {
    if (content.errored instanceof E2bError) throw content.errored;
    if (content.errored) throw damaged(content.errored);
    if (error instanceof ApiError && /no space|disk .*full/i.test(error.message))
      throw new E2bError(507, `not enough disk space available: ${error.message}`);
    throw error;
  }
  await giveToUser(call, path);
  return { name: basename(path), path, type: 'file', ...(hasMetadata && { metadata }) };
}

/** The attributes of the REST interface, as JSON. */
function toAttributes(metadata: Metadata): string {
  const entries = Object.entries(metadata).map(([key, value]) => [`${METADATA_PREFIX}${key}`, value]);
  return JSON.stringify(Object.fromEntries(entries));
}
