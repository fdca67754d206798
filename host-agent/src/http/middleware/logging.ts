// Gives each request an id, and logs it: failures of the daemon with their error, health checks only at debug level.
import { createMiddleware } from 'hono/factory';
import type { Logger } from 'pino';
import { AppError, type ErrorCode } from '../../lib/errors.ts';
import { randomSuffix } from '../../lib/ids.ts';
import { hasKey } from '../../lib/logger.ts';
import { type HttpEnv, headerOf } from '../context.ts';

/** Errors with status 500 or above that are not failures of the daemon. */
const EXPECTED: ReadonlySet<ErrorCode> = new Set([
  'cancelled',
  'exhausted',
  'port_failed',
  'port_not_listening',
  'port_timeout',
  'unsupported',
]);

/** Limit for text of clients: a path may have 16 KiB, and error messages quote it. */
export const MAX_LOGGED_CHARS = 1000;

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
