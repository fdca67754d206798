// Gives every request an id, the client's own when it is a sane one, and answers with it.
import { createMiddleware } from 'hono/factory';
import { hasKey } from '../../lib/hide-keys.ts';
import { randomSuffix } from '../../lib/ids.ts';
import { type HttpEnv, headerOf } from '../context.ts';

export const REQUEST_ID_HEADER = 'X-Request-Id';

export function newRequestId(): string {
  return `req_${randomSuffix()}`;
}

/** The offered id when it is short and harmless in a log line, a new one otherwise. */
export function resolveRequestId(offered: string | undefined): string {
  const isSane = offered !== undefined && /^[\w.:-]{1,128}$/.test(offered) && !hasKey(offered);
  return isSane ? offered : newRequestId();
}

export const requestId = createMiddleware<HttpEnv>(async (c, next) => {
  const id = resolveRequestId(headerOf(c, REQUEST_ID_HEADER.toLowerCase()));
  c.set('requestId', id);
  c.header(REQUEST_ID_HEADER, id);
  await next();
});
