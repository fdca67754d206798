// What every request passes before its route, in this order (`app.ts`): its id, headers for browsers, span and metrics,
// log line, audit trail, authentication.
import type { IncomingMessage } from 'node:http';
import { createMiddleware } from 'hono/factory';
import type { Logger } from 'pino';
import type { AuditEntry, RequestEntry } from '../audit/index.ts';
import { ANONYMOUS, type KeyHolder, type Principal } from '../keys/index.ts';
import { AppError, type ErrorCode } from '../lib/errors.ts';
import { randomSuffix } from '../lib/ids.ts';
import { hasKey, hideKeys } from '../lib/logger.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Telemetry } from '../telemetry/index.ts';
import type { Authenticator } from './authentication.ts';
import { type ConsoleFiles, toConsoleEntrance } from './console-files.ts';
import {
  addressOf,
  connectionOf,
  endOf,
  frontCallerOf,
  type HttpContext,
  type HttpEnv,
  headerOf,
  MAX_LOGGED_CHARS,
} from './context.ts';
import { toErrorAnswer } from './errors.ts';
import { findRoute, toPath } from './serve-routes.ts';
import { addressOfClient } from './server/client-address.ts';

// Gives every request an id and returns it in a header. Uses the id of the client if it is valid.
export const REQUEST_ID_HEADER = 'X-Request-Id';

export function newRequestId(): string {
  return `req_${randomSuffix()}`;
}

/** The id of the client if it is short, safe in a log line and holds no key; otherwise a new one. */
export function resolveRequestId(offered: string | undefined): string {
  const isValid = offered !== undefined && /^[\w.:-]{1,128}$/.test(offered) && !hasKey(offered);
  return isValid ? offered : newRequestId();
}

export const requestId = createMiddleware<HttpEnv>(async (c, next) => {
  const id = resolveRequestId(headerOf(c, REQUEST_ID_HEADER.toLowerCase()));
  c.set('requestId', id);
  c.header(REQUEST_ID_HEADER, id);
  await next();
});

// What browsers need of answers: that they keep no copy of them, and the way to the console.

/** A copy of a file or of an answer for a key would stay on the disk of the user. A route may set another value. */
export const noStore = createMiddleware<HttpEnv>(async (c, next) => {
  c.header('Cache-Control', 'no-store');
  await next();
});

/** Leads a person to the console; a program gets the error of the API. */
export function consoleEntrance(files: ConsoleFiles) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const { method, path } = c.req;
    const target = toConsoleEntrance(files, { method, path, accept: headerOf(c, 'accept') ?? '' });
    if (target === undefined) return await next();
    return c.body(null, 302, { Location: target, Vary: 'Accept' });
  });
}

// What each request leaves in telemetry: a span of the client's trace, if tracing is enabled, and metrics.

export function tracing(telemetry: Telemetry | undefined) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    if (telemetry === undefined) return next();
    const { method, path } = c.req;
    const route = findRoute(method, path);
    const span = telemetry.begin({
      method,
      route: route?.path,
      operation: route?.name,
      path: hideKeys(path),
      requestId: c.get('requestId'),
      address: addressOf(c),
      header: (name) => {
        const value = headerOf(c, name);
        return value !== undefined && hasKey(value) ? undefined : value;
      },
    });
    if (span.traceId !== '') c.set('traceId', span.traceId);
    await span.within(next);
    const { status } = c.res;
    const lifetime = route?.transport === undefined || status >= 400 ? undefined : endOf(c);
    if (lifetime === undefined) span.end(status);
    else lifetime.once('close', () => span.end(status));
  });
}

// Counts requests and measures their duration to the end of the response, by operation. Unknown paths share one label.
const UNKNOWN = 'unknown';

export function metrics(registry: Metrics) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const route = findRoute(c.req.method, c.req.path);
    const operation = route?.name ?? UNKNOWN;
    const startedAt = performance.now();
    registry.open.inc({ operation });
    await next();
    const { status } = c.res;
    const record = (): void => {
      registry.open.dec({ operation });
      registry.answered(operation, status, (performance.now() - startedAt) / 1000);
    };
    const lifetime = route?.transport === undefined || status >= 400 ? undefined : endOf(c);
    if (lifetime === undefined) record();
    else lifetime.once('close', record);
  });
}

// Logs each request: failures of the daemon with their error, health checks only at debug level.

/** Errors with status 500 or above that are not failures of the daemon. */
const EXPECTED: ReadonlySet<ErrorCode> = new Set([
  'cancelled',
  'exhausted',
  'port_failed',
  'port_not_listening',
  'port_timeout',
  'unsupported',
]);

export function logging(log: Logger) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const startedAt = performance.now();
    const traceId = c.get('traceId');
    const requestLog = log.child({
      requestId: c.get('requestId'),
      ...(traceId !== undefined && { traceId }),
    });
    c.set('log', requestLog);
    await next();
    const isFailure = c.res.status >= 500 && !(c.error instanceof AppError && EXPECTED.has(c.error.code));
    const line = {
      method: c.req.method,
      path: c.req.path.slice(0, MAX_LOGGED_CHARS),
      status: c.res.status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      ...(c.error === undefined
        ? {}
        : isFailure
          ? { err: c.error }
          : { reason: c.error.message.slice(0, MAX_LOGGED_CHARS) }),
    };
    if (isFailure) requestLog.error(line, 'request failed');
    else if (c.req.path === '/healthz') requestLog.debug(line, 'request');
    else requestLog.info(line, 'request');
  });
}

