// Requests of HTTP/2, also of gRPC: each stream is read, judged, and opened again on a connection of its guest's alone.
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { type Duplex, pipeline } from 'node:stream';
import { guardFirstBytes } from '../lib/http2-sessions.ts';
import { CHANGED, NoServer, type ReadConnection } from './read-connection.ts';
import { redact } from './redacted-answer.ts';
import {
  type Headers,
  hasMethodParameter,
  isOverride,
  isPathOverride,
  refuseAuthority,
  toPairs,
} from './request-head.ts';
import { BY_RULE, RequestReport } from './request-report.ts';
import { cut, endWith, refuseStream, toFields, withoutLength } from './streams.ts';
import { type Redaction, ReplacingStream } from './substitution/index.ts';
import type { Sent, Substitution } from './substitution.ts';

const MAX_HEAD_BYTES = 65_536;
const MAX_STREAMS = 100;
const WINDOW_BYTES = 1024 * 1024;
/** Of one answer, which is kept while the guest does not read it. */
const ANSWER_WINDOW_BYTES = 256 * 1024;
const SETTINGS = {
  enablePush: false,
  enableConnectProtocol: false,
  maxConcurrentStreams: MAX_STREAMS,
  maxHeaderListSize: MAX_HEAD_BYTES,
  initialWindowSize: WINDOW_BYTES,
};
const LIMITS = {
  maxSessionMemory: 16,
  maxHeaderListPairs: 512,
  maxOutstandingPings: 8,
  maxOutstandingSettings: 8,
  maxSessionInvalidFrames: 32,
  maxSessionRejectedStreams: 64,
  streamResetBurst: 200,
  streamResetRate: 20,
  // Both ends may send a field twice.
  strictSingleValueFields: false,
};
/** What HTTP/2 itself has in their place, and what would lead the client away. */
const DROPPED = new Set([
  'host',
  'connection',
  'expect',
  'http2-settings',
  'alt-svc',
  'te',
  'proxy-authorization',
]);
const { NGHTTP2_NO_ERROR } = constants;

type Judged =
  | {
      readonly headers: OutgoingHttpHeaders;
      readonly rule: string;
      readonly substituted: Sent;
      readonly request: OpenedRequest;
    }
  | { readonly status: 400 | 403 | 421 | 431; readonly reason: string };

type OpenedRequest = {
  readonly method: string;
  readonly target: string;
  readonly hasOverride: boolean;
  readonly hasPathOverride: boolean;
  readonly isWebSocket: false;
};

export class Http2 {
  readonly #substitution: Substitution;

  constructor(substitution: Substitution) {
    this.#substitution = substitution;
  }

  /** `server`: a connection to the server that speaks HTTP/2, or why there is none. */
  serve(connection: ReadConnection, stream: Duplex, server: Duplex | NoServer): void {
    const session = performServerHandshake(stream, {
      ...LIMITS,
      settings: SETTINGS,
      unknownProtocolTimeout: 1000,
    });
    guardFirstBytes(session, stream);
    const upstream = server instanceof NoServer ? server : this.#connect(connection, server);
    const end = (): void => {
      connection.destroy();
      if (!(upstream instanceof NoServer)) upstream.destroy();
    };
    session.on('error', () => session.destroy());
    session.once('connect', () => session.setLocalWindowSize(4 * WINDOW_BYTES));
    session.on('close', end);
    stream.once('close', end);
    if (!(upstream instanceof NoServer)) {
      // Requests under way go on; the guest opens another connection for the next.
      upstream.on('goaway', () => session.close());
      upstream.on('close', () => session.close());
    }
    session.on('stream', (request, headers, _flags, raw) =>
      this.#handle(connection, session, upstream, request, headers, toPairs(raw as unknown as string[])),
    );
  }

