// Gives every request an id and returns it in a header. Uses the id of the client if it is valid.
import { createMiddleware } from 'hono/factory';
import { hasKey } from '../../lib/hide-keys.ts';
import { randomSuffix } from '../../lib/ids.ts';
import { type HttpEnv, headerOf } from '../context.ts';

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
