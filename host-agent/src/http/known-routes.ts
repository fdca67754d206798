// Finds the route of a request by its method and path, and answers requests that match none.
import { ROUTES, type Route, show, toPathPattern } from '@sandboxd/api';
import type { HttpApp, HttpContext } from './context.ts';
import { HttpError } from './errors.ts';

export type NamedRoute = Route & { readonly name: string };

const known = Object.entries<Route>(ROUTES).map(([name, route]) => ({
  route: { ...route, name },
  pattern: toPathPattern(route),
}));

/** `path` is percent-encoded and has no query. HEAD uses the route of GET. */
export function findRoute(method: string, path: string): NamedRoute | undefined {
  const effective = method === 'HEAD' ? 'GET' : method;
  return known.find(({ route, pattern }) => route.method === effective && pattern.test(path))?.route;
}

/** The path of a request target, which may be an absolute URL. */
export function toPath(target = ''): string {
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.split('?', 1)[0] ?? '';
}

// Distinguishes an unknown path (404) from an unsupported method (405), which Hono does not do.
/** The handler of requests that match no route. Throws HttpError. */
export function createNotFound(routes: readonly Route[]): (c: HttpContext) => never {
  const known = routes.map((route) => ({ ...route, pattern: toPathPattern(route) }));
  return (c) => {
    const { path } = c.req;
    const matching = known.filter(({ pattern }) => pattern.test(path));
    const isLiteral = matching.some((route) => route.path === path);
    const methods = methodsOf(
      isLiteral ? matching.filter((route) => matchesLiterally(route, path)) : matching,
    );
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

/**
 * Answers 405 if a literal path such as `/snapshots/import` does not support the method. Otherwise the request would
 * match the route with an id in that place.
 */
export function guardLiteralPaths(app: HttpApp, routes: readonly Route[]): void {
  const notFound = createNotFound(routes);
  const isId = (path: string) =>
    routes.some((route) => !matchesLiterally(route, path) && toPathPattern(route).test(path));
  for (const { path } of routes.filter((route) => !route.path.includes(':') && isId(route.path))) {
    const methods = methodsOf(routes.filter((route) => matchesLiterally(route, path)));
    app.all(path, (c, next) => (methods.has(c.req.method) ? next() : notFound(c)));
  }
}

/** Whether the route's path is `path` itself, or matches it with a parameter that accepts any text. */
function matchesLiterally(route: Route, path: string): boolean {
  return route.path === path || (route.path.includes('{') && toPathPattern(route).test(path));
}

function methodsOf(routes: readonly Route[]): Set<string> {
  const methods = routes.map(({ method }) => method);
  return new Set<string>(methods.includes('GET') ? [...methods, 'HEAD'] : methods);
}
