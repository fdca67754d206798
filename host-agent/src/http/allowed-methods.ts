// Tells a wrong path (404) from a wrong method (405) by the table of routes, which Hono itself does not.
import type { Hono } from 'hono';
import { TrieRouter } from 'hono/router/trie-router';
import { type HttpContext, type HttpEnv, show } from './context.ts';
import { HttpError } from './errors.ts';

/** The handler of requests that match no route; to be made after every route is registered. */
export function createNotFound(app: Hono<HttpEnv>): (c: HttpContext) => never {
  const paths = new TrieRouter<string>();
  for (const { method, path } of app.routes) {
    if (method !== 'ALL') paths.add('ALL', path, method);
  }
  return (c) => {
    const methods = new Set(paths.match('ALL', c.req.path)[0].map(([method]) => method));
    if (methods.size === 0) {
      throw new HttpError(
        'unknown_path',
        `no such path: ${show(c.req.path)}; README.md says where all are described`,
      );
    }
    if (methods.has('GET')) methods.add('HEAD');
    const allow = [...methods].sort().join(', ');
    throw new HttpError(
      'method_not_allowed',
      `${c.req.method} is not allowed on ${c.req.path}; use ${allow}`,
      {
        Allow: allow,
      },
    );
  };
}
