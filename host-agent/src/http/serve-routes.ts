// Serves the table of routes. Each route calls the handler of the same name with validated input.
import type { Answer, JsonContent, Route, RouteName, Routes } from '@sandboxd/api';
import type { z } from 'zod';
import { assertAccess } from '../keys/index.ts';
import type { HttpApp, HttpContext } from './context.ts';
import { type Input, isStrict, PREFERENCE_APPLIED, readInput, STRICT } from './input/request-input.ts';

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
  bodyIdleMs?: number,
): void {
  for (const [name, route] of Object.entries<Route>(routes)) {
    const handle = handlers[name as N] as Handler<Route>;
    const [answer] = route.answers;
    app.on(route.method, route.path, async (c) => {
      assertAccess(c.get('principal'), route);
      if (isStrict(c)) c.header(PREFERENCE_APPLIED, STRICT);
      const input = await readInput(c, route, bodyIdleMs);
      const reply: unknown = await handle(input, c);
      if (reply instanceof Response) return reply;
      if (answer?.status === 204) return c.body(null, 204);
      // The schemas of GET responses have no warnings.
      const hasWarnings = route.method !== 'GET' && input.warnings.length > 0;
      const { warnings } = input;
      const body = hasWarnings ? { ...(reply as object), warnings } : (reply as object);
      return c.json(body, answer?.status === 201 ? 201 : 200);
    });
  }
}
