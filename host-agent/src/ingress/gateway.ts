// One request from its head to its end: which port it is for, who may, and the way to the guest and back.
import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import type { Http2ServerResponse } from 'node:http2';
import type { Logger } from 'pino';
import { HttpError } from '../http/errors.ts';
import { newRequestId } from '../http/middleware.ts';
import { findExcess, findUnknownCoding, malformed, readHosts } from '../http/server/request-check.ts';
import { linger } from '../http/server/responses.ts';
import { isAppError, toError } from '../lib/errors.ts';
import type { Access, Grant } from './access.ts';
import type { Addresses } from './addresses.ts';
import { type Exchange, forward, forwardUpgrade, hasBody, isClosed, type Tunnel } from './forward.ts';
import { GrpcSessions, isGrpc } from './grpc.ts';
import { GuestAgent } from './guest-agent.ts';
import {
  LINK_COOKIE,
  SECURE_LINK_COOKIE,
  takeToken,
  toClientHeaders,
  toGuestHeaders,
  toPassedHeaders,
} from './headers.ts';
import { limitRefusal } from './http2-sessions.ts';
import { OpenExchanges } from './open-exchanges.ts';
import type { RateLimits } from './rate-limits.ts';
import { refuse } from './refusals.ts';

/** How long neither side of a request may send anything; a WebSocket may be silent for ever. */
const IDLE_MS = 15 * 60_000;
/** How long a client whose upgrade was refused may keep its side open. */
const REFUSED_MS = 1000;

export type GatewayOptions = {
  readonly addresses: Addresses;
  readonly access: Pick<Access, 'admit'>;
  readonly log: Logger;
  /** Called at the end of each request. */
  readonly onEnd: (ended: EndedRequest) => void;
  readonly rateLimits: RateLimits;
  /** Each request is a line of the log. */
  readonly logsAccess: boolean;
  /** How a failure is answered; default: a page for browsers, else JSON. */
  readonly refuse?: typeof refuse;
  /** Of requests, which guests do not get. */
  readonly ownHeaders?: readonly string[];
  /** The client of a request that a gateway of the fleet passed on; undefined: the other side of the connection. */
  readonly clientOf?: (request: IncomingMessage) => string | undefined;
  /** Absent: requests go to guests. */
  readonly relay?: Relay;
  readonly idleMs?: number;
  readonly checkMs?: number;
};

/** Requests go to the ingress of a host, which decides about them and changes what must be changed. */
export type Relay = {
  readonly toHeaders: (
    headers: IncomingHttpHeaders,
    client: { readonly host: string; readonly address: string },
  ) => OutgoingHttpHeaders;
  /** What a client hears of a failure between here and that host. */
  readonly explain: (failure: unknown, grant: Grant) => unknown;
};

