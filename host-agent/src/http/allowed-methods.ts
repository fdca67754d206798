// Tells a wrong path (404) from a wrong method (405) by the table of routes, which Hono itself does not.
import { type Route, show, toPathPattern } from '@sandboxd/api';
import type { HttpContext } from './context.ts';
import { HttpError } from './errors.ts';

/** The handler of requests that match no route. */
export function createNotFound(routes: readonly Route[]): (c: HttpContext) => never {
  const known = routes.map((route) => ({ pattern: toPathPattern(route), method: route.method }));
  return (c) => {
    const { path } = c.req;
    const methods = new Set<string>(
      known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method),
    );
    if (methods.size === 0) {
      throw new HttpError(
        'unknown_path',
        `no such path: ${show(path)}; README.md says where all are described`,
      );
    }
    if (methods.has('GET')) methods.add('HEAD');
    const Allow = [...methods].sort().join(', ');
    const message = `${c.req.method} is not allowed on ${path}; use ${Allow}`;
    throw new HttpError('method_not_allowed', message, { Allow });
  };
}
