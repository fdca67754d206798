// Where the server is reached: an address of TCP, or a socket in the file system whose owner and mode say who may
// connect.
import { randomBytes } from 'node:crypto';
import { constants, lstatSync, unlinkSync } from 'node:fs';
import { chmod, lchown, link, lstat, mkdtemp, open, rm, rmdir, unlink } from 'node:fs/promises';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import { type HeldDirectory, holdDirectory, pathOf } from '../../lib/held-path.ts';
import { runProgram } from '../../lib/programs.ts';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
const NO_DIRECTORY = 'its directory does not exist, or cannot be written; choose another path with --listen';

export type TcpAddress = { readonly host: string; readonly port: number };
export type SocketPath = {
  readonly path: string;
  readonly mode?: number;
  /** `name|uid[:group|gid]` of the host. */
  readonly owner?: string;
};

/** What a server listens on. */
export type Listening = {
  readonly address: TcpAddress | SocketPath;
  /**
   * Takes a socket out of the file system, so that no client finds it; the next daemon removes one that stays. Can be
   * called again.
   */
  release(): Promise<void>;
};

/** AppError conflict says why an address cannot be had. */
export async function listenOn(server: Server, address: TcpAddress | SocketPath): Promise<Listening> {
  if ('path' in address) return { address, release: await listenAt(server, address) };
  const { host, port } = address;
  await bind(server, address, `${host.includes(':') ? `[${host}]` : host}:${port}`);
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null) throw new Error('the server has no address');
  return { address: { host: bound.address, port: bound.port }, release: async () => undefined };
}

/** Resolves with what takes the socket away. */
async function listenAt(server: Server, wanted: SocketPath): Promise<() => Promise<void>> {
  const { path, mode = 0o600, owner } = wanted;
  const ids = owner === undefined ? undefined : await findOwner(owner);
  const directory = await holdOwnDirectory(path, ids?.uid);
  try {
    const place = `${directory.path}/${basename(path)}`;
    await removeStale(place, path);
    const made = await bindPrivately(server, directory, path);
    try {
      // Never in place of another one: who listens there would not know.
      await link(made.path, place);
      // By the name that nobody else reaches: the one in place may be another's by now.
      if (ids !== undefined) await lchown(made.path, ids.uid, ids.gid);
      await chmod(made.path, mode);
    } catch (cause) {
      server.close();
      const what =
        errnoOf(cause) === 'EEXIST'
          ? 'somebody else took its name'
          : `it has no owner and mode: ${toError(cause).message}`;
      throw new AppError('conflict', `cannot listen on ${path}: ${what}`, { cause });
    } finally {
      await made.remove();
    }
    const { ino } = await lstat(place);
    let isHeld = true;
    const release = async (): Promise<void> => {
      if (!isHeld) return;
      isHeld = false;
      const found = await lstat(place).catch(() => undefined);
      if (found?.ino === ino) await unlink(place).catch(() => undefined);
      await directory[Symbol.asyncDispose]();
    };
    server.once('close', () => void release());
    return release;
  } catch (error) {
    await directory[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Of a path. AppError conflict where others than root, this process and the socket's owner could put something in its
 * place.
 */
async function holdOwnDirectory(path: string, owner: number | undefined): Promise<HeldDirectory> {
  const trusted = owner === undefined ? [] : [owner];
  const directory = await holdDirectory(dirname(path), { trusted }).catch((error: unknown) => {
    const reason = errnoOf(error) === undefined ? toError(error).message : NO_DIRECTORY;
    throw new AppError('conflict', `cannot listen on ${path}: ${reason}`, { stage: 'listen', cause: error });
  });
  const { exposure } = directory;
  if (exposure === undefined) return directory;
  await directory[Symbol.asyncDispose]();
  const advice =
    'who does could answer in its place; choose a path whose directories are root’s or its owner’s alone';
  throw new AppError('conflict', `cannot listen on ${path}: it lies in ${exposure}: ${advice}`, {
    stage: 'listen',
  });
}

/** A socket in a directory that nobody else enters, beside the place where it shall be. */
async function bindPrivately(
  server: Server,
  { path: parent }: HeldDirectory,
  name: string,
): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const dir = await mkdtemp(`${parent}/.sandboxd-`).catch((error: unknown) => {
    throw explain(toError(error), name);
  });
  const held = await open(dir, O_DIRECTORY | O_NOFOLLOW);
  const path = join(pathOf(held), randomBytes(8).toString('hex'));
  const remove = async () => {
    await rm(path, { force: true });
    await held.close();
    await rmdir(dir).catch(() => undefined);
  };
  // Nobody else can connect to it before it has its mode.
  const before = process.umask(0o177);
  try {
    const { uid, mode } = await held.stat();
    if (uid !== process.geteuid?.() || (mode & 0o077) !== 0)
      throw new Error('somebody else took its directory');
    await bind(server, { path }, name);
    return { path, remove };
  } catch (error) {
    await remove();
    throw error;
  } finally {
    process.umask(before);
  }
}

function bind(server: Server, options: TcpAddress | { path: string }, name: string): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const onError = (error: Error) => reject(explain(error, name));
    server.once('error', onError);
    server.listen(options, () => {
      server.off('error', onError);
      resolve();
    });
  });
}

