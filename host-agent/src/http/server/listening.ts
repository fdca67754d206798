// Node's server and its address: TCP, or a Unix socket whose owner and mode define who may connect.
import { randomBytes } from 'node:crypto';
import { constants, lstatSync, unlinkSync } from 'node:fs';
import { chmod, lchown, link, lstat, mkdtemp, open, rm, rmdir, unlink } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import { type HeldDirectory, holdDirectory, pathOf } from '../../lib/held-path.ts';
import { runProgram } from '../../lib/programs.ts';
import type { Certificate } from './certificate.ts';
import { isWebSocketRequest } from './hijack.ts';
import { allowHalfOpen } from './node-internals.ts';

const { O_DIRECTORY, O_NOFOLLOW } = constants;
const NO_DIRECTORY = 'its directory does not exist, or cannot be written; choose another path with --listen';

/** Time limit for the request line and headers (slowloris). */
const HEADERS_TIMEOUT_MS = 20_000;
/** Longer than the idle timeout of common client pools and proxies (60 s), so that they close first. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
/** First TCP keepalive probe of an idle connection. It detects clients that vanished. */
const TCP_PROBE_MS = 30_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;

export type TcpAddress = { readonly host: string; readonly port: number };
export type SocketPath = {
  readonly path: string;
  readonly mode?: number;
  /** `name|uid[:group|gid]` of the host. */
  readonly owner?: string;
};

/** An address in use. */
export type Listening = {
  readonly address: TcpAddress | SocketPath;
  /** Removes a Unix socket from the file system. Idempotent. The next daemon removes a stale socket. */
  release(): Promise<void>;
};

export type NodeServerOptions = {
  readonly headersTimeoutMs?: number | undefined;
  /** How long an idle connection is kept between two requests. */
  readonly keepAliveMs?: number | undefined;
  /** Which requests are upgrades; default: WebSockets on routes that have them. */
  readonly isUpgrade?: (request: IncomingMessage) => boolean;
  /** Protocols of TLS connections, in the order of preference. */
  readonly protocols?: readonly string[];
};

/** A server with our timeouts and limits that does not listen yet. Speaks TLS if there is a certificate. */
export function createNodeServer(
  certificate: Certificate | undefined,
  { headersTimeoutMs, isUpgrade, keepAliveMs, protocols = ['http/1.1'] }: NodeServerOptions = {},
): Server {
  const options = toNodeOptions(headersTimeoutMs, isUpgrade, keepAliveMs);
  const server =
    certificate === undefined ? createServer(options) : createTlsNodeServer(certificate, options, protocols);
  allowHalfOpen(server);
  // Beyond its own limit Node would drop headers silently; request-check.ts refuses them instead.
  server.maxHeadersCount = 0;
  return server;
}

function toNodeOptions(
  headersTimeoutMs = HEADERS_TIMEOUT_MS,
  isUpgrade = isWebSocketRequest,
  keepAliveMs = KEEP_ALIVE_TIMEOUT_MS,
): ServerOptions {
  return {
    // No time limit for a whole request, because uploads may be long. Bodies have an idle timeout instead.
    requestTimeout: 0,
    headersTimeout: headersTimeoutMs,
    maxHeaderSize: MAX_HEAD_BYTES,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: Math.min(5000, headersTimeoutMs),
    // request-check.ts checks it and responds with JSON.
    requireHostHeader: false,
    keepAlive: true,
    keepAliveInitialDelay: TCP_PROBE_MS,
    noDelay: true,
    shouldUpgradeCallback: isUpgrade,
  };
}

function createTlsNodeServer(
  certificate: Certificate,
  options: ServerOptions,
  protocols: readonly string[],
): Server {
  const server = createTlsServer({
    ...options,
    ...certificate.options,
    honorCipherOrder: true,
    requestCert: certificate.asksClients,
    rejectUnauthorized: certificate.asksClients,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    ALPNProtocols: [...protocols],
    allowHalfOpen: true,
  });
  certificate.watch((next) => server.setSecureContext(next));
  return server;
}

/** AppError conflict if the address is unusable. */
export async function listenOn(server: Server, address: TcpAddress | SocketPath): Promise<Listening> {
  if ('path' in address) return { address, release: await listenAt(server, address) };
  const { host, port } = address;
  await bind(server, address, `${host.includes(':') ? `[${host}]` : host}:${port}`);
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null) throw new Error('the server has no address');
  return { address: { host: bound.address, port: bound.port }, release: async () => undefined };
}

/** Resolves with the function that removes the socket. */
async function listenAt(server: Server, socket: SocketPath): Promise<() => Promise<void>> {
  const { path, mode = 0o600, owner } = socket;
  const ids = owner === undefined ? undefined : await findOwner(owner);
  const directory = await holdOwnDirectory(path, ids?.uid);
  try {
    const target = `${directory.path}/${basename(path)}`;
    await removeStale(target, path);
    const bound = await bindPrivately(server, directory, path);
    try {
      // link fails if the name exists, so it never replaces the socket of another process.
      await link(bound.path, target);
      // Uses the private path: the public name may belong to another process by now (TOCTOU).
      if (ids !== undefined) await lchown(bound.path, ids.uid, ids.gid);
      await chmod(bound.path, mode);
    } catch (cause) {
      server.close();
      const what =
        errnoOf(cause) === 'EEXIST'
          ? 'another process took its name'
          : `it has no owner and mode: ${toError(cause).message}`;
      throw new AppError('conflict', `cannot listen on ${path}: ${what}`, { cause });
    } finally {
      await bound.remove();
    }
    const { ino } = await lstat(target);
    let isHeld = true;
    const release = async (): Promise<void> => {
      if (!isHeld) return;
      isHeld = false;
      const found = await lstat(target).catch(() => undefined);
      if (found?.ino === ino) await unlink(target).catch(() => undefined);
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
 * Opens the parent directory. AppError conflict if users other than root, this process and the owner could replace the
 * socket.
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

/** Binds a socket in a private directory (mode 0700) next to its public name. */
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
  // No other user can connect before the socket has its final mode.
  const before = process.umask(0o177);
  try {
    const { uid, mode } = await held.stat();
    if (uid !== process.geteuid?.() || (mode & 0o077) !== 0)
      throw new Error('another process took its directory');
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

/** Removes the socket of a daemon that crashed. AppError conflict if the socket is in use or another file exists. */
async function removeStale(target: string, path: string): Promise<void> {
  const found = lstatSync(target, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket())
    throw new AppError('conflict', `cannot listen on ${path}: there is something else; choose another path`);
  const isServed = await new Promise<boolean>((resolve) => {
    const client = connect({ path: target });
    client.once('connect', () => resolve(true));
    client.once('error', (error) => resolve(errnoOf(error) !== 'ECONNREFUSED'));
    client.once('close', () => client.destroy());
    client.once('connect', () => client.destroy());
  });
  if (isServed)
    throw new AppError(
      'conflict',
      `cannot listen on ${path}: another process listens there; choose another path`,
    );
  unlinkSync(target);
}

/** Resolves `name|uid[:group|gid]` with the user database of the host. AppError conflict. */
async function findOwner(owner: string): Promise<{ uid: number; gid: number }> {
  const [user = '', group] = owner.split(':');
  const [uid, primary] = await lookUp('passwd', user);
  const gid = group === undefined ? primary : (await lookUp('group', group))[0];
  return { uid, gid: gid ?? uid };
}

/** The id of a user or group, and the primary group of a user. */
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
