// What each request leaves in telemetry: a span of the client's trace, if tracing is enabled, and metrics.
import { createMiddleware } from 'hono/factory';
import { hasKey, hideKeys } from '../../lib/logger.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Telemetry } from '../../telemetry/index.ts';
import { addressOf, endOf, type HttpEnv, headerOf } from '../context.ts';
import { findRoute } from '../serve-routes.ts';

export function tracing(telemetry: Telemetry | undefined) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    if (telemetry === undefined) return next();
    const { method, path } = c.req;
    const route = findRoute(method, path);
    const span = telemetry.begin({
      method,
      route: route?.path,
      operation: route?.name,
      path: hideKeys(path),
      requestId: c.get('requestId'),
      address: addressOf(c),
      header: (name) => {
        const value = headerOf(c, name);
        return value !== undefined && hasKey(value) ? undefined : value;
      },
    });
    if (span.traceId !== '') c.set('traceId', span.traceId);
    await span.within(next);
    const { status } = c.res;
    const lifetime = route?.transport === undefined || status >= 400 ? undefined : endOf(c);
    if (lifetime === undefined) span.end(status);
    else lifetime.once('close', () => span.end(status));
  });
}

// Counts requests and measures their duration to the end of the response, by operation. Unknown paths share one label.
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
