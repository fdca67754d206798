// One line per answered request; a failure of ours with its error, a probe of liveness only when debugging.
import { createMiddleware } from 'hono/factory';
import type { Logger } from 'pino';
import { AppError, type ErrorCode } from '../../lib/errors.ts';
import type { HttpEnv } from '../context.ts';

/** Answers of 500 and above that are no failure of the daemon. */
const EXPECTED: ReadonlySet<ErrorCode> = new Set(['cancelled', 'exhausted', 'unsupported']);

/** A client may send 16 KiB of path with each request, and errors quote it. */
export const MAX_LOGGED_CHARS = 1000;

export function logging(log: Logger) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const startedAt = performance.now();
    const traceId = c.get('traceId');
    const own = log.child({ requestId: c.get('requestId'), ...(traceId !== undefined && { traceId }) });
    c.set('log', own);
    await next();
    const isOurs = c.res.status >= 500 && !(c.error instanceof AppError && EXPECTED.has(c.error.code));
    const line = {
      method: c.req.method,
      path: c.req.path.slice(0, MAX_LOGGED_CHARS),
      status: c.res.status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      ...(c.error === undefined
        ? {}
        : isOurs
          ? { err: c.error }
          : { reason: c.error.message.slice(0, MAX_LOGGED_CHARS) }),
    };
    if (isOurs) own.error(line, 'request failed');
    else if (c.req.path === '/healthz') own.debug(line, 'request');
    else own.info(line, 'request');
  });
}
