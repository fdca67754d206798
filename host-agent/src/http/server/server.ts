// The listening side: connections, their time limits, malformed HTTP, and an orderly end.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { getRequestListener, RequestError } from '@hono/node-server';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import type { HttpApp } from '../context.ts';
import { HttpError, toErrorAnswer } from '../errors.ts';
import { newRequestId, REQUEST_ID_HEADER } from '../middleware/request-id.ts';
import { poke } from '../outflow.ts';
import { Connections } from './connections.ts';
import { Departures } from './departures.ts';
import { answerDirectly } from './direct-answer.ts';
import { type AllowedHost, HostNames } from './host-names.ts';
import { LINGER_MS, lingerAfter } from './lingering.ts';
import type { PeerLookup } from './peer.ts';
import { refuse, toHttpError } from './refusal.ts';
import { findRefusal } from './request-check.ts';
import { installTakeover, isWebSocketRequest } from './takeover.ts';

/** Request line and headers must have come within this time. */
const HEADERS_TIMEOUT_MS = 20_000;
/** Idle connections are kept longer than the pools of usual clients and proxies (60 s), so that these close first. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
/** First TCP probe of a silent connection: finds clients that vanished without a word. */
const TCP_PROBE_MS = 30_000;

/** How long clients may take to receive the last frames of streams that a stop ended. */
const LAST_FRAMES_MS = 2000;

const DEFAULT_MAX_CONNECTIONS = 1024;

export type HttpServerOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  /** Beside the names that every daemon has. */
  readonly allowedHosts?: readonly AllowedHost[];
  /** Clients that may be connected at once. */
  readonly maxConnections?: number;
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
  readonly #log: Logger;
  readonly #names: HostNames;
  readonly #lingerMs: number;
  readonly #connections: Connections;
  readonly #active = new Set<ServerResponse>();
  readonly #taken = new Set<Duplex>();
  readonly #current = new WeakMap<Duplex, ServerResponse>();
  readonly #refused = new WeakSet<Duplex>();
  /** Streams that are open now get their last frame. */
  readonly #ending = new AbortController();
  #isDraining = false;
  #onIdle: () => void = () => {};

  constructor({
    app,
    log,
    allowedHosts = [],
    maxConnections = DEFAULT_MAX_CONNECTIONS,
    bodyIdleMs = 30_000,
    headersTimeoutMs = HEADERS_TIMEOUT_MS,
    lingerMs = LINGER_MS,
    readPeers,
  }: HttpServerOptions) {
    this.#lingerMs = lingerMs;
    this.#log = log;
    this.#names = new HostNames(allowedHosts);
    this.#connections = new Connections(maxConnections);
    const ending = this.#ending.signal;
    const listener = getRequestListener(answerDirectly({ app, log, ending }), {
      hostname: 'localhost',
      errorHandler: (error) => toResponse(error, log),
      autoCleanupIncoming: false, // it resets a client that still sends after 64 MiB; see lingering.ts
    });
    this.#server = createServer(
      {
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
      },
      (request, response) => {
        if (!this.#track(request, response)) return;
        const refusal = findRefusal(request, this.#names);
        if (refusal === undefined) void listener(request, response);
        else this.#refuse(response, refusal);
      },
    );
    // A client that has ended its side still gets its answer.
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    // Headers beyond Node's own limit would be left out in silence; ours refuses.
    this.#server.maxHeadersCount = 0;
    const departures = new Departures(readPeers);
    this.#server.on('connection', (socket: Socket) => {
      this.#connections.add(socket);
      socket.once('end', () => departures.watch(socket, () => this.#probe(socket)));
    });
    this.#server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#track(request, response)) return;
      const message = `expectation ${JSON.stringify(request.headers.expect)} is not known; only 100-continue is`;
      const refusal = findRefusal(request, this.#names);
      this.#refuse(response, refusal ?? new HttpError('expectation_failed', message));
    });
    this.#server.on('connect', (request: IncomingMessage, socket: Duplex) => {
      const allow = { Allow: 'GET, HEAD, POST' };
      const refusal = findRefusal(request, this.#names);
      refuse(
        socket,
        refusal ?? new HttpError('method_not_allowed', 'CONNECT is not allowed; this is no proxy', allow),
      );
    });
    this.#server.on('clientError', (error, socket) => this.#onClientError(error, socket));
    installTakeover(this.#server, {
      app,
      log,
      names: this.#names,
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
  }

  /** Clients that are connected. */
  get connectionCount(): number {
    return this.#connections.count;
  }

  /** Resolves with the address in use. AppError conflict says why it cannot be had. */
  async listen({ host, port }: { host: string; port: number }): Promise<{ host: string; port: number }> {
    await new Promise<void>((resolve, reject) => {
      const onError = (error: Error) => reject(explainListen(error, host, port));
      this.#server.once('error', onError);
      this.#server.listen({ host, port }, () => {
        this.#server.off('error', onError);
        this.#server.on('error', (err) => this.#log.error({ err }, 'http server failed'));
        resolve();
      });
    });
    const address = this.#server.address() as AddressInfo;
    return { host: address.address, port: address.port };
  }

  /**
   * Accepts nothing new; resolves when every running request is answered, the time is over or `signal` fires. Commands
   * that still run are then ended, and what says so is sent to clients that take it.
   */
  async drain(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    this.#isDraining = true;
    this.#server.close();
    for (const response of this.#active) response.shouldKeepAlive = false;
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
    await closed;
  }

  /** False for one that is not answered any more. */
  #track(request: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#connections.track(request, response)) return false;
    this.#active.add(response);
    this.#current.set(request.socket, response);
    lingerAfter(request, response, this.#lingerMs);
    if (this.#isDraining) response.shouldKeepAlive = false;
    response.once('close', () => {
      this.#active.delete(response);
      this.#checkIdle();
    });
    return true;
  }

  #refuse(response: ServerResponse, error: Error): void {
    const requestId = newRequestId();
    this.#log.info({ requestId, reason: error.message }, 'request refused');
    respond(response, error, requestId);
  }

  #probe(socket: Duplex): void {
    const response = this.#current.get(socket);
    if (response === undefined || response.closed) return;
    if (response.headersSent) poke(response);
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

/** Requests that never reach the app: a host header or target that makes no URL. */
function toResponse(error: unknown, log: Logger): Response {
  const isBadRequest = error instanceof RequestError;
  const failure = isBadRequest
    ? new HttpError('malformed', `malformed http request: ${error.message.toLowerCase()}`)
    : error;
  const requestId = newRequestId();
  if (!isBadRequest) log.error({ err: error, requestId }, 'request failed');
  const { status, headers, body } = toErrorAnswer(failure, requestId);
  return Response.json(body, { status, headers: { ...headers, [REQUEST_ID_HEADER]: requestId } });
}

function respond(response: ServerResponse, error: Error, requestId: string): void {
  const { status, headers, body } = toErrorAnswer(error, requestId);
  response.shouldKeepAlive = false;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    [REQUEST_ID_HEADER]: requestId,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

function explainListen(error: Error, host: string, port: number): AppError {
  const known: Readonly<Record<string, string>> = {
    EADDRINUSE: 'address in use; stop what uses it, or choose another with --listen',
    EADDRNOTAVAIL: 'this machine has no such address; choose another with --listen',
    EACCES: 'permission denied; choose a port above 1023 with --listen, or run as root',
    ENOTFOUND: 'no such host name; choose an address with --listen',
  };
  const reason = known[errnoOf(error) ?? ''] ?? toError(error).message;
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return new AppError('conflict', `cannot listen on ${address}: ${reason}`, {
    stage: 'listen',
    cause: error,
  });
}
