// Finds the route of a request by its method and path.
import { ROUTES, type Route, toPathPattern } from '@sandboxd/api';

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