// Records each request in the audit trail: principal, operation, decision, result, duration. Never the body or query.

export interface AuditSink {
  write(entry: AuditEntry): void;
}

/** Limits for text of clients, so that they cannot make a record long. */
const MAX_REASON_CHARS = 1000;
const MAX_IDS = 8;

const IDS = /(?:sbx|snap)_[0-9a-v]{13}/g;

/** The sink of a daemon whose operator has disabled the audit trail. */
export const NO_AUDIT: AuditSink = { write: () => undefined };

export function audit(sink: AuditSink) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    c.set('audit', {});
    const route = findRoute(c.req.method, c.req.path);
    if (route?.access === 'public') return next();
    const startedAt = performance.now();
    await next();
    const write = (event: RequestEntry['event']): void => sink.write({ event, ...describe(c, startedAt) });
    const lifetime = route?.transport === undefined || c.res.status >= 400 ? undefined : endOf(c);
    if (lifetime === undefined) return write('request');
    // Recorded at the start too, so that the record survives if the daemon is killed during the request.
    write('begun');
    lifetime.once('close', () => write('request'));
  });
}

/** Records a request that was refused before the app saw it. */
export function auditRefusal(
  sink: AuditSink,
  request: IncomingMessage,
  error: unknown,
  requestId: string,
): void {
  const { method = '', url } = request;
  const path = toPath(url);
  const { status, body } = toErrorAnswer(error, requestId);
  sink.write({
    event: 'refused',
    request: requestId,
    address: addressOfClient(request),
    ...describeTarget(method, path),
    ...judge(status, body.error),
    status,
    ms: 0,
  });
}

function describe(c: HttpContext, startedAt: number): Omit<RequestEntry, 'event'> {
  const principal = c.get('principal');
  const { made, effective, reached, replayed } = c.get('audit');
  const { status } = c.res;
  return {
    request: c.get('requestId'),
    address: addressOf(c),
    ...(principal.kind === 'key' && describeKey(principal)),
    ...describeTarget(c.req.method, c.req.path),
    ...(made && { made }),
    ...(effective && { effective }),
    ...(reached && status >= 400 && { reached }),
    ...(replayed && { replayed }),
    ...judge(status, c.error?.message),
    status,
    ms: Math.round((performance.now() - startedAt) * 10) / 10,
  };
}

function describeKey({ key, id, tenant }: KeyHolder): Pick<RequestEntry, 'key' | 'key_id' | 'tenant'> {
  return { key, key_id: id, ...(tenant !== undefined && { tenant }) };
}

/** Takes only ids from the path, by their syntax. The rest of an unknown path may be any text. */
function describeTarget(method: string, path: string): Pick<RequestEntry, 'route' | 'operation' | 'ids'> {
  const route = findRoute(method, path);
  const ids = path.match(IDS);
  const { access } = route ?? {};
  return {
    ...(route !== undefined && { route: route.name }),
    ...(access !== undefined && access !== 'public' && access !== 'any-key' && { operation: access }),
    ...(ids !== null && { ids: ids.slice(0, MAX_IDS) }),
  };
}

/** Records the reason only for refusals: messages of other errors quote the input of the client. */
function judge(status: number, reason: string | undefined): Pick<RequestEntry, 'decision' | 'reason'> {
  const decision = status === 401 ? 'unauthenticated' : status === 403 ? 'denied' : 'allowed';
  const isRefusal = decision !== 'allowed' && reason !== undefined;
  return { decision, ...(isRefusal && { reason: reason.slice(0, MAX_REASON_CHARS) }) };
}

// Authenticates every request, on every path, before its body is read.

export function authentication(authenticator: Authenticator) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    c.set('principal', ANONYMOUS);
    const isPublic = findRoute(c.req.method, c.req.path)?.access === 'public';
    const authenticate = (): Promise<Principal> =>
      authenticator.authenticate({
        authorization: headerOf(c, 'authorization'),
        protocols: headerOf(c, 'sec-websocket-protocol'),
        address: addressOf(c),
      });
    const principal = isPublic ? ANONYMOUS : (frontCallerOf(c)?.principal ?? (await authenticate()));
    c.set('principal', principal);
    if (principal.kind === 'key') {
      trackOpen(authenticator, principal, c);
      c.set('log', c.get('log').child({ key: principal.key }));
    }
    await next();
  });
}

function trackOpen(authenticator: Authenticator, principal: KeyHolder, c: HttpContext): void {
  const { incoming, outgoing, takeover } = connectionOf(c);
  const socket = takeover?.socket ?? incoming?.socket;
  const lifetime = takeover?.socket ?? outgoing;
  if (socket !== undefined && lifetime !== undefined) authenticator.open.add(principal, socket, lifetime);
}
