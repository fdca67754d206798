// The listener of the ingress: HTTP/1.1 and HTTP/2 on one address, with the limits of connections that the API has.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_HEAD_BYTES, MAX_HEADERS } from '@sandboxd/api';
import type { Logger } from 'pino';
import { HttpError } from '../http/errors.ts';
import { AcceptGate, nameClients } from '../http/server/accept-gate.ts';
import type { Certificate } from '../http/server/certificate.ts';
import { Connections, Handshakes } from '../http/server/connections.ts';
import { DisconnectDetector } from '../http/server/disconnect-detector.ts';
import {
  createNodeServer,
  type Listening,
  listenOn,
  type SocketPath,
  type TcpAddress,
} from '../http/server/listening.ts';
import {
  type ConnectionEvent,
  coalesceChunks,
  deferConnections,
  upgradeRequests,
} from '../http/server/node-internals.ts';
import { LINGER_MS, lingerAfter, refuse, toHttpError } from '../http/server/responses.ts';
import { type Gateway, isWebSocket } from './gateway.ts';
import { Http2Sessions } from './http2-sessions.ts';

const DEFAULT_MAX_CONNECTIONS = 4096;
const SLOW_READER_MS = 10_000;
const HANDSHAKE_SHARE = 1 / 4;
/** How long a connection may be silent before its first request, and one of HTTP/2 between two. */
const SILENT_MS = 75_000;
const MAX_STREAMS = 100;
/** Of a request body in HTTP/2 that the guest has not read. Node bounds those of a connection by this alone. */
const WINDOW_BYTES = 64 * 1024;
/** What every connection of HTTP/2 begins with. */
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** What answers requests: the gateway, or a front before it. */
export type ServedGateway = Pick<Gateway, 'serve' | 'serveUpgrade' | 'close'> & {
  readonly open: Pick<Gateway['open'], 'idle'>;
};

export type IngressServerOptions = {
  readonly gateway: ServedGateway;
  readonly log: Logger;
  readonly certificate: Certificate | undefined;
  readonly maxConnections?: number;
  readonly clientShare?: { readonly connections: number; readonly peersProgram: string };
  readonly headersTimeoutMs?: number;
  readonly silentMs?: number;
  /** How long an idle connection is kept between two requests. */
  readonly keepAliveMs?: number;
  /** Which requests are upgrades; default: WebSockets. */
  readonly isUpgrade?: (request: IncomingMessage) => boolean;
  /** Other requests that take their connection, so that no byte behind their head is parsed. */
  readonly takesConnection?: (request: IncomingMessage) => boolean;
  /** Absent: HTTP/2 and HTTP/1.1. */
  readonly protocols?: readonly string[];
  /** A client that reads nothing of its answers for this long may lose its connection to a new one. */
  readonly slowReaderMs?: number;
};

export class IngressServer {
  readonly #server: Server;
  readonly #http2: Http2Sessions;
  readonly #gateway: ServedGateway;
  readonly #certificate: Certificate | undefined;
  readonly #log: Logger;
  readonly #silentMs: number;
  readonly #connections: Connections;
  readonly #handshakes: Handshakes;
  readonly #gate: AcceptGate;
  readonly #upgraded = new Set<Duplex>();
  /** Answers of HTTP/1.1 that are not sent yet. */
  readonly #answers = new WeakMap<Duplex, Set<ServerResponse>>();
  /** Connections whose protocol is not known yet. */
  readonly #silent = new Set<Duplex>();
  #listening: Listening | undefined;

