// Counts requests and measures their duration to the end of the response, by operation. Unknown paths share one label.
import { createMiddleware } from 'hono/factory';
import type { Metrics } from '../../metrics/index.ts';
import { endOf, type HttpEnv } from '../context.ts';
import { findRoute } from '../known-routes.ts';

const UNKNOWN = 'unknown';

export function metrics(registry: Metrics) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const route = findRoute(c.req.method, c.req.path);
    const operation = route?.name ?? UNKNOWN;
    const startedAt = performance.now();
    registry.open.inc({ operation });
    await next();
    const { status } = c.res;
    const record = (): void => {
      registry.open.dec({ operation });
      registry.answered(operation, status, (performance.now() - startedAt) / 1000);
    };
    const lifetime = route?.transport === undefined || status >= 400 ? undefined : endOf(c);
    if (lifetime === undefined) record();
    else lifetime.once('close', record);
  });
}
