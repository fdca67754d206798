// The ingress before servers on loopback, which stand for those in guests.
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  request as send,
} from 'node:http';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import type { Test } from 'tap';
import { Certificate } from '../../host-agent/src/http/index.ts';
import {
  Access,
  Addresses,
  Gateway,
  IngressServer,
  type PortHost,
  type PortStream,
  RateLimits,
  type SandboxPorts,
  type Sought,
} from '../../host-agent/src/ingress/index.ts';
import { LinkRegistry, type Principal } from '../../host-agent/src/keys/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import type { Issued } from './certificates.ts';
import { type Keyring, openKeyring } from './keyed.ts';

/** A sandbox whose ports lead to ports of this host. */
export class FakeSandbox implements SandboxPorts {
  readonly id = newId('sbx');
  readonly ports = new Map<
    number,
    { readonly to: number; access: 'public' | 'private'; host?: 'localhost' }
  >();
  readonly streams = new Set<Socket>();
  name: string | undefined;
  tenant: string | undefined;
  connects = 0;

  access(port: number): 'public' | 'private' | undefined {
    return this.ports.get(port)?.access;
  }

  hostHeader(port: number): 'sent' | 'localhost' {
    return this.ports.get(port)?.host ?? 'sent';
  }

  async connectPort(port: number): Promise<PortStream> {
    this.connects += 1;
    const to = this.ports.get(port)?.to ?? 0;
    return await new Promise((resolve, reject) => {
      const socket = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
      socket.once('error', () => reject(new AppError('upstream', `nothing listens on port ${port}`)));
      socket.once('connect', () => {
        socket.removeAllListeners('error');
        this.streams.add(socket);
        socket.once('close', () => this.streams.delete(socket));
        resolve(Object.assign(socket, { reset: () => void socket.resetAndDestroy() }));
      });
    });
  }
}

export class FakeHost implements PortHost {
  readonly sandboxes: FakeSandbox[] = [];

  find(principal: Principal, sought: Sought): FakeSandbox | undefined {
    const found = this.sandboxes.find((each) =>
      'id' in sought ? each.id === sought.id : each.name === sought.name && each.tenant === undefined,
    );
    const tenant = principal.kind === 'key' ? principal.tenant : undefined;
    return tenant === undefined || tenant === found?.tenant ? found : undefined;
  }
}

export type Served = {
  readonly host: FakeHost;
  readonly keyring: Keyring;
  readonly links: LinkRegistry;
  readonly addresses: Addresses;
  readonly lines: Record<string, unknown>[];
  readonly ended: { readonly status: number; readonly isUpgrade: boolean }[];
  readonly server: IngressServer;
  readonly port: number;
  /** A new sandbox with its port 3000 at that port of this host. */
  add(to: number, access?: 'public' | 'private'): FakeSandbox;
  /** The Host header of its port 3000. */
  hostOf(sandbox: FakeSandbox, port?: number): string;
};

export async function serveIngress(
  t: Test,
  {
    issued,
    idleMs,
    domain = 'localhost',
    maxConnections,
    silentMs,
    slowReaderMs,
    rateLimits,
  }: {
    readonly issued?: Issued;
    readonly idleMs?: number;
    readonly domain?: string;
    readonly maxConnections?: number;
    readonly silentMs?: number;
    readonly slowReaderMs?: number;
    readonly rateLimits?: { readonly clientPerS?: number; readonly sandboxPerS?: number };
  } = {},
): Promise<Served> {
  const host = new FakeHost();
  const keyring = await openKeyring(t);
  const links = new LinkRegistry(keyring.store, (id) =>
    keyring.registry.isStillValid({ kind: 'key', id, key: '' }),
  );
  const lines: Record<string, unknown>[] = [];
  const ended: Served['ended'] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const scheme = issued === undefined ? 'http' : 'https';
  const addresses = new Addresses({ scheme, domain });
  const gateway = new Gateway({
    addresses,
    access: new Access(host, keyring.authenticator, links),
    log,
    rateLimits: new RateLimits({ clientPerS: 0, sandboxPerS: 0, ...rateLimits }),
    logsAccess: true,
    onEnd: (each) => void ended.push(each),
    checkMs: 50,
    ...(idleMs !== undefined && { idleMs }),
  });
  const certificate = issued && new Certificate(issued, log, 100);
  const server = new IngressServer({
    gateway,
    log,
    certificate,
    ...(maxConnections !== undefined && { maxConnections }),
    ...(silentMs !== undefined && { silentMs }),
    ...(slowReaderMs !== undefined && { slowReaderMs }),
  });
  t.teardown(() => server.close());
  const address = await server.listen({ host: '127.0.0.1', port: 0 });
  const port = 'port' in address ? address.port : 0;
  return {
    host,
    keyring,
    links,
    addresses,
    lines,
    ended,
    server,
    port,
    add: (to, access = 'private') => {
      const sandbox = new FakeSandbox();
      sandbox.ports.set(3000, { to, access });
      host.sandboxes.push(sandbox);
      return sandbox;
    },
    hostOf: (sandbox, at = 3000) => `${at}-${sandbox.id.replace('_', '-')}.${domain}:${port}`,
  };
}

/** Resolves with its port. */
export async function serveGuest(t: Test, listener: RequestListener | Server): Promise<number> {
  const server = typeof listener === 'function' ? createServer(listener) : listener;
  t.teardown(() => server.closeAllConnections());
  return await listen(t, server);
}

/** A server that gives each connection to `serve`. */
export async function serveRaw(t: Test, serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket);
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return await listen(t, server);
}

async function listen(t: Test, server: ReturnType<typeof createTcpServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => void server.close());
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Sends bytes and resolves with all that comes back until the connection ends, or `isDone` holds. */
export function exchangeRaw(
  port: number,
  text: string,
  isDone: (received: string) => boolean = () => false,
): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    let received = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (isDone(received)) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(received));
    socket.write(text);
  });
}

export type Asked = {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly path?: string;
};
export type Answered = {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
};

export function ask(
  port: number,
  host: string,
  { method = 'GET', headers = {}, path = '/' }: Asked = {},
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const request = send({ port, host: '127.0.0.1', method, path, headers: { host, ...headers } });
    request.on('error', reject);
    request.on('response', (response) => {
      const { statusCode = 0, headers } = response;
      text(response).then((body) => resolve({ status: statusCode, headers, body }), reject);
    });
    request.end();
  });
}
