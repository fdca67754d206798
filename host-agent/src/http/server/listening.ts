// Where the server is reached: an address of TCP, or a socket in the file system whose owner and mode say who may connect.
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, unlinkSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';

export type TcpAddress = { readonly host: string; readonly port: number };
export type SocketPath = {
  readonly path: string;
  readonly mode?: number;
  /** `name|uid[:group|gid]` of the host. */
  readonly owner?: string;
};

/** Resolves with the address in use. AppError conflict says why it cannot be had. */
export async function listenOn(
  server: Server,
  address: TcpAddress | SocketPath,
): Promise<TcpAddress | SocketPath> {
  if (!('path' in address)) {
    await bind(
      server,
      address,
      `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`,
    );
    const bound = server.address();
    if (typeof bound !== 'object' || bound === null) throw new Error('the server has no address');
    return { host: bound.address, port: bound.port };
  }
  const { path, mode = 0o600, owner } = address;
  const ids = owner === undefined ? undefined : findOwner(owner);
  await removeStale(path);
  // Nobody else can connect to it before it has its mode.
  const before = process.umask(0o177);
  try {
    await bind(server, { path }, path);
  } finally {
    process.umask(before);
  }
  try {
    if (ids !== undefined) chownSync(path, ids.uid, ids.gid);
    chmodSync(path, mode);
  } catch (cause) {
    throw new AppError('conflict', `cannot give ${path} its owner and mode: ${toError(cause).message}`, {
      cause,
    });
  }
  return address;
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

/** What a daemon left that did not stop in order. AppError conflict for anything that somebody may need. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket())
    throw new AppError('conflict', `cannot listen on ${path}: there is something else; choose another path`);
  const isServed = await new Promise<boolean>((resolve) => {
    const client = connect({ path });
    client.once('connect', () => resolve(true));
    client.once('error', (error) => resolve(errnoOf(error) !== 'ECONNREFUSED'));
    client.once('close', () => client.destroy());
    client.once('connect', () => client.destroy());
  });
  if (isServed)
    throw new AppError('conflict', `cannot listen on ${path}: somebody listens there; choose another path`);
  unlinkSync(path);
}

/** By the users and groups that the host knows. AppError conflict. */
function findOwner(owner: string): { uid: number; gid: number } {
  const [user = '', group] = owner.split(':');
  const [uid, primary] = lookUp('passwd', user);
  const gid = group === undefined ? primary : lookUp('group', group)[0];
  return { uid, gid: gid ?? uid };
}

/** Its number, and that of a user's own group. */
function lookUp(database: 'passwd' | 'group', name: string): [number, number | undefined] {
  try {
    const line = execFileSync('getent', [database, name], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const fields = line.split(':');
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
      ? 'its directory does not exist, or cannot be written; choose another path with --listen'
      : 'permission denied; choose a port above 1023 with --listen, or run as root',
    ENOTFOUND: 'no such host name; choose an address with --listen',
  };
  const reason = known[errnoOf(error) ?? ''] ?? toError(error).message;
  return new AppError('conflict', `cannot listen on ${name}: ${reason}`, { stage: 'listen', cause: error });
}