export type EndedRequest = { readonly status: number; readonly isUpgrade: boolean };

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #agents = {
    pool: new GuestAgent({ keepAlive: true }),
    single: new GuestAgent({ keepAlive: false }),
  };
  readonly #grpc = new GrpcSessions();
  readonly open: OpenExchanges;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.open = new OpenExchanges(options.checkMs);
  }

  /** Answers a request, also one with a failure. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#serve(request, response, false, async (exchange) => {
      if (isGrpc(request)) await this.#grpc.forward(exchange);
      else await forward(exchange, this.#agents);
      return undefined;
    });
  }

  /** The same for an upgrade to WebSocket; `head` has the bytes behind the request. */
  async serveUpgrade(request: IncomingMessage, head: Buffer): Promise<void> {
    const { socket } = request;
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => {
      socket.end();
      linger(socket, socket, REFUSED_MS);
    });
    socket.on('error', () => socket.destroy());
    await this.#serve(request, response, true, async (exchange) => {
      if (hasBody(request)) throw malformed('a websocket request has no body');
      return await forwardUpgrade(exchange, this.#agents, head);
    });
  }

  /** Closes the kept connections to guests. */
  close(): void {
    this.open.endAll();
    this.#agents.pool.destroy();
    this.#agents.single.destroy();
  }

  async #serve(
    request: IncomingMessage,
    response: ServerResponse,
    isUpgrade: boolean,
    pass: (exchange: Exchange) => Promise<Tunnel | undefined>,
  ): Promise<void> {
    const requestId = newRequestId();
    const startedAt = performance.now();
    let grant: Grant | undefined;
    let error: unknown;
    let tunnel: Tunnel | undefined;
    const finish = (): void =>
      this.#finish({
        request,
        response,
        requestId,
        startedAt,
        grant,
        error,
        isUpgrade: tunnel !== undefined,
      });
    response.once('close', () => {
      if (tunnel === undefined) finish();
    });
    try {
      const { target, token, ...asked } = this.#read(request);
      this.#options.rateLimits.countClient(asked.address);
      const admitted = await this.#options.access.admit({ ...asked, request, token });
      grant = admitted;
      this.#options.rateLimits.countSandbox(admitted.sandbox.id);
      if (isClosed(response) || request.socket.destroyed) return;
      this.open.add(grant, asked.address, isUpgrade ? request.socket : response, () => {
        this.#grpc.retire(request, admitted);
        end(request, response);
      });
      if (grant.visit !== undefined) return this.#redirect(response, target, grant.visit);
      tunnel = await pass(this.#toExchange(request, response, target, asked, grant));
      tunnel?.client.once('close', finish);
    } catch (failure) {
      const { relay } = this.#options;
      error = grant === undefined || relay === undefined ? failure : relay.explain(failure, grant);
      (this.#options.refuse ?? refuse)(request, response, error, requestId);
      if (request.httpVersionMajor === 2) limitRefusal(response as unknown as Http2ServerResponse);
    }
  }

  /** HttpError malformed, headers_too_large; AppError invalid_argument. */
  #read(request: IncomingMessage) {
    const { addresses } = this.#options;
    const hosts = readAuthorities(request);
    if (hosts instanceof Error) throw hosts;
    const [host = '', ...others] = hosts;
    if (others.some((other) => other.toLowerCase() !== host.toLowerCase()))
      throw malformed('its target and its host header name different hosts');
    const fault = findExcess(request) ?? findUnknownCoding(request);
    if (fault !== undefined) throw fault;
    if (request.httpVersion === '1.0' && host === '') throw malformed('the host header is missing');
    const { url = '/' } = request;
    const path = url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
    const target = path === '' || path.startsWith('?') ? `/${path}` : path;
    return {
      ...(this.#options.relay === undefined ? takeToken(target) : { target, token: undefined }),
      host,
      sought: addresses.find(host, request.headers),
      scheme: addresses.scheme,
      address: this.#options.clientOf?.(request) ?? request.socket.remoteAddress ?? 'local',
    };
  }

  #toExchange(
    request: IncomingMessage,
    response: ServerResponse,
    target: string,
    { host, scheme, address }: { readonly host: string; readonly scheme: string; readonly address: string },
    { by, sandbox, port, hasMethods = false }: Grant,
  ): Exchange {
    const { ownHeaders, relay, idleMs = IDLE_MS } = this.#options;
    const passed = { request, response, sandbox, port, target, idleMs };
    if (relay !== undefined) {
      const headers = relay.toHeaders(request.headers, { host, address });
      return { ...passed, headers, defaults: {}, toClientHeaders: toPassedHeaders };
    }
    const guestHost = sandbox.hostHeader(port) === 'localhost' ? `localhost:${port}` : host;
    const hop = { address, scheme, host, guestHost, hasFixedMethod: hasMethods, ownHeaders };
    return {
      ...passed,
      headers: toGuestHeaders(request.headers, hop),
      // A page of another sandbox shares the site, and could otherwise embed what the cookie opens.
      defaults: by === 'public' ? {} : { 'cross-origin-resource-policy': 'same-origin' },
      toClientHeaders,
    };
  }

  /** To the same page without the token, so that it is in no history, log or Referer. */
  #redirect(response: ServerResponse, target: string, visit: NonNullable<Grant['visit']>): void {
    const isSecure = this.#options.addresses.scheme === 'https';
    const name = isSecure ? SECURE_LINK_COOKIE : LINK_COOKIE;
    const attributes = `Path=/; HttpOnly; SameSite=Lax; Max-Age=${visit.maxAgeS}${isSecure ? '; Secure' : ''}`;
    response.writeHead(303, {
      // Two slashes at the beginning would name another host.
      location: target.replace(/^[/\\]+/, '/'),
      'set-cookie': `${name}=${visit.token}; ${attributes}`,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'content-length': 0,
    });
    response.end();
  }

  #finish(ended: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly requestId: string;
    readonly startedAt: number;
    readonly grant: Grant | undefined;
    readonly error: unknown;
    readonly isUpgrade: boolean;
  }): void {
    const { request, response, requestId, startedAt, grant, error, isUpgrade } = ended;
    const { log, logsAccess, onEnd } = this.#options;
    const status = isUpgrade ? 101 : response.statusCode;
    onEnd({ status, isUpgrade });
    const isUnforeseen = error !== undefined && !isAppError(error) && !(error instanceof HttpError);
    if (isUnforeseen) log.error({ err: error, requestId }, 'ingress request failed');
    if (!logsAccess) return;
    const line = {
      requestId,
      ...(grant && { sandbox: grant.sandbox.id, port: grant.port, by: grant.by }),
      ...(grant?.name !== undefined && { name: grant.name }),
      method: request.method,
      path: request.url?.replace(/\?.*$/s, '').slice(0, 1000),
      status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      ...(error !== undefined && { reason: toError(error).message }),
    };
    log.info(line, 'ingress request');
  }
}

/** The authority of an HTTP/2 request is in a pseudo header. */
function readAuthorities(request: IncomingMessage): readonly string[] | Error {
  if (request.httpVersionMajor === 1) return readHosts(request);
  const { ':authority': authority, host } = request.headers;
  return [authority, host].flatMap((each) => (typeof each === 'string' ? [each] : []));
}

function end(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersionMajor === 1) request.socket.destroy();
  else response.destroy();
}

/** Whether it is an upgrade that the ingress passes on; others are ordinary requests. */
export function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}