  constructor(options: IngressServerOptions) {
    const { gateway, log, certificate, clientShare, maxConnections = DEFAULT_MAX_CONNECTIONS } = options;
    this.#gateway = gateway;
    this.#certificate = certificate;
    this.#log = log;
    this.#connections = new Connections(
      maxConnections,
      clientShare?.connections ?? maxConnections,
      options.slowReaderMs ?? SLOW_READER_MS,
    );
    this.#handshakes = new Handshakes(Math.ceil(maxConnections * HANDSHAKE_SHARE));
    this.#gate = new AcceptGate(this.#connections, clientShare && nameClients(clientShare.peersProgram), log);
    this.#server = createNodeServer(certificate, {
      headersTimeoutMs: options.headersTimeoutMs,
      isUpgrade: options.isUpgrade ?? isWebSocket,
      protocols: options.protocols ?? ['h2', 'http/1.1'],
      keepAliveMs: options.keepAliveMs,
    });
    this.#silentMs = options.silentMs ?? SILENT_MS;
    this.#http2 = new Http2Sessions(this.#createHttp2(), this.#connections, this.#silentMs);
    this.#serveHttp1();
    const event = certificate === undefined ? 'connection' : 'secureConnection';
    this.#detectDisconnects(event);
    const { takesConnection } = options;
    if (takesConnection !== undefined)
      this.#server.on(event, (socket: Socket) => upgradeRequests(socket, takesConnection));
    this.#chooseProtocol(event);
    this.#gate.guard(this.#server, event);
    if (certificate === undefined) return;
    this.#server.on('connection', (socket: Socket) => this.#handshakes.begin(socket));
    this.#server.on(event, (socket: Socket) => this.#handshakes.end(socket));
  }

  /** Of clients. */
  get connectionCount(): number {
    return this.#connections.count;
  }

  /** AppError conflict if the address is unusable. */
  async listen(address: TcpAddress | SocketPath): Promise<TcpAddress | SocketPath> {
    this.#listening = await listenOn(this.#server, address);
    this.#server.on('error', (err) => this.#log.error({ err }, 'ingress failed'));
    return this.#listening.address;
  }

  /** Waits for running requests, up to that time, then ends all. */
  async close(timeoutMs = 0): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.#listening?.release();
    const done = new AbortController();
    const timer = sleep(timeoutMs, undefined, { signal: done.signal }).catch(() => undefined);
    await Promise.race([this.#gateway.open.idle(), timer]);
    done.abort();
    this.#gateway.close();
    this.#http2.close();
    for (const socket of [...this.#upgraded, ...this.#silent]) socket.destroy();
    this.#server.closeAllConnections();
    this.#handshakes.close();
    this.#gate.close();
    this.#certificate?.close();
    await closed;
  }

  #serveHttp1(): void {
    const serve = (request: IncomingMessage, response: ServerResponse): void => {
      if (!this.#connections.track(request, response)) return;
      this.#await(request.socket, response);
      coalesceChunks(request);
      lingerAfter(request, response, LINGER_MS);
      void this.#gateway.serve(request, response);
    };
    this.#server.on('request', serve);
    // The guest decides whether to continue.
    this.#server.on('checkContinue', serve);
    this.#server.on('checkExpectation', serve);
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      if (!this.#isFree(socket)) return;
      this.#hold(socket);
      this.#gateway.serveUpgrade(request, head).catch((err: unknown) => {
        this.#log.error({ err }, 'ingress upgrade failed');
        socket.destroy();
      });
    });
    this.#server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
      if (!this.#isFree(socket)) return;
      socket.on('error', () => socket.destroy());
      refuse(socket, new HttpError('method_not_allowed', 'CONNECT is not allowed; this is not a proxy'));
    });
    this.#server.on('clientError', (error, socket) => {
      const failure = toHttpError(error);
      const isAnswering = 'bytesWritten' in socket && Reflect.get(socket, '_httpMessage')?.headersSent;
      if (failure === undefined || isAnswering) socket.destroy();
      else refuse(socket, failure);
    });
  }

  /** Of HTTP/1.1, where a client may end its side and still wait for the answer. */
  #detectDisconnects(event: ConnectionEvent): void {
    const detector = new DisconnectDetector();
    this.#server.on(event, (socket: Socket) => {
      socket.once('end', () => detector.watch(socket, () => this.#probe(socket)));
    });
  }

  /** The host of a client that left answers with a reset. An answer that has begun can have no bytes of ours. */
  #probe(socket: Socket): void {
    const [answer] = this.#answers.get(socket) ?? [];
    if (answer !== undefined && !answer.headersSent && answer.req.httpVersion === '1.1')
      answer.writeContinue();
  }

  #await(socket: Socket, response: ServerResponse): void {
    const answers = this.#answers.get(socket) ?? new Set();
    this.#answers.set(socket, answers);
    answers.add(response);
    response.once('close', () => answers.delete(response));
  }

  /**
   * Closes a connection that leaves HTTP/1.1 before the answers to its earlier requests: Node no longer tells these
   * when to continue, and the next bytes would be in the midst of them.
   */
  #isFree(socket: Duplex): boolean {
    const answers = this.#answers.get(socket);
    if (answers === undefined || answers.size === 0) return true;
    // Nor does it tell all of them that the connection is closed.
    socket.once('close', () => {
      for (const answer of answers) answer.emit('close');
    });
    socket.destroy();
    return false;
  }

  #hold(socket: Duplex): void {
    this.#connections.hijacked(socket);
    this.#upgraded.add(socket);
    if ('setTimeout' in socket) (socket as Socket).setTimeout(0);
    socket.once('close', () => this.#upgraded.delete(socket));
  }

  #createHttp2(): Http2Server {
    const server = createHttp2Server({
      maxHeaderListPairs: MAX_HEADERS,
      settings: {
        maxConcurrentStreams: MAX_STREAMS,
        maxHeaderListSize: MAX_HEAD_BYTES,
        initialWindowSize: WINDOW_BYTES,
        enablePush: false,
      },
    });
    const serve = (request: unknown, response: unknown): void => {
      coalesceChunks((request as { readonly stream: Duplex }).stream);
      // The classes of node:http2 have the interface of those of node:http.
      void this.#gateway.serve(request as IncomingMessage, response as ServerResponse);
    };
    server.on('request', serve);
    server.on('checkContinue', serve);
    server.on('sessionError', () => undefined);
    return server;
  }

  /** TLS names the protocol; without it the first bytes do. */
  #chooseProtocol(event: ConnectionEvent): void {
    deferConnections(this.#server, event, (socket, accept) => {
      const { alpnProtocol } = socket as { readonly alpnProtocol?: string | false };
      if (event === 'secureConnection') return alpnProtocol === 'h2' ? this.#http2.serve(socket) : accept();
      this.#silent.add(socket);
      const timer = setTimeout(() => socket.destroy(), this.#silentMs);
      const settle = (): void => {
        clearTimeout(timer);
        this.#silent.delete(socket);
        socket.off('readable', onReadable).off('end', onEnd);
      };
      const onEnd = (): void => void socket.destroy();
      let first = Buffer.alloc(0);
      const onReadable = (): void => {
        for (let chunk = socket.read(); chunk !== null; chunk = socket.read())
          first = Buffer.concat([first, chunk as Buffer]);
        const isEnded = socket.readableEnded || socket.destroyed;
        const text = first.toString('latin1', 0, PREFACE.length);
        if (!isEnded && PREFACE.startsWith(text) && text.length < PREFACE.length) return;
        settle();
        if (first.length > 0 && !isEnded) socket.unshift(first);
        // The listeners must not find the one for `readable`, which is removed with the next tick.
        setImmediate(() => (text === PREFACE ? this.#http2.serve(socket) : accept()));
      };
      socket.on('readable', onReadable).once('end', onEnd);
      socket.once('close', settle);
    });
  }
}
