// Counts each request and how long its answer took to its end, by operation: paths that nobody knows are one.
import { createMiddleware } from 'hono/factory';
import type { Metrics } from '../../metrics/index.ts';
import { endOf, type HttpEnv } from '../context.ts';
import { findRoute } from '../known-routes.ts';

const UNKNOWN = 'unknown';

export function metrics(kept: Metrics) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    const route = findRoute(c.req.method, c.req.path);
    const operation = route?.name ?? UNKNOWN;
    const startedAt = performance.now();
    kept.open.inc({ operation });
    await next();
    const { status } = c.res;
    const answered = (): void => {
      kept.open.dec({ operation });
      kept.answered(operation, status, (performance.now() - startedAt) / 1000);
    };
    const over = route?.transport === undefined || status >= 400 ? undefined : endOf(c);
    if (over === undefined) answered();
    else over.once('close', answered);
  });
}
