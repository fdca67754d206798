// envd's filesystem service, by the files routes of the REST interface. As in envd, root does the work, and the user of
// a request decides where relative paths begin and who owns what is new.
import { posix } from 'node:path';
import { ApiError, ConflictError, type FileEntry, NotFoundError } from '@sandboxd/client';
import { z } from 'zod';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import type { EnvdCall } from './call.ts';
import { ConnectError } from './connect-protocol.ts';

const path = z.string().default('');
export const filesystemRequests = {
  Stat: z.object({ path }),
  MakeDir: z.object({ path }),
  Move: z.object({ source: path, destination: path }),
  ListDir: z.object({ path, depth: z.int().min(0).max(256).default(1) }),
  Remove: z.object({ path }),
};
type Request<N extends keyof typeof filesystemRequests> = z.output<(typeof filesystemRequests)[N]>;

/** Of the extended attributes that hold metadata of files. */
export const METADATA_PREFIX = 'e2b.';
/** Of one list, as JSON. The REST interface has pages; E2B has none. */
const MAX_LIST_CHARS = 16 * 1024 * 1024;
/** Lists above that have slots. */
const SMALL_LIST_CHARS = 1024 * 1024;

export function largeLists(): ConcurrencyLimit {
  return new ConcurrencyLimit({ what: 'large lists of files in work', max: 8, maxPerClient: 2 });
}

export async function stat(call: EnvdCall, request: Request<'Stat'>): Promise<object> {
  return { entry: await describe(call, await call.path(request.path)) };
}

export async function makeDir(call: EnvdCall, request: Request<'MakeDir'>): Promise<object> {
  const wanted = await call.path(request.path);
  try {
    await makeDirectories(call, wanted);
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    const { type } = await call.requests.call('statFile', { params: call.params, query: { path: wanted } });
    if (type === 'directory') throw new ConnectError('already_exists', `directory already exists: ${wanted}`);
    throw new ConnectError('invalid_argument', `path already exists but it is not a directory: ${wanted}`);
  }
  return { entry: await describe(call, wanted) };
}

export async function move(call: EnvdCall, { source, destination }: Request<'Move'>): Promise<object> {
  const [from, to] = [await call.path(source), await call.path(destination)];
  await lstat(call, from);
  await ensureParents(call, to);
  await call.requests.call('moveFile', { params: call.params, body: { path: from, to, overwrite: true } });
  return { entry: await describe(call, to) };
}

export async function listDir(
  call: EnvdCall,
  { path, depth }: Request<'ListDir'>,
  large: ConcurrencyLimit,
): Promise<object> {
  const directory = await call.path(path);
  const { type } = await call.requests.call('statFile', { params: call.params, query: { path: directory } });
  if (type !== 'directory')
    throw new ConnectError('invalid_argument', `path is not a directory: ${directory}`);
  const entries: object[] = [];
  let chars = 0;
  let cursor: string | undefined;
  do {
    const query = {
      path: directory,
      depth: depth || 1,
      with_attributes: 'true',
      ...(cursor !== undefined && { cursor }),
    };
    const page = await call.requests.call('listFiles', { params: call.params, query });
    const before = chars;
    for (const entry of page.entries) {
      const shown = await withTarget(call, entry);
      chars += JSON.stringify(shown).length;
      entries.push(shown);
    }
    if (chars > MAX_LIST_CHARS)
      throw new ConnectError(
        'resource_exhausted',
        `the list has more than ${MAX_LIST_CHARS} characters; list with a smaller depth, or parts of the directory`,
      );
    if (before <= SMALL_LIST_CHARS && chars > SMALL_LIST_CHARS) call.occupy(large);
    cursor = page.entries.length === 0 ? undefined : page.next_cursor;
  } while (cursor !== undefined);
  return { entries };
}

