// Which route a request is for, by its method and path alone.
import { ROUTES, type Route, toPathPattern } from '@sandboxd/api';

export type NamedRoute = Route & { readonly name: string };

const known = Object.entries<Route>(ROUTES).map(([name, route]) => ({
  route: { ...route, name },
  pattern: toPathPattern(route),
}));

/** `path` as it came, without a query. HEAD is for the route of GET. */
export function findRoute(method: string, path: string): NamedRoute | undefined {
  const wanted = method === 'HEAD' ? 'GET' : method;
  return known.find(({ route, pattern }) => route.method === wanted && pattern.test(path))?.route;
}

/** The path of a request's target, which may name a host, too. */
export function toPath(target = ''): string {
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.split('?', 1)[0] ?? '';
}
