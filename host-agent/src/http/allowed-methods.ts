// Tells a wrong path (404) from a wrong method (405) by the table of routes, which Hono itself does not.
import { type Route, show, toPathPattern } from '@sandboxd/api';
import type { HttpApp, HttpContext } from './context.ts';
import { HttpError } from './errors.ts';

/** The handler of requests that match no route. */
export function createNotFound(routes: readonly Route[]): (c: HttpContext) => never {
  const known = routes.map((route) => ({ ...route, pattern: toPathPattern(route) }));
  return (c) => {
    const { path } = c.req;
    const fitting = known.filter(({ pattern }) => pattern.test(path));
    const isWord = fitting.some((route) => route.path === path);
    const methods = methodsOf(isWord ? fitting.filter((route) => isWordOf(route, path)) : fitting);
    if (methods.size === 0) {
      throw new HttpError(
        'unknown_path',
        `no such path: ${show(path)}; README.md says where all are described`,
      );
    }
    const Allow = [...methods].sort().join(', ');
    const message = `${c.req.method} is not allowed on ${path}; use ${Allow}`;
    throw new HttpError('method_not_allowed', message, { Allow });
  };
}

/** A word in the place of an id is none: the requests that it does not allow are not for what has the id. */
export function guardWords(app: HttpApp, routes: readonly Route[]): void {
  const notFound = createNotFound(routes);
  const isId = (path: string) =>
    routes.some((route) => !isWordOf(route, path) && toPathPattern(route).test(path));
  for (const { path } of routes.filter((route) => !route.path.includes(':') && isId(route.path))) {
    const methods = methodsOf(routes.filter((route) => isWordOf(route, path)));
    app.all(path, (c, next) => (methods.has(c.req.method) ? next() : notFound(c)));
  }
}

/** Whether the path is the route's own, or one of a parameter that takes any text. */
function isWordOf(route: Route, path: string): boolean {
  return route.path === path || (route.path.includes('{') && toPathPattern(route).test(path));
}

function methodsOf(routes: readonly Route[]): Set<string> {
  const methods = routes.map(({ method }) => method);
  return new Set<string>(methods.includes('GET') ? [...methods, 'HEAD'] : methods);
}