  #connect(connection: ReadConnection, server: Duplex): ClientHttp2Session {
    const upstream = connect(`${connection.scheme}://${connection.authority}`, {
      ...LIMITS,
      createConnection: () => server,
      settings: {
        enablePush: false,
        maxHeaderListSize: MAX_HEAD_BYTES,
        initialWindowSize: ANSWER_WINDOW_BYTES,
      },
    });
    guardFirstBytes(upstream, server);
    upstream.on('error', () => upstream.destroy());
    upstream.once('connect', () => upstream.setLocalWindowSize(4 * WINDOW_BYTES));
    return upstream;
  }

  #handle(
    connection: ReadConnection,
    session: ServerHttp2Session,
    upstream: ClientHttp2Session | NoServer,
    guest: ServerHttp2Stream,
    fields: IncomingHttpHeaders,
    raw: Headers,
  ): void {
    guest.on('error', () => undefined);
    const report = new RequestReport(
      connection,
      String(fields[':method'] ?? ''),
      String(fields[':path'] ?? ''),
    );
    const refuse = (status: number, reason: string): void => {
      report.denied(reason, status);
      refuseStream(guest, status, reason);
    };
    const judged = this.#judge(connection, raw);
    if ('status' in judged) refuse(judged.status, judged.reason);
    else if (upstream instanceof NoServer) {
      refuse(upstream.status, upstream.message);
      // The next connection may find one.
      session.close();
    } else if (upstream.closed || upstream.destroyed) {
      // It was not sent: the guest may send it again, on another connection.
      guest.close(constants.NGHTTP2_REFUSED_STREAM);
      session.close();
    } else this.#send(connection, upstream, guest, judged, report);
  }

  #judge(connection: ReadConnection, raw: Headers): Judged {
    const { handed } = connection;
    const refuse = (reason: string): Judged => ({ status: 400, reason });
    const valuesOf = (wanted: string) => raw.filter(([name]) => name === wanted).map(([, value]) => value);
    for (const name of [
      ':method',
      ':path',
      ':scheme',
      ':authority',
      'host',
      'authorization',
      'content-type',
      'content-length',
    ])
      if (valuesOf(name).length > 1) return refuse(`it has more than one ${name}`);
    const [method = '', target = '', authority, host] = [':method', ':path', ':authority', 'host'].map(
      (name) => valuesOf(name)[0],
    );
    if (valuesOf(':protocol').length > 0)
      return { status: 403, reason: 'no rule for it has websocket: true' };
    if (method === 'CONNECT') return { status: 403, reason: 'the method CONNECT is never passed on' };
    if (authority === undefined) return refuse('it has no authority');
    const misdirected =
      refuseAuthority(authority, handed) ?? (host === undefined ? undefined : refuseAuthority(host, handed));
    if (misdirected !== undefined) return misdirected;
    if (valuesOf(':scheme')[0] !== connection.scheme)
      return refuse('its scheme is not that of the connection');
    if (!/^\/[!-~]*$/.test(target) || target.includes('#')) return refuse('its path is not valid');
    const hasOverride = raw.some(([name]) => isOverride(name)) || hasMethodParameter(target);
    const hasPathOverride = raw.some(([name]) => isPathOverride(name));
    const request = { method, target, hasOverride, hasPathOverride, isWebSocket: false as const };
    const verdict = connection.judge(request);
    if (!verdict.isAllowed) return verdict;
    const { name, port } = handed;
    const headers = raw.filter(([field]) => !field.startsWith(':') && !DROPPED.has(field));
    const substituted = this.#substitution.request({
      ...{ host: name, port, isTls: handed.kind === 'tls', method, headers },
      target: verdict.target,
    });
    if ('refused' in substituted) return { status: substituted.status, reason: substituted.refused };
    const { head, body } = substituted;
    return {
      headers: {
        ':method': head.method,
        ':path': head.target,
        ':scheme': connection.scheme,
        ':authority': connection.authority,
        ...toFields(body?.keepsLength === false ? withoutLength(head.headers) : head.headers),
        // The only value that there is.
        ...(valuesOf('te').includes('trailers') && { te: 'trailers' }),
      },
      ...{ rule: verdict.rule, substituted, request },
    };
  }

  #send(
    connection: ReadConnection,
    upstream: ClientHttp2Session,
    guest: ServerHttp2Stream,
    { headers, rule, substituted, request }: Exclude<Judged, { status: number }>,
    report: RequestReport,
  ): void {
    let sent: ClientHttp2Stream;
    try {
      sent = upstream.request(headers, { endStream: guest.readableEnded || guest.endAfterHeaders });
    } catch {
      const reason = 'its head cannot be sent on';
      report.denied(reason, 502);
      refuseStream(guest, 502, reason);
      return;
    }
    let isOver = false;
    let status: number | undefined;
    const { holds } = substituted;
    // Its server may let it wait, so the answer alone shows that its head is there.
    const isSent = (): boolean =>
      status !== undefined && (substituted.body === undefined || sent.writableEnded);
    const open = { request, holds: holds && (() => holds(isSent())), cancel: () => fail(CHANGED, 403) };
    const end = (): boolean => {
      if (isOver) return false;
      isOver = true;
      connection.requests.delete(open);
      return true;
    };
    const fail = (reason: string, code: number): void => {
      if (!end()) return;
      cut(sent);
      report.denied(reason, status ?? code);
      if (guest.headersSent) cut(guest);
      else refuseStream(guest, code, reason);
    };
    connection.requests.add(open);
    sent.on('error', () => fail('the server ended the request', 502));
    report.use(substituted);
    const { method } = request;
    const { redaction, body } = substituted;
    this.#answer(sent, guest, { method, redaction }, report, fail, (answered) => {
      status = answered;
    });
    sent.once('close', () => {
      if (sent.rstCode !== NGHTTP2_NO_ERROR || status === undefined) {
        if (guest.headersSent && end()) {
          report.allowed(rule, 'the server ended it', status);
          cut(guest);
        } else fail('the server ended the request', 502);
      }
    });
    guest.once('close', () => {
      if (!end()) return;
      const isWhole = guest.rstCode === NGHTTP2_NO_ERROR && status !== undefined;
      if (!isWhole) cut(sent);
      report.allowed(rule, isWhole ? BY_RULE : 'the guest ended it', status);
    });
    if (guest.endAfterHeaders) return;
    report.count('up', guest);
    // Trailers of requests are dropped: a header could be among them.
    const upward = body && new ReplacingStream(body.replacer);
    if (upward === undefined) guest.pipe(sent, { end: false });
    else guest.pipe(upward, { end: false }).pipe(sent);
    endWith(
      guest,
      () => (upward ?? sent).end(),
      () => cut(sent),
    );
  }

  #answer(
    sent: ClientHttp2Stream,
    guest: ServerHttp2Stream,
    { method, redaction }: { readonly method: string; readonly redaction: Redaction | undefined },
    report: RequestReport,
    fail: (reason: string, status: number) => void,
    onStatus: (status: number) => void,
  ): void {
    let trailers: Headers = [];
    sent.on('trailers', (_fields, _flags, raw) => {
      const given = toPairs((raw ?? []) as unknown as string[]).filter(
        ([name]) => !name.startsWith(':') && !DROPPED.has(name),
      );
      trailers = redaction?.headers(given) ?? given;
    });
    sent.once('response', (fields, _flags, raw) => {
      const status = Number(fields[':status']);
      if (guest.destroyed || guest.closed) {
        onStatus(status);
        return;
      }
      const given = toPairs(raw as unknown as string[]).filter(
        ([name]) => !name.startsWith(':') && !DROPPED.has(name),
      );
      const shown = redact(redaction, method, status, given);
      if (shown.kind === 'unreadable') {
        fail(shown.reason, 502);
        return;
      }
      try {
        if (!(status >= 200 && status <= 599)) throw new Error('no status');
        const head = { ...toFields(shown.headers), ':status': status };
        guest.respond(head, { waitForTrailers: true, endStream: false });
      } catch {
        fail('the head of the server’s answer cannot be sent on', 502);
        return;
      }
      onStatus(status);
      // Without any, the last frame of the body ends it.
      guest.on('wantTrailers', () => {
        try {
          guest.sendTrailers(toFields(trailers));
        } catch {
          cut(guest);
        }
      });
      report.count('down', sent);
      const [first, ...rest] = shown.body;
      if (first === undefined) sent.pipe(guest, { end: false });
      else
        pipeline([sent.pipe(first, { end: false }), ...rest, guest], (error) => {
          if (error) cut(guest);
        });
      endWith(
        sent,
        () => (first ?? guest).end(),
        () => cut(guest),
      );
    });
  }
}
