// The HTTP server: connections, timeouts, checks before the app, malformed HTTP, and graceful shutdown.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { getRequestListener } from '@hono/node-server';
import { BODY_IDLE_MS } from '@sandboxd/api';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import type { Authenticator } from '../authentication.ts';
import type { HttpApp } from '../context.ts';
import { HttpError } from '../errors.ts';
import { type AuditSink, auditRefusal, newRequestId } from '../middleware.ts';
import { AcceptGate, nameClients } from './accept-gate.ts';
import type { Certificate } from './certificate.ts';
import { type ClientOf, nameClient } from './client-address.ts';
import { Connections, Handshakes } from './connections.ts';
import { DisconnectDetector, type PeerLookup } from './disconnect-detector.ts';
import { installHijack } from './hijack.ts';
import { createNodeServer, type Listening, listenOn, type SocketPath, type TcpAddress } from './listening.ts';
import { type ConnectionEvent, coalesceChunks } from './node-internals.ts';
import { type AllowedHost, Cors, findRefusal, HostNames } from './request-check.ts';
import {
  answerDirectly,
  LINGER_MS,
  lingerAfter,
  refuse,
  respond,
  sendKeepalive,
  toHttpError,
  toResponse,
} from './responses.ts';

/** Time for clients to receive the last frames of streams that a shutdown has ended. */
const LAST_FRAMES_MS = 2000;

const DEFAULT_MAX_CONNECTIONS = 1024;
const SLOW_READER_MS = 10_000;
/** Maximum number of connections in the TLS handshake, as a share of the maximum number of connections. */
const HANDSHAKE_SHARE = 1 / 4;

/** All that begin with a request. */
const REQUEST_EVENTS = ['request', 'checkContinue', 'checkExpectation', 'connect', 'upgrade'] as const;

export type HttpServerOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  /** The authenticator of the app. The server uses it before it reads a body on a hijacked connection. */
  readonly authenticator: Authenticator;
  /** The audit sink of the app. The server records the requests that it refuses itself. */
  readonly audit: AuditSink;
  /** Allowed hosts beside the default names. */
  readonly allowedHosts?: readonly AllowedHost[];
  /** Origins that may use the daemon with CORS, in the syntax of browsers. */
  readonly corsOrigins?: readonly string[];
  /** Absent: no TLS. */
  readonly certificate?: Certificate | undefined;
  readonly clientOf?: ClientOf;
  readonly maxConnections?: number;
  /** Limits of one client. Absent: one client may use all connections. */
  readonly clientShare?: {
    readonly connections: number;
    /** Path of native/peers.c. */
    readonly peersProgram: string;
  };
  /** A client that reads nothing of its response for this long may lose its connection to a new client. */
  readonly slowReaderMs?: number;
  /** Idle timeout of request bodies. */
  readonly bodyIdleMs?: number;
  readonly headersTimeoutMs?: number;
  /** Maximum time to read and discard the rest of a request after its response. */
  readonly lingerMs?: number;
  /** Finds which clients still have their connection open. */
  readonly readPeers?: () => Promise<PeerLookup>;
};

export class HttpServer {
  readonly #server: Server;
  readonly #event: ConnectionEvent;
  readonly #certificate: Certificate | undefined;
  readonly #log: Logger;
  readonly #audit: AuditSink;
  readonly #authenticator: Authenticator;
  readonly #names: HostNames;
  readonly #cors: Cors;
  readonly #lingerMs: number;
  readonly #connections: Connections;
  readonly #handshakes: Handshakes;
  readonly #gate: AcceptGate;
  readonly #open = new Set<ServerResponse>();
  readonly #hijacked = new Set<Duplex>();
  /** The latest response of each connection. */
  readonly #current = new WeakMap<Duplex, ServerResponse>();
  /** Connections with malformed HTTP. */
  readonly #malformed = new WeakSet<Duplex>();
  /** Aborts when open streams must send their last frame. */
  readonly #ending = new AbortController();
  #listening: Listening | undefined;
  #isDraining = false;
  #onIdle: () => void = () => {};

