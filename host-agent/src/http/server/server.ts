// The listening side: connections, their time limits, malformed HTTP, and an orderly end.
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { getRequestListener } from '@hono/node-server';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import type { Authenticator } from '../authentication.ts';
import type { HttpApp } from '../context.ts';
import { HttpError } from '../errors.ts';
import { type AuditSink, auditRefusal } from '../middleware/audit.ts';
import { newRequestId } from '../middleware/request-id.ts';
import { sendKeepalive } from '../pull-stream.ts';
import { AcceptGate } from './accept-gate.ts';
import type { Certificate } from './certificate.ts';
import { nameClients } from './client-names.ts';
import { coalesceChunks } from './coalesce-chunks.ts';
import { Connections } from './connections.ts';
import { Cors } from './cors.ts';
import { answerDirectly } from './direct-answer.ts';
import { DisconnectDetector } from './disconnect-detector.ts';
import { Handshakes } from './handshakes.ts';
import { installHijack, isWebSocketRequest } from './hijack.ts';
import { type AllowedHost, HostNames } from './host-names.ts';
import { LINGER_MS, lingerAfter } from './lingering.ts';
import { type Listening, listenOn, type SocketPath, type TcpAddress } from './listening.ts';
import type { PeerLookup } from './peer.ts';
import { refuse, respond, toHttpError, toResponse } from './refusal.ts';
import { findRefusal } from './request-check.ts';

/** Request line and headers must have come within this time. */
const HEADERS_TIMEOUT_MS = 20_000;
/** Idle connections are kept longer than the pools of usual clients and proxies (60 s), so that these close first. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
/** First TCP probe of a silent connection: finds clients that vanished without a word. */
const TCP_PROBE_MS = 30_000;

/** How long clients may take to receive the last frames of streams that a stop ended. */
const LAST_FRAMES_MS = 2000;

const DEFAULT_MAX_CONNECTIONS = 1024;
const UNREAD_MS = 10_000;
/** Connections that may be in the handshake of TLS, as a share of those that may be through it. */
const HANDSHAKE_SHARE = 1 / 4;
const HANDSHAKE_TIMEOUT_MS = 10_000;

export type HttpServerOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  /** The app's own, for what is taken of a request before the app sees it. */
  readonly authenticator: Authenticator;
  /** The app's own, for what is refused before the app sees it. */
  readonly audit: AuditSink;
  /** Beside the names that every daemon has. */
  readonly allowedHosts?: readonly AllowedHost[];
  /** Pages of which origins may use it, as browsers write them. */
  readonly corsOrigins?: readonly string[];
  /** Absent: connections are plain. */
  readonly certificate?: Certificate | undefined;
  /** Clients that may be connected at once. */
  readonly maxConnections?: number;
  /** Of them those of one client; absent: all. */
  readonly clientShare?: {
    readonly connections: number;
    /** Path of native/peers.c. */
    readonly peersProgram: string;
  };
  /** A client that reads nothing of its answer for so long makes room for others, when there is none. */
  readonly unreadMs?: number;
  /** Longest silence in the middle of a request body. */
  readonly bodyIdleMs?: number;
  readonly headersTimeoutMs?: number;
  /** How long the rest of a request is taken after its answer. */
  readonly lingerMs?: number;
  /** Who of the clients is known to be there. */
  readonly readPeers?: () => Promise<PeerLookup>;
};

export class HttpServer {
  readonly #server: Server;
  readonly #certificate: Certificate | undefined;
  readonly #log: Logger;
  readonly #audit: AuditSink;
  readonly #names: HostNames;
  readonly #cors: Cors;
  readonly #lingerMs: number;
  readonly #connections: Connections;
  readonly #handshakes: Handshakes;
  readonly #arrivals: AcceptGate;
  readonly #active = new Set<ServerResponse>();
  readonly #taken = new Set<Duplex>();
  readonly #current = new WeakMap<Duplex, ServerResponse>();
  readonly #refused = new WeakSet<Duplex>();
  /** Streams that are open now get their last frame. */
  readonly #ending = new AbortController();
  #listening: Listening | undefined;
  #isDraining = false;
  #onIdle: () => void = () => {};