export async function remove(call: EnvdCall, request: Request<'Remove'>): Promise<object> {
  const target = await call.path(request.path);
  try {
    await call.requests.call('removeFiles', {
      params: call.params,
      query: { path: target, recursive: 'true' },
    });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
  return {};
}

/** Makes what is missing of the path of a file, for the user of the request. */
export async function ensureParents(call: EnvdCall, path: string): Promise<void> {
  const parent = posix.dirname(path);
  if (await exists(call, parent)) return;
  await makeDirectories(call, parent).catch((error: unknown) => {
    if (!(error instanceof ConflictError)) throw error;
  });
}

export async function giveToUser(call: EnvdCall, path: string): Promise<void> {
  const { name } = await call.user();
  // Root owns what it makes.
  if (name === 'root') return;
  const owner = `${name}:${name}`;
  const change = (whose: string) =>
    call.lasting.call('changeFile', { params: call.params, body: { path, owner: whose } });
  await change(owner).catch((error: unknown) => {
    // Not every user has a group of the same name.
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    return change(name);
  });
}

export type FileCall = Pick<EnvdCall, 'params' | 'requests'>;

export async function describe(call: FileCall, path: string): Promise<object> {
  return await withTarget(call, await lstat(call, path));
}

async function lstat(call: FileCall, path: string): Promise<FileEntry> {
  try {
    return await call.requests.call('statFile', {
      params: call.params,
      query: { path, follow: 'false', with_attributes: 'true' },
    });
  } catch (error) {
    if (error instanceof NotFoundError) throw new ConnectError('not_found', `path not found: ${path}`);
    throw error;
  }
}

async function exists(call: EnvdCall, path: string): Promise<boolean> {
  try {
    await call.requests.call('statFile', { params: call.params, query: { path } });
    return true;
  } catch (error) {
    if (error instanceof NotFoundError) return false;
    throw error;
  }
}

/** AppError conflict if it exists. */
async function makeDirectories(call: EnvdCall, path: string): Promise<void> {
  const missing: string[] = [];
  for (let at = posix.dirname(path); at !== '/' && !(await exists(call, at)); at = posix.dirname(at))
    missing.unshift(at);
  await call.requests.call('makeDirectory', { params: call.params, body: { path } });
  for (const made of [...missing, path]) await giveToUser(call, made);
}

/** A link has type and mode of what it leads to, and its own size and permissions. */
async function withTarget(call: FileCall, entry: FileEntry): Promise<object> {
  if (entry.type !== 'symlink') return toEntryInfo(entry);
  const query = { path: entry.path };
  const target = await call.requests
    .call('statFile', { params: call.params, query })
    .catch((error: unknown) => {
      if (error instanceof ApiError) return undefined;
      throw error;
    });
  return toEntryInfo(entry, target);
}

const TYPES: Readonly<Record<string, string>> = { file: 'FILE_TYPE_FILE', directory: 'FILE_TYPE_DIRECTORY' };
const LETTERS: Readonly<Record<FileEntry['type'], string>> = {
  file: '-',
  directory: 'd',
  symlink: 'L',
  fifo: 'p',
  socket: 'S',
  'character-device': 'D',
  'block-device': 'D',
};

function toEntryInfo(entry: FileEntry, target?: FileEntry): object {
  const { name, path, size_bytes, user, group, uid, gid, modified_at, type } = entry;
  const isLink = type === 'symlink';
  const shown = isLink ? target : entry;
  const resolved = target === undefined ? path : posix.resolve(posix.dirname(path), entry.target ?? '');
  return {
    name,
    path,
    size: String(size_bytes),
    permissions: `${LETTERS[type]}${toRights(Number.parseInt(entry.mode, 8))}`,
    owner: user ?? String(uid),
    group: group ?? String(gid),
    modifiedTime: modified_at,
    ...(shown && { mode: Number.parseInt(shown.mode, 8) & 0o777 }),
    ...(shown && TYPES[shown.type] !== undefined && { type: TYPES[shown.type] }),
    ...(isLink && { symlinkTarget: resolved }),
    ...toMetadata(entry),
  };
}

/** Of a file that the SDKs or a program of the guest gave some. */
function toMetadata({ attributes = {} }: FileEntry): {
  readonly metadata?: Readonly<Record<string, string>>;
} {
  const found = Object.entries(attributes).filter(
    ([name]) => name.startsWith(METADATA_PREFIX) && name !== METADATA_PREFIX,
  );
  const keys = found.map(([name, value]) => [name.slice(METADATA_PREFIX.length), value] as const);
  return keys.length === 0 ? {} : { metadata: Object.fromEntries(keys) };
}

function toRights(mode: number): string {
  return [6, 3, 0].map((shift) => RIGHTS[(mode >> shift) & 7] ?? '---').join('');
}

const RIGHTS = ['---', '--x', '-w-', '-wx', 'r--', 'r-x', 'rw-', 'rwx'];
