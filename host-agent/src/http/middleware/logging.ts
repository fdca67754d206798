// Logs each request: failures of the daemon with their error, health checks only at debug level.
import { createMiddleware } from 'hono/factory';
import type { Logger } from 'pino';
import { AppError, type ErrorCode } from '../../lib/errors.ts';
import type { HttpEnv } from '../context.ts';

/** Errors with status 500 or above that are not failures of the daemon. */
const EXPECTED: ReadonlySet<ErrorCode> = new Set(['cancelled', 'exhausted', 'unsupported']);

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