  constructor({
    app,
    log,
    authenticator,
    audit,
    allowedHosts = [],
    corsOrigins = [],
    certificate,
    maxConnections = DEFAULT_MAX_CONNECTIONS,
    clientShare,
    unreadMs = UNREAD_MS,
    bodyIdleMs = 30_000,
    headersTimeoutMs = HEADERS_TIMEOUT_MS,
    lingerMs = LINGER_MS,
    readPeers,
  }: HttpServerOptions) {
    this.#lingerMs = lingerMs;
    this.#log = log;
    this.#audit = audit;
    this.#names = new HostNames(allowedHosts, certificate === undefined ? 'http' : 'https');
    this.#cors = new Cors(corsOrigins);
    this.#connections = new Connections(maxConnections, clientShare?.connections ?? maxConnections, unreadMs);
    const ending = this.#ending.signal;
    const listener = getRequestListener(answerDirectly({ app, log, ending }), {
      hostname: 'localhost',
      errorHandler: (error) => toResponse(error, log),
      autoCleanupIncoming: false, // it resets a client that still sends after 64 MiB; see lingering.ts
    });
    const options = {
      // No deadline for a whole request: uploads may be long. Bodies have an idle limit where they are read.
      requestTimeout: 0,
      headersTimeout: headersTimeoutMs,
      maxHeaderSize: MAX_HEAD_BYTES,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      connectionsCheckingInterval: Math.min(5000, headersTimeoutMs),
      // Checked in request-check.ts, where the answer is JSON.
      requireHostHeader: false,
      keepAlive: true,
      keepAliveInitialDelay: TCP_PROBE_MS,
      noDelay: true,
      shouldUpgradeCallback: isWebSocketRequest,
    };
    this.#certificate = certificate;
    this.#server = certificate === undefined ? createServer(options) : makeTlsServer(certificate, options);
    this.#server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) this.#refuse(response, refusal);
      else if (!this.#cors.serve(request, response)) void listener(request, response);
    });
    // A client that has ended its side still gets its answer.
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    // Headers beyond Node's own limit would be left out in silence; ours refuses.
    this.#server.maxHeadersCount = 0;
    const departures = new DisconnectDetector(readPeers);
    const connected = certificate === undefined ? 'connection' : 'secureConnection';
    this.#handshakes = new Handshakes(Math.ceil(maxConnections * HANDSHAKE_SHARE));
    if (certificate !== undefined) {
      this.#server.on('connection', (socket: Socket) => this.#handshakes.begin(socket));
    }
    this.#server.on(connected, (socket: Socket) => {
      socket.once('end', () => departures.watch(socket, () => this.#probe(socket)));
    });
    const admit = async (request: IncomingMessage): Promise<void> => {
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) throw refusal;
      await authenticator.admit(request);
    };
    const check = (request: IncomingMessage, otherwise: () => unknown): Promise<unknown> =>
      admit(request).then(otherwise, (error: unknown) => error);
    // Who may not go on must not be asked for a body.
    this.#server.on('checkContinue', async (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const error = await check(request, () => undefined);
      if (error !== undefined) return this.#refuse(response, error);
      this.#cors.serve(request, response);
      response.writeContinue();
      await listener(request, response);
    });
    this.#server.on('checkExpectation', async (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const message = `expectation ${JSON.stringify(request.headers.expect)} is not known; only 100-continue is`;
      this.#refuse(response, await check(request, () => new HttpError('expectation_failed', message)));
    });
    this.#server.on('connect', async (request: IncomingMessage, socket: Duplex) => {
      const allow = { Allow: 'GET, HEAD, POST' };
      const message = 'CONNECT is not allowed; this is no proxy';
      const error = await check(request, () => new HttpError('method_not_allowed', message, allow));
      const requestId = newRequestId();
      auditRefusal(audit, request, error, requestId);
      refuse(socket, error, requestId);
    });
    this.#server.on('clientError', (error, socket) => this.#onClientError(error, socket));
    installHijack(this.#server, connected, {
      app,
      log,
      admit,
      audit,
      ending,
      bodyIdleMs,
      lingerMs,
      settled: (socket) => this.#settled(socket),
      onOpen: (socket) => {
        this.#taken.add(socket);
        this.#connections.take(socket);
        socket.once('close', () => {
          this.#taken.delete(socket);
          this.#checkIdle();
        });
      },
    });
    this.#arrivals = new AcceptGate(
      this.#connections,
      clientShare && nameClients(clientShare.peersProgram),
      log,
    );
    this.#arrivals.guard(this.#server, connected);
    if (certificate !== undefined)
      this.#server.on(connected, (socket: Socket) => this.#handshakes.end(socket));
  }

  /** Clients that are connected. */
  get connectionCount(): number {
    return this.#connections.count;
  }

  /** Resolves with the address in use. AppError conflict says why it cannot be had. */
  listen(wanted: TcpAddress): Promise<TcpAddress>;
  listen(wanted: TcpAddress | SocketPath): Promise<TcpAddress | SocketPath>;
  async listen(wanted: TcpAddress | SocketPath): Promise<TcpAddress | SocketPath> {
    this.#listening = await listenOn(this.#server, wanted);
    this.#server.on('error', (err) => this.#log.error({ err }, 'http server failed'));
    return this.#listening.address;
  }

  /**
   * Accepts nothing new; resolves when every running request is answered, the time is over or `signal` fires. Commands
   * that still run are then ended, and what says so is sent to clients that take it.
   */
  async drain(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    this.#isDraining = true;
    this.#server.close();
    for (const response of this.#active) response.shouldKeepAlive = false;
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

  /** Ends what is left. Requests that still run see their client leave. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeAllConnections();
    for (const socket of this.#taken) socket.destroy();
    this.#handshakes.close();
    this.#arrivals.close();
    this.#certificate?.close();
    await this.#listening?.release();
    await closed;
  }

  /** False for one that is not answered any more. */
  #track(request: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#connections.track(request, response)) return false;
    // No page of another origin may take an answer for its script, picture or frame, or guess its type.
    response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    response.setHeader('X-Content-Type-Options', 'nosniff');
    this.#active.add(response);
    this.#current.set(request.socket, response);
    coalesceChunks(request);
    lingerAfter(request, response, this.#lingerMs);
    if (this.#isDraining) response.shouldKeepAlive = false;
    response.once('close', () => {
      this.#active.delete(response);
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
    if (this.#isDraining && this.#active.size === 0 && this.#taken.size === 0) this.#onIdle();
  }

  /** Pipelined requests come before their predecessors are answered. */
  async #settled(socket: Duplex): Promise<void> {
    const response = this.#current.get(socket);
    if (response === undefined || response.closed) return;
    await new Promise((resolve) => response.once('close', resolve));
    if ('setTimeout' in socket && typeof socket.setTimeout === 'function') socket.setTimeout(0);
  }

  #onClientError(error: Error, socket: Duplex): void {
    // What follows the bytes that were refused is refused too, silently.
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    const response = this.#current.get(socket);
    const isAnswering = response !== undefined && !response.closed && response.headersSent;
    const failure = isAnswering ? undefined : toHttpError(error);
    if (failure === undefined) socket.destroy();
    else refuse(socket, failure);
  }
}

function makeTlsServer(certificate: Certificate, options: ServerOptions): Server {
  const server = createTlsServer({
    ...options,
    ...certificate.options,
    honorCipherOrder: true,
    requestCert: certificate.asksClients,
    rejectUnauthorized: certificate.asksClients,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    ALPNProtocols: ['http/1.1'],
    allowHalfOpen: true,
  });
  certificate.watch((next) => server.setSecureContext(next));
  return server;
}