  constructor(options: HttpServerOptions) {
    const { log, certificate, clientShare } = options;
    const { maxConnections = DEFAULT_MAX_CONNECTIONS, slowReaderMs = SLOW_READER_MS } = options;
    this.#log = log;
    this.#audit = options.audit;
    this.#authenticator = options.authenticator;
    this.#certificate = certificate;
    this.#event = certificate === undefined ? 'connection' : 'secureConnection';
    this.#lingerMs = options.lingerMs ?? LINGER_MS;
    this.#names = new HostNames(options.allowedHosts ?? [], certificate === undefined ? 'http' : 'https');
    this.#cors = new Cors(options.corsOrigins ?? []);
    this.#connections = new Connections(
      maxConnections,
      clientShare?.connections ?? maxConnections,
      slowReaderMs,
    );
    this.#handshakes = new Handshakes(Math.ceil(maxConnections * HANDSHAKE_SHARE));
    this.#gate = new AcceptGate(this.#connections, clientShare && nameClients(clientShare.peersProgram), log);
    this.#server = createNodeServer(certificate, { headersTimeoutMs: options.headersTimeoutMs });
    for (const event of REQUEST_EVENTS)
      this.#server.on(event, (request: IncomingMessage) => nameClient(request, options.clientOf));
    this.#serveRequests(options);
    this.#refuseConnect();
    this.#server.on('clientError', (error, socket) => this.#onClientError(error, socket));
    this.#detectDisconnects(options.readPeers);
    this.#serveHijacked(options);
    // After all other listeners of the event, which see only admitted connections.
    this.#gate.guard(this.#server, this.#event);
    if (certificate !== undefined) this.#limitHandshakes();
  }

  #serveRequests({ app, log }: HttpServerOptions): void {
    const listener = getRequestListener(answerDirectly({ app, log, ending: this.#ending.signal }), {
      hostname: 'localhost',
      errorHandler: (error) => toResponse(error, log),
      autoCleanupIncoming: false, // it would reset a client that still sends after 64 MiB; see lingerAfter
    });
    this.#server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) this.#refuse(response, refusal);
      else if (!this.#cors.serve(request, response)) void listener(request, response);
    });
    // A refused client must not be asked for its body.
    this.#server.on('checkContinue', async (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const error = await this.#check(request, () => undefined);
      if (error !== undefined) return this.#refuse(response, error);
      this.#cors.serve(request, response);
      response.writeContinue();
      await listener(request, response);
    });
    this.#server.on('checkExpectation', async (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const message = `expectation ${JSON.stringify(request.headers.expect)} is not known; only 100-continue is`;
      this.#refuse(response, await this.#check(request, () => new HttpError('expectation_failed', message)));
    });
  }

  #refuseConnect(): void {
    this.#server.on('connect', async (request: IncomingMessage, socket: Duplex) => {
      const allow = { Allow: 'GET, HEAD, POST' };
      const message = 'CONNECT is not allowed; this is not a proxy';
      const error = await this.#check(request, () => new HttpError('method_not_allowed', message, allow));
      const requestId = newRequestId();
      auditRefusal(this.#audit, request, error, requestId);
      refuse(socket, error, requestId);
    });
  }

  #detectDisconnects(readPeers: HttpServerOptions['readPeers']): void {
    const detector = new DisconnectDetector(readPeers);
    this.#server.on(this.#event, (socket: Socket) => {
      socket.once('end', () => detector.watch(socket, () => this.#probe(socket)));
    });
  }

  #serveHijacked({ app, log, audit, bodyIdleMs = BODY_IDLE_MS }: HttpServerOptions): void {
    installHijack(this.#server, this.#event, {
      app,
      log,
      admit: (request) => this.#admit(request),
      audit,
      ending: this.#ending.signal,
      bodyIdleMs,
      lingerMs: this.#lingerMs,
      settled: (socket) => this.#settled(socket),
      onOpen: (socket) => {
        this.#hijacked.add(socket);
        this.#connections.hijacked(socket);
        socket.once('close', () => {
          this.#hijacked.delete(socket);
          // Node tells only one of the earlier responses.
          for (const response of this.#open)
            if (response.req.socket === socket && !response.closed) response.emit('close');
          this.#checkIdle();
        });
      },
    });
  }

  #limitHandshakes(): void {
    this.#server.on('connection', (socket: Socket) => this.#handshakes.begin(socket));
    this.#server.on(this.#event, (socket: Socket) => this.#handshakes.end(socket));
  }

  /** Rejects for a request that the head check or the authenticator refuses. */
  async #admit(request: IncomingMessage): Promise<void> {
    const refusal = findRefusal(request, this.#names, this.#cors);
    if (refusal !== undefined) throw refusal;
    await this.#authenticator.admit(request);
  }

  /** The error of a refused request, else the result of `otherwise`. */
  #check(request: IncomingMessage, otherwise: () => unknown): Promise<unknown> {
    return this.#admit(request).then(otherwise, (error: unknown) => error);
  }

  /** Number of open connections. */
  get connectionCount(): number {
    return this.#connections.count;
  }

  /** Resolves with the address in use. AppError conflict if it is unusable. */
  listen(address: TcpAddress): Promise<TcpAddress>;
  listen(address: TcpAddress | SocketPath): Promise<TcpAddress | SocketPath>;
  async listen(address: TcpAddress | SocketPath): Promise<TcpAddress | SocketPath> {
    this.#listening = await listenOn(this.#server, address);
    this.#server.on('error', (err) => this.#log.error({ err }, 'http server failed'));
    return this.#listening.address;
  }

  /**
   * Graceful shutdown. Accepts no new connections and resolves when every request is complete, the time is over or
   * `signal` aborts. Then ends the commands that still run and sends their clients a last frame with the reason.
   */
  async drain(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    this.#isDraining = true;
    this.#server.close();
    for (const response of this.#open) response.shouldKeepAlive = false;
    await this.#listening?.release();
    await this.#idle(timeoutMs, signal);
    this.#ending.abort();
    await this.#idle(LAST_FRAMES_MS);
  }

  async #idle(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
    this.#checkIdle();
    const done = new AbortController();
    const stop = signal === undefined ? done.signal : AbortSignal.any([signal, done.signal]);
    const timer = sleep(timeoutMs, undefined, { signal: stop }).catch(() => {});
    await Promise.race([idle, timer]);
    done.abort();
  }

  /** Closes all connections. Requests that still run see a disconnect of their client. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeAllConnections();
    for (const socket of this.#hijacked) socket.destroy();
    this.#handshakes.close();
    this.#gate.close();
    this.#certificate?.close();
    await this.#listening?.release();
    await closed;
  }

  /** Prepares the response of a request. Returns false if the connection was closed. */
  #track(request: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#connections.track(request, response)) return false;
    // Browsers must not load a response as script, image or frame of another origin, or sniff its type.
    response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    response.setHeader('X-Content-Type-Options', 'nosniff');
    this.#open.add(response);
    this.#current.set(request.socket, response);
    coalesceChunks(request);
    lingerAfter(request, response, this.#lingerMs);
    if (this.#isDraining) response.shouldKeepAlive = false;
    response.once('close', () => {
      this.#open.delete(response);
      this.#checkIdle();
    });
    return true;
  }

  #refuse(response: ServerResponse, error: unknown): void {
    const requestId = newRequestId();
    this.#log.info({ requestId, reason: toError(error).message }, 'request refused');
    auditRefusal(this.#audit, response.req, error, requestId);
    respond(response, error, requestId);
  }

  #probe(socket: Duplex): void {
    const response = this.#current.get(socket);
    if (response === undefined || response.closed) return;
    if (response.headersSent) sendKeepalive(response);
    else if (response.req.httpVersion === '1.1') response.writeContinue();
  }

  #checkIdle(): void {
    if (this.#isDraining && this.#open.size === 0 && this.#hijacked.size === 0) this.#onIdle();
  }

  /** Waits for the responses to earlier pipelined requests. */
  async #settled(socket: Duplex): Promise<void> {
    const response = this.#current.get(socket);
    if (response === undefined || response.closed) return;
    await new Promise((resolve) => response.once('close', resolve));
    if ('setTimeout' in socket && typeof socket.setTimeout === 'function') socket.setTimeout(0);
  }

  #onClientError(error: Error, socket: Duplex): void {
    // The parser reports the bytes after malformed ones as errors, too.
    if (this.#malformed.has(socket)) return;
    this.#malformed.add(socket);
    const response = this.#current.get(socket);
    const isAnswering = response !== undefined && !response.closed && response.headersSent;
    const failure = isAnswering ? undefined : toHttpError(error);
    if (failure === undefined) socket.destroy();
    else refuse(socket, failure);
  }
}
