// Records each request in the audit trail: principal, operation, decision, result, duration. Never the body or query.
import type { IncomingMessage } from 'node:http';
import { createMiddleware } from 'hono/factory';
import type { AuditEntry, RequestEntry } from '../../audit/index.ts';
import type { KeyHolder } from '../../keys/index.ts';
import { addressOf, endOf, type HttpContext, type HttpEnv } from '../context.ts';
import { toErrorAnswer } from '../errors.ts';
import { findRoute, toPath } from '../serve-routes.ts';

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
  { method = '', url, socket }: IncomingMessage,
  error: unknown,
  requestId: string,
): void {
  const path = toPath(url);
  const { status, body } = toErrorAnswer(error, requestId);
  sink.write({
    event: 'refused',
    request: requestId,
    address: socket.remoteAddress ?? 'local',
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