/**
 * What a daemon left that did not stop in order. AppError conflict for anything that somebody may need; `path` is for
 * its message.
 */
async function removeStale(place: string, path: string): Promise<void> {
  const found = lstatSync(place, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket())
    throw new AppError('conflict', `cannot listen on ${path}: there is something else; choose another path`);
  const isServed = await new Promise<boolean>((resolve) => {
    const client = connect({ path: place });
    client.once('connect', () => resolve(true));
    client.once('error', (error) => resolve(errnoOf(error) !== 'ECONNREFUSED'));
    client.once('close', () => client.destroy());
    client.once('connect', () => client.destroy());
  });
  if (isServed)
    throw new AppError('conflict', `cannot listen on ${path}: somebody listens there; choose another path`);
  unlinkSync(place);
}

/** By the users and groups that the host knows. AppError conflict. */
async function findOwner(owner: string): Promise<{ uid: number; gid: number }> {
  const [user = '', group] = owner.split(':');
  const [uid, primary] = await lookUp('passwd', user);
  const gid = group === undefined ? primary : (await lookUp('group', group))[0];
  return { uid, gid: gid ?? uid };
}

/** Its number, and that of a user's own group. */
async function lookUp(database: 'passwd' | 'group', name: string): Promise<[number, number | undefined]> {
  try {
    const { stdout } = await runProgram('getent', [database, name]);
    const fields = stdout.split(':');
    return [Number(fields[2]), database === 'passwd' ? Number(fields[3]) : undefined];
  } catch (cause) {
    if (/^\d{1,9}$/.test(name)) return [Number(name), undefined];
    const what = database === 'passwd' ? 'user' : 'group';
    throw new AppError('conflict', `the socket’s owner: this host has no ${what} ${JSON.stringify(name)}`, {
      cause,
    });
  }
}

function explain(error: Error, name: string): AppError {
  const known: Readonly<Record<string, string>> = {
    EADDRINUSE: 'address in use; stop what uses it, or choose another with --listen',
    EADDRNOTAVAIL: 'this machine has no such address; choose another with --listen',
    EACCES: name.startsWith('/')
      ? NO_DIRECTORY
      : 'permission denied; choose a port above 1023 with --listen, or run as root',
    ENOTFOUND: 'no such host name; choose an address with --listen',
  };
  const reason = known[errnoOf(error) ?? ''] ?? toError(error).message;
  return new AppError('conflict', `cannot listen on ${name}: ${reason}`, { stage: 'listen', cause: error });
}
