// Refuses what the page of another site has a browser send: it needs no answer to make or end sandboxes, and whoever has a
// browser on this machine may visit any site. Programs send no Origin.
import { show } from '@sandboxd/api';
import { createMiddleware } from 'hono/factory';
import { AppError } from '../../lib/errors.ts';
import type { HttpEnv } from '../context.ts';

/** They change nothing, and a browser keeps their answers from foreign pages; a WebSocket's it does not. */
const READING: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** AppError `forbidden`. */
export const ownOrigin = createMiddleware<HttpEnv>(async (c, next) => {
  const origin = c.req.header('origin');
  const isHarmless = READING.has(c.req.method) && c.req.header('upgrade') === undefined;
  if (origin !== undefined && !isHarmless && !isSameOrigin(origin, c.req.header('host')))
    throw new AppError('forbidden', `origin ${show(origin)} is foreign to this daemon; send none`);
  await next();
});

function isSameOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
}
