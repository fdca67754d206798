// Serves the table of routes: finds the route of a request and calls the handler of that name with validated input.
import {
  type Answer,
  type JsonContent,
  ROUTES,
  type Route,
  type RouteName,
  type Routes,
  show,
  takesIdempotencyKey,
  toPathPattern,
} from '@sandboxd/api';
import type { z } from 'zod';
import type { Answers } from '../idempotency/index.ts';
import { assertAccess } from '../keys/index.ts';
import { type HttpApp, type HttpContext, headerOf } from './context.ts';
import { HttpError } from './errors.ts';
import { Idempotency } from './idempotency.ts';
import { isStrict, PREFERENCE_APPLIED, STRICT } from './input/preference.ts';
import { type Input, readInput } from './input/request-input.ts';
import { PLACE_HEADER, PLACED_ROUTES, type Placement } from './placement.ts';
import type { LookUps } from './routes/look-ups.ts';

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

type JsonAnswer<A extends Answer> = A extends {
  content: { 'application/json': JsonContent & { schema: infer S extends z.ZodType } };
}
  ? Frozen<z.input<S>>
  : never;

/** The JSON body of the response, undefined for a response without body, or a whole response. */
export type Reply<R extends Route> =
  | JsonAnswer<R['answers'][number]>
  | (R['answers'][number] extends { status: 204 } ? undefined : never)
  | Response;

export type Handler<R extends Route> = (input: Input<R>, c: HttpContext) => Reply<R> | Promise<Reply<R>>;

/** One handler for each route of the table. */
export type Handlers = { readonly [N in RouteName]: Handler<Routes[N]> };

export function serveRoutes<N extends RouteName>(
  app: HttpApp,
  routes: Readonly<Record<N, Route>>,
  handlers: Pick<Handlers, NoInfer<N>>,
  {
    answers,
    digestSecrets,
    placement,
    bodyIdleMs,
    lookUps,
  }: {
    readonly answers: Answers;
    readonly digestSecrets: (text: string) => string;
    readonly placement: Placement;
    readonly bodyIdleMs?: number;
    readonly lookUps?: Pick<LookUps, 'assertHere'>;
  },
): void {
  const idempotency = new Idempotency(answers, digestSecrets);
  for (const [name, route] of Object.entries<Route>(routes)) {
    const handle = handlers[name as N] as Handler<Route>;
    const [answer] = route.answers;
    app.on(route.method, route.path, async (c) => {
      assertAccess(c.get('principal'), route);
      await lookUps?.assertHere(c, name as RouteName);
      if (isStrict(c)) c.header(PREFERENCE_APPLIED, STRICT);
      const input = await readInput(c, route, bodyIdleMs);
      const carryOut = async (): Promise<Response> => {
        const reply: unknown = await handle(input, c);
        if (reply instanceof Response) return reply;
        if (answer?.status === 204) return c.body(null, 204);
        // The schemas of GET responses have no warnings.
        const hasWarnings = route.method !== 'GET' && input.warnings.length > 0;
        const { warnings } = input;
        const body = hasWarnings ? { ...(reply as object), warnings } : (reply as object);
        return c.json(body, answer?.status === 201 ? 201 : 200);
      };
      if (!takesIdempotencyKey(route)) return carryOut();
      const makesNothing =
        placement.needsPlace && PLACED_ROUTES.has(name) && headerOf(c, PLACE_HEADER) === undefined;
      return idempotency.answer(c, route, input, { bodyIdleMs, makesNothing }, carryOut);
    });
  }
}

type NamedRoute = Route & { readonly name: string };

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
