// Requests of HTTP/1: each is read, judged, and written again on a connection to the server that only this connection
// of the guest uses.
import {
  Agent,
  createServer,
  type IncomingMessage,
  request as requestOf,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { CHANGED, NoServer, type ReadConnection } from './read-connection.ts';
import { redact } from './redacted-answer.ts';
import { type GuestHead, type Headers, type Refused, readGuestHead, toGuestHeaders } from './request-head.ts';
import { BY_RULE, RequestReport } from './request-report.ts';
import { ReplacingStream } from './substitution/index.ts';
import type { Sent, Substitution } from './substitution.ts';
import { isWebSocket, openWebSocket } from './web-socket.ts';

const MAX_HEAD_BYTES = 65_536;
const HEAD_MS = 10_000;
const IDLE_MS = 3600 * 1000;
/** Interim answers to one request. */
const MAX_INTERIM = 16;
/** They change nothing when they come twice. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Methods whose requests have no body unless they say so. */
const BODILESS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

/** A connection, and its agent: one connection to the server at a time. */
type Served = { readonly connection: ReadConnection; readonly agent: Agent };

type Allowed = {
  readonly head: GuestHead;
  readonly rule: string;
  readonly substituted: Sent;
  readonly report: RequestReport;
};

export class Http1 {
  readonly #substitution: Substitution;
  readonly #server: Server;
  readonly #served = new WeakMap<Duplex, Served>();

  constructor(substitution: Substitution) {
    this.#substitution = substitution;
    this.#server = createServer(
      {
        maxHeaderSize: MAX_HEAD_BYTES,
        headersTimeout: HEAD_MS,
        requestTimeout: 0,
        keepAliveTimeout: IDLE_MS,
        connectionsCheckingInterval: 1000,
        insecureHTTPParser: false,
        // What asks for anything else is a request like others, without the header.
        shouldUpgradeCallback: isWebSocket,
      },
      (req, res) => this.#handle(req, res),
    );
    this.#server.on('connect', (req, socket) => this.#refuseTunnel(req, socket));
    this.#server.on('upgrade', (req, socket, first) => this.#upgrade(req, socket, first));
    this.#server.on('checkExpectation', (req, res) => this.#handle(req, res));
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      this.#refuseBytes(error, socket),
    );
    // Its time limits begin with this event; it listens nowhere.
    this.#server.emit('listening');
  }

  /** `stream` has the bytes of the guest; `first`: a connection to the server, if there is one already, or why not. */
  serve(connection: ReadConnection, stream: Duplex, first: Duplex | NoServer | undefined): void {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 });
    let next = first;
    agent.createConnection = (_options, callback) => {
      const ready = next;
      next = undefined;
      if (ready instanceof NoServer) {
        process.nextTick(() => callback?.(ready, undefined as never));
        return undefined;
      }
      if (ready !== undefined && !ready.destroyed) return ready;
      connection.connect(['http/1.1']).then(
        (server) => callback?.(null, server),
        (error: Error) => callback?.(error, undefined as never),
      );
      return undefined;
    };
    this.#served.set(stream, { connection, agent });
    stream.once('close', () => {
      agent.destroy();
      connection.destroy();
    });
    this.#server.emit('connection', stream);
    // Its first bytes may be here already.
    stream.resume();
  }

  #handle(req: IncomingMessage, res: ServerResponse): void {
    const served = this.#served.get(req.socket);
    if (served === undefined) {
      req.socket.destroy();
      return;
    }
    const allowed = this.#judge(req, served.connection);
    if ('refused' in allowed) answer(res, allowed.refused.status, allowed.refused.reason);
    else this.#send(req, res, served, allowed);
  }

  /** What is refused has its record. */
  #judge(
    req: IncomingMessage,
    connection: ReadConnection,
    isUpgrade = false,
  ): Allowed | { readonly refused: Refusal } {
    const { method = '', url = '' } = req;
    const report = new RequestReport(connection, method, url);
    const refuse = (refused: Refusal) => {
      report.denied(refused.reason, refused.status);
      return { refused };
    };
    const head: GuestHead | Refused = readGuestHead(req, connection.handed);
    if ('reason' in head) return refuse(head);
    const { target, hasOverride } = head;
    const verdict = connection.judge({ method, target, hasOverride, isWebSocket: isUpgrade });
    if (!verdict.isAllowed) return refuse(verdict);
    const { name: host, port } = connection.handed;
    const isTls = connection.handed.kind === 'tls';
    const headers = head.headers.map(([name, value]): Headers[number] =>
      name.toLowerCase() === 'host' ? [name, connection.authority] : [name, value],
    );
    const substituted = this.#substitution.request({
      ...{ host, port, isTls, method, headers },
      target: verdict.target,
    });
    if ('refused' in substituted) return refuse({ status: substituted.status, reason: substituted.refused });
    report.use(substituted);
    return { head, rule: verdict.rule, substituted, report };
  }

  #send(req: IncomingMessage, res: ServerResponse, served: Served, allowed: Allowed, isSecond = false): void {
    const { connection, agent } = served;
    const { head, rule, substituted, report } = allowed;
    const { method, target, headers } = substituted.head;
    const { body, redaction } = substituted;
    const framing: Headers =
      head.length === 'chunked' || (head.length > 0 && body?.keepsLength === false)
        ? [['Transfer-Encoding', 'chunked']]
        : head.length > 0 || !BODILESS.has(method)
          ? [['Content-Length', String(head.length)]]
          : [];
    const upstream = requestOf({
      ...{ agent, method, path: target, host: connection.handed.name, port: connection.handed.port },
      headers: [...headers, ...framing].flat(),
      ...{ setHost: false, maxHeaderSize: MAX_HEAD_BYTES, insecureHTTPParser: false },
    });
    // One that waits for a body, or for its turn, keeps no value for later.
    upstream.flushHeaders();
    const isSent = (): boolean => upstream.socket !== null && (body === undefined || upstream.writableEnded);
    const open = {
      request: {
        method: head.method,
        target: head.target,
        hasOverride: head.hasOverride,
        isWebSocket: false,
      },
      holds: substituted.holds && (() => substituted.holds?.(isSent()) !== false),
      cancel: () => fail(new NoServer(403, CHANGED)),
    };
    let isOver = false;
    const end = (): void => {
      isOver = true;
      connection.requests.delete(open);
    };
    const fail = (error: Error): void => {
      if (isOver) return;
      end();
      upstream.destroy();
      // The server may have ended a connection that was idle; what it then did not read may be sent again.
      const isRepeatable = SAFE.has(head.method) && head.length === 0 && !isSecond;
      const isStale = upstream.reusedSocket && !(error instanceof NoServer);
      if (isStale && isRepeatable && !res.headersSent && !connection.isOver) {
        this.#send(req, res, served, allowed, true);
        return;
      }
      const [status, reason] =
        error instanceof NoServer ? [error.status, error.message] : [502, toReason(error)];
      report.denied(reason, res.headersSent ? undefined : status);
      if (res.headersSent || res.destroyed) res.destroy();
      else answer(res, status, reason);
    };
    let interim = 0;
    connection.requests.add(open);
    upstream.on('error', fail);
    upstream.on('information', () => {
      if (++interim > MAX_INTERIM) fail(new Error('the server sends interim answers without end'));
    });
    upstream.on('upgrade', (_answer, socket) => {
      socket.destroy();
      fail(new Error('the server changed the protocol, which nobody asked for'));
    });
    upstream.on('response', (answered) => {
      if (isOver) {
        answered.destroy();
        return;
      }
      const status = answered.statusCode ?? 502;
      const shown = redact(redaction, method, status, toGuestHeaders(answered.rawHeaders));
      if (shown.kind === 'unreadable') {
        answered.on('error', () => undefined);
        fail(new NoServer(502, shown.reason));
        return;
      }
      const { statusMessage = '' } = answered;
      report.count('down', answered);
      res.writeHead(status, redaction?.text(statusMessage) ?? statusMessage, shown.headers.flat());
      const done = (error?: Error | null): void => {
        if (isOver) return;
        if (error) {
          fail(error);
          return;
        }
        end();
        report.allowed(rule, BY_RULE, status);
      };
      pipeline([answered, ...shown.body, res], done);
    });
    res.once('close', () => {
      if (isOver) return;
      end();
      if (!res.writableFinished) upstream.destroy();
      report.allowed(rule, res.writableFinished ? BY_RULE : 'the guest ended it', res.statusCode);
    });
    if (!isSecond) {
      req.on('error', fail);
      report.count('up', req);
    }
    if (isSecond || head.length === 0) upstream.end();
    else if (body === undefined) req.pipe(upstream);
    else req.pipe(new ReplacingStream(body.replacer)).pipe(upstream);
  }

  #upgrade(req: IncomingMessage, socket: Duplex, first: Buffer): void {
    const served = this.#served.get(req.socket);
    if (served === undefined) {
      socket.destroy();
      return;
    }
    const allowed = this.#judge(req, served.connection, true);
    if ('refused' in allowed) {
      endWith(socket, allowed.refused.status, allowed.refused.reason);
      return;
    }
    const { head, substituted, ...rest } = allowed;
    const refuse = (status: number, reason: string) => endWith(socket, status, reason);
    if (head.method !== 'GET' || head.length !== 0 || req.httpVersion !== '1.1') {
      const reason = 'an upgrade to WebSocket is a GET without a body';
      rest.report.denied(reason, 400);
      refuse(400, reason);
      return;
    }
    const { target, hasOverride } = head;
    const { head: sent, redaction, holds } = substituted;
    const secret = { sent, redaction, holds };
    openWebSocket({ req, socket, first, ...served, ...rest, ...secret, target, hasOverride }, refuse);
  }

  #refuseTunnel(req: IncomingMessage, socket: Duplex): void {
    const connection = this.#served.get(req.socket)?.connection;
    const reason = 'the method CONNECT is never passed on';
    if (connection !== undefined)
      new RequestReport(connection, req.method ?? '', req.url ?? '').denied(reason, 403);
    endWith(socket, 403, reason);
  }

  #refuseBytes(error: NodeJS.ErrnoException, socket: Duplex): void {
    const connection = this.#served.get(socket)?.connection;
    const isSlow = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    const isLong = error.code === 'HPE_HEADER_OVERFLOW';
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const reason = isSlow
      ? 'its head took too long'
      : isLong
        ? 'its head is too long'
        : 'its HTTP request is not valid';
    const status = isSlow ? 408 : isLong ? 431 : 400;
    connection?.report({ verdict: 'denied', reason, status });
    endWith(socket, status, reason);
  }
}

type Refusal = { readonly status: 400 | 403 | 421 | 431; readonly reason: string };

function toReason({ message, ...error }: NodeJS.ErrnoException): string {
  const code = error.code ?? '';
  if (code.startsWith('HPE_')) return 'the answer of the server is not valid HTTP';
  if (code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE')
    return 'the server ended the connection';
  return /^(?:the|its) /.test(message) ? message : 'the server failed';
}

/** What the client gets in place of the server's answer. */
export function toBody(reason: string): string {
  return `sandbox network: ${reason}\n`;
}

function answer(res: ServerResponse, status: number, reason: string): void {
  const body = toBody(reason);
  // What was not valid may end elsewhere than it seems.
  const isEnd = status === 400 || status === 421;
  res.writeHead(status, {
    'Content-Type': 'text/plain',
    'Content-Length': Buffer.byteLength(body),
    ...(isEnd && { Connection: 'close' }),
  });
  res.end(body);
}

function endWith(socket: Duplex, status: number, reason: string): void {
  const body = toBody(reason);
  socket.on('error', () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `Connection: close\r\n\r\n${body}`,
  );
}
