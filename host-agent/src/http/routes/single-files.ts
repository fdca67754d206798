// Single files of a sandbox: their description, content, names and attributes.
import { isUtf8 } from 'node:buffer';
import type { FileAttributeInput, FileCallInput } from '@sandboxd/proto';
import type { FileDescription } from '../../guest/file-description.ts';
import type { ReadFile } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import { clientSignal, guestOf, type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { readBody } from '../input/body-source.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

/** What all requests for single files have. */
type Place = {
  readonly path?: string | undefined;
  readonly path_base64?: string | undefined;
  readonly root?: string | undefined;
  readonly user?: string | undefined;
};

export function singleFileHandlers({ sandboxes: host, bodyIdleMs }: HttpServices) {
  const filesOf = async (c: HttpContext, id: string) => (await guestOf(host, c, id)).files();
  const call = async (c: HttpContext, id: string, place: Place, operation: FileCallInput) =>
    await (await filesOf(c, id)).call({ place: toPlace(place), ...operation }, clientSignal(c));
  const describe = async (
    c: HttpContext,
    id: string,
    place: Place,
    operation: FileCallInput,
    to?: Buffer,
  ) => {
    const answer = await call(c, id, place, operation);
    return { ...toEntry(expectEntry(answer.entry), to ?? toFilePath(place)), left_out: answer.count };
  };

  return {
    statFile: async ({ params: { id }, query: { follow, with_attributes, ...place } }, c) => {
      const stat = { isLink: !follow, attributes: with_attributes };
      const { left_out: _, ...entry } = await describe(c, id, place, { stat });
      c.header('ETag', entry.etag);
      return entry;
    },

    listFiles: async ({ params: { id }, query }, c) => {
      const { depth, limit, cursor, with_attributes: attributes, ...place } = query;
      const after = Buffer.from(cursor ?? '', 'base64url');
      const list = { depth, maxEntries: limit, after, attributes };
      const { entries, hasMore } = await call(c, id, place, { list });
      const directory = toFilePath(place);
      const last = entries.slice(0, limit).at(-1);
      return {
        entries: entries.slice(0, limit).map((entry) => toEntry(entry, join(directory, entry.path))),
        ...(hasMore && last !== undefined && { next_cursor: last.path.toString('base64url') }),
      };
    },

    readContent: async ({ params: { id }, query: place }, c) => {
      const isHead = c.req.raw.method === 'HEAD';
      const range = isHead ? undefined : readRange(c);
      const conditions = readConditions(c);
      const read = async (part: Range | undefined): Promise<ReadFile> =>
        await (await filesOf(c, id)).read({ place: toPlace(place), ...part }, clientSignal(c));
      const file = await read(range);
      const { version } = file.entry;
      const headers = contentHeaders(file);
      if (conditions.ifMatch !== undefined && !matchesStrongly(conditions.ifMatch, version)) {
        file.body.cancel();
        throw new AppError('precondition_failed', 'the file has been changed: it has another ETag');
      }
      if (matchesWeakly(conditions.ifNoneMatch, version)) {
        file.body.cancel();
        const { ETag, 'Last-Modified': modified } = headers;
        return c.body(null, 304, { ETag, 'Last-Modified': modified });
      }
      if (isHead) {
        file.body.cancel();
        return c.body(null, 200, { ...headers, ...lengthOf(file) });
      }
      // Without a known size there are no ranges.
      if (range === undefined || file.sizeBytes === undefined)
        return answerPullStream(c, file.body, { ...headers, ...lengthOf(file) });
      if (!permitsRange(c, version)) {
        file.body.cancel();
        const whole = await read(undefined);
        return answerPullStream(c, whole.body, { ...contentHeaders(whole), ...lengthOf(whole) });
      }
      const { sizeBytes, contentBytes = 0, offsetBytes = 0 } = file;
      if (contentBytes === 0) {
        file.body.cancel();
        throw new HttpError(
          'range_not_satisfiable',
          `the file has ${sizeBytes} bytes, and none of the range`,
          {
            'Content-Range': `bytes */${sizeBytes}`,
          },
        );
      }
      const span = `bytes ${offsetBytes}-${offsetBytes + contentBytes - 1}/${sizeBytes}`;
      return answerPullStream(c, file.body, { ...headers, ...lengthOf(file), 'Content-Range': span }, 206);
    },

    writeContent: async ({ params: { id }, query: { mode, parents, attributes, ...place } }, c) => {
      if (headerOf(c, 'content-range') !== undefined)
        throw new AppError('invalid_argument', 'header content-range: a part of a file cannot be written');
      const files = await filesOf(c, id);
      const { ifMatch = [], ifNoneMatch = [] } = readConditions(c);
      const body = readBody(c, bodyIdleMs);
      try {
        const write = {
          place: toPlace(place),
          parents,
          ...toMode(mode),
          attributes: toAttributes(attributes),
          ifMatch: [...ifMatch],
          ifNoneMatch: ifNoneMatch.map((tag) => tag.replace(/^W\//, '')),
        };
        const entry = toEntry(await files.write(write, body.read, clientSignal(c)), toFilePath(place));
        c.header('ETag', entry.etag);
        return entry;
      } finally {
        body.discard(); // after an early response the client may still send
      }
    },

    makeDirectory: async ({ params: { id }, body: { mode, parents, may_exist, ...place } }, c) => {
      const operation = { makeDirectory: { parents, mayExist: may_exist, ...toMode(mode) } };
      const { left_out: _, ...entry } = await describe(c, id, place, operation);
      return entry;
    },

    moveFile: async ({ params: { id }, body: { overwrite, to, to_base64, ...place } }, c) => {
      const name = toTarget(place, { path: to, path_base64: to_base64 });
      const operation = { move: { to: name, replaces: overwrite } };
      const { left_out: _, ...entry } = await describe(c, id, place, operation, name);
      return entry;
    },

    copyFile: async ({ params: { id }, body: { overwrite, recursive, to, to_base64, ...place } }, c) => {
      const name = toTarget(place, { path: to, path_base64: to_base64 });
      return await describe(c, id, place, { copy: { to: name, replaces: overwrite, recursive } }, name);
    },

    changeFile: async ({ params: { id }, body }, c) => {
      const { mode, owner, modified_at, attributes, ...place } = body;
      const change = {
        ...toMode(mode),
        attributes: toAttributes(attributes),
        ...(owner !== undefined && { owner }),
        ...(modified_at !== undefined && { mtimeUs: Date.parse(modified_at) * 1000 }),
      };
      const { left_out: _, ...entry } = await describe(c, id, place, { change });
      return entry;
    },

    removeFiles: async ({ params: { id }, query: { recursive, ...place } }, c) => {
      const { count } = await call(c, id, place, { remove: { recursive } });
      return { removed: count };
    },
  } satisfies Partial<Handlers>;
}

type Path = Pick<Place, 'path' | 'path_base64'>;

/** The bytes of the path, of which a request has one form. AppError invalid_argument. */
export function toFilePath(path: Path): Buffer {
  refuseProblems([findProblem(path, 'path')]);
  return toBytes(path);
}

/** The bytes of the second path of a request. AppError invalid_argument with what is wrong with either. */
function toTarget(path: Path, to: Path): Buffer {
  refuseProblems([findProblem(path, 'path'), findProblem(to, 'to')]);
  return toBytes(to);
}

function findProblem(given: Path, name: string): string | undefined {
  const { path, path_base64: base64 } = given;
  if (path === undefined && base64 === undefined)
    return `${name} is missing; give an absolute path of the guest`;
  if (path !== undefined && base64 !== undefined)
    return `${name} and ${name}_base64 exclude each other; send one of them`;
  const bytes = toBytes(given);
  return bytes[0] === 0x2f && !bytes.includes(0)
    ? undefined
    : `${name}_base64 must be the bytes of an absolute path of the guest`;
}

function toBytes({ path, path_base64: base64 = '' }: Path): Buffer {
  return path === undefined ? Buffer.from(base64, 'base64') : Buffer.from(path);
}

function refuseProblems(problems: readonly (string | undefined)[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new AppError('invalid_argument', found.join('; '));
}

export function toPlace(place: Place) {
  return { path: toFilePath(place), root: Buffer.from(place.root ?? ''), user: place.user ?? '' };
}

function toMode(mode: string | undefined): { readonly mode?: number } {
  return mode === undefined ? {} : { mode: Number.parseInt(mode, 8) };
}

function toAttributes(attributes: Readonly<Record<string, string | null>> | undefined): FileAttributeInput[] {
  return Object.entries(attributes ?? {}).map(([name, value]) => ({
    name: Buffer.from(name),
    ...(value !== null && { value: Buffer.from(value) }),
  }));
}

function expectEntry(entry: FileDescription | undefined): FileDescription {
  if (entry !== undefined) return entry;
  throw new AppError('guest_unreachable', 'the guest agent gave no description of the file');
}

function toEntry(entry: FileDescription, path: Buffer) {
  const { type, sizeBytes, mode, uid, gid, user, group, links, target, modifiedAtMs } = entry;
  const { version, attributes } = entry;
  const bare = path.length > 1 && path.at(-1) === 0x2f ? path.subarray(0, -1) : path;
  return {
    name: bare.subarray(bare.lastIndexOf(0x2f) + 1).toString(),
    path: path.toString(),
    ...(!isUtf8(path) && { path_base64: path.toString('base64') }),
    type,
    size_bytes: sizeBytes,
    mode: mode.toString(8).padStart(4, '0'),
    uid,
    gid,
    ...(user !== undefined && { user }),
    ...(group !== undefined && { group }),
    modified_at: new Date(modifiedAtMs).toISOString(),
    links,
    ...(target !== undefined && { target: target.toString() }),
    ...(target !== undefined && !isUtf8(target) && { target_base64: target.toString('base64') }),
    ...(attributes !== undefined && { attributes: Object.fromEntries(attributes) }),
    etag: `"${version}"`,
  };
}

function join(directory: Buffer, path: Buffer): Buffer {
  const slash = directory.at(-1) === 0x2f ? '' : '/';
  return Buffer.concat([directory, Buffer.from(slash), path]);
}

function contentHeaders({ entry, sizeBytes }: ReadFile) {
  return {
    'Content-Type': 'application/octet-stream',
    ETag: `"${entry.version}"`,
    'Last-Modified': new Date(entry.modifiedAtMs).toUTCString(),
    ...(sizeBytes !== undefined && { 'Accept-Ranges': 'bytes' }),
  };
}

function lengthOf({ contentBytes }: ReadFile) {
  return contentBytes === undefined ? {} : { 'Content-Length': String(contentBytes) };
}

const MAX_ETAGS = 64;
const ETAGS = /^\s*(?:W\/)?"[^"]*"\s*(?:,\s*(?:W\/)?"[^"]*"\s*)*$/;
const RANGE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/;

/** Undefined without the header; `*` is any existing file. */
type ETags = readonly string[] | undefined;

type Conditions = { readonly ifMatch: ETags; readonly ifNoneMatch: ETags };

/** AppError invalid_argument. ETags without their quotes; weak ones, which never match strongly, keep their `W/`. */
function readConditions(c: HttpContext): Conditions {
  return { ifMatch: readETags(c, 'if-match'), ifNoneMatch: readETags(c, 'if-none-match') };
}

function readETags(c: HttpContext, name: string): ETags {
  const value = headerOf(c, name);
  if (value === undefined || value.trim() === '') return undefined;
  if (value.trim() === '*') return ['*'];
  const tags = ETAGS.test(value) ? value.split(',').map((tag) => tag.trim().replaceAll('"', '')) : [];
  if (tags.length > 0 && tags.length <= MAX_ETAGS) return tags;
  throw new AppError(
    'invalid_argument',
    `header ${name} must be * or at most ${MAX_ETAGS} ETags in quotes, got ${value.slice(0, 80)}`,
  );
}

/** Whether an existing file with this ETag matches, by the weak comparison of If-None-Match. */
function matchesWeakly(tags: ETags, etag: string): boolean {
  return tags?.some((tag) => tag === '*' || tag.replace(/^W\//, '') === etag) === true;
}

function matchesStrongly(tags: ETags, etag: string): boolean {
  return tags?.some((tag) => tag === '*' || tag === etag) === true;
}

type Range = { readonly first: number; readonly last?: number } | { readonly lastBytes: number };

/** The requested range; undefined without one, and for several or an invalid one, which RFC 9110 permits to ignore. */
function readRange(c: HttpContext): Range | undefined {
  const [, first, last] = RANGE.exec(headerOf(c, 'range') ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') return { lastBytes: Number(last) };
  if (last !== '' && Number(last) < Number(first)) return undefined;
  return { first: Number(first), ...(last !== '' && { last: Number(last) }) };
}

/** Whether If-Range permits a part: absent, or exactly this ETag. */
function permitsRange(c: HttpContext, etag: string): boolean {
  const value = headerOf(c, 'if-range');
  return value === undefined || value.trim() === `"${etag}"`;
}
