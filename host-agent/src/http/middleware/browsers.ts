// What browsers need of answers: that they keep no copy of them, and the way to the console.
import { createMiddleware } from 'hono/factory';
import type { ConsoleFiles } from '../console-files.ts';
import { type HttpEnv, headerOf } from '../context.ts';

/** A copy of a file or of an answer for a key would stay on the disk of the user. A route may set another value. */
export const noStore = createMiddleware<HttpEnv>(async (c, next) => {
  c.header('Cache-Control', 'no-store');
  await next();
});

/** Addresses that people type. Relative, since a proxy may have put a path before them. */
const ENTRANCES: Readonly<Record<string, string>> = { '/': 'console', '/console/': '../console' };

/** Leads a person to the console; a program gets the error of the API. */
export function consoleEntrance(files: ConsoleFiles) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const { method, path } = c.req;
    const target = Object.hasOwn(ENTRANCES, path) ? ENTRANCES[path] : undefined;
    const isBrowser = /\btext\/html\b/i.test(headerOf(c, 'accept') ?? '');
    if (target === undefined || !isBrowser || !files.hasAny || (method !== 'GET' && method !== 'HEAD'))
      return await next();
    return c.body(null, 302, { Location: target, Vary: 'Accept' });
  });
}
