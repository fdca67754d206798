// Requests of HTTP/1: each is read, judged, and written again on a connection to the server that only this connection
// of the guest uses.
import {
  Agent,
  type ClientRequest,
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
import { answer, endWith, toReason } from './refusals.ts';
import {
  findOddHead,
  type GuestHead,
  type Headers,
  type Refused,
  readGuestHead,
  toGuestHeaders,
} from './request-head.ts';
import { BY_RULE, RequestReport } from './request-report.ts';
import { ReplacingStream } from './substitution/index.ts';
import type { Sent, Substitution } from './substitution.ts';
import { isWebSocket, openWebSocket } from './web-socket.ts';

const MAX_HEAD_BYTES = 65_536;
const HEAD_MS = 10_000;
const IDLE_MS = 3600 * 1000;
/** Interim answers to one request. */
const MAX_INTERIM = 16;
/** Requests of one connection that wait for their answer. */
const MAX_UNANSWERED = 64;
/** They change nothing when they come twice. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Methods whose requests have no body unless they say so. */
const BODILESS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

/** A connection, and its agent: one connection to the server at a time. */
type Served = { readonly connection: ReadConnection; readonly agent: Agent; unanswered: number };

type Refusal = { readonly status: 400 | 403 | 421 | 431; readonly reason: string };

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
    this.#served.set(stream, { connection, agent, unanswered: 0 });
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
    if (served === undefined || req.socket.destroyed || served.unanswered >= MAX_UNANSWERED) {
      req.socket.destroy();
      return;
    }
    served.unanswered++;
    res.once('close', () => served.unanswered--);
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
    const { target, hasOverride, hasPathOverride } = head;
    const verdict = connection.judge({
      ...{ method, target, hasOverride, hasPathOverride, isWebSocket: isUpgrade },
    });
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
    let upstream: ClientRequest;
    try {
      upstream = requestOf({
        ...{ agent, method, path: target, host: connection.handed.name, port: connection.handed.port },
        headers: [...headers, ...framing].flat(),
        ...{ setHost: false, maxHeaderSize: MAX_HEAD_BYTES, insecureHTTPParser: false },
      });
      // One that waits for a body, or for its turn, keeps no value for later.
      upstream.flushHeaders();
    } catch {
      const reason = 'its head cannot be sent on';
      report.denied(reason, 502);
      answer(res, 502, reason);
      return;
    }
    const isSent = (): boolean => upstream.socket !== null && (body === undefined || upstream.writableEnded);
    const open = {
      request: {
        method: head.method,
        target: head.target,
        hasOverride: head.hasOverride,
        hasPathOverride: head.hasPathOverride,
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
      // Its answer may be over, while its body is not.
      if (res.headersSent || res.destroyed) req.socket.destroy();
      else answer(res, status, reason);
    };
    /** The answer is over. Until its body is as well, the request goes on. */
    const conclude = (): void => {
      if (isOver) return;
      if (!upstream.writableFinished && !upstream.closed) {
        upstream.once('close', conclude);
        return;
      }
      end();
      report.allowed(rule, BY_RULE, res.statusCode);
      if (req.complete) return;
      req.unpipe(upstream);
      req.resume();
    };
    let interim = 0;
    connection.requests.add(open);
    upstream.on('error', fail);
    upstream.on('information', () => {
      if (++interim > MAX_INTERIM) fail(new Error('the server sends interim answers without end'));
    });
    upstream.on('upgrade', (_answer, socket) => {
      socket.destroy();
      fail(new Error('the server changed the protocol without a request for it'));
    });
    upstream.on('response', (answered) => {
      if (isOver) {
        answered.destroy();
        return;
      }
      const odd = findOddHead(answered);
      if (odd !== undefined) {
        fail(new Error(odd));
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
      try {
        res.writeHead(status, redaction?.text(statusMessage) ?? statusMessage, shown.headers.flat());
      } catch {
        fail(new Error('the head of the server’s answer cannot be sent on'));
        return;
      }
      const done = (error?: Error | null): void => {
        if (error) fail(error);
        else conclude();
      };
      pipeline([answered, ...shown.body, res], done);
    });
    res.once('close', () => {
      if (isOver) return;
      if (res.writableFinished) {
        conclude();
        return;
      }
      end();
      upstream.destroy();
      report.allowed(rule, 'the guest ended it', res.statusCode);
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
    const { target, hasOverride, hasPathOverride } = head;
    const { head: sent, redaction, holds } = substituted;
    const about = { sent, redaction, holds, target, hasOverride, hasPathOverride };
    openWebSocket({ req, socket, first, ...served, ...rest, ...about }, refuse);
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
