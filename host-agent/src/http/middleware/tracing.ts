// Records a span for each request, as part of the client's trace, if tracing is enabled.
import { createMiddleware } from 'hono/factory';
import { hasKey, hideKeys } from '../../lib/hide-keys.ts';
import type { Telemetry } from '../../telemetry/index.ts';
import { addressOf, endOf, type HttpEnv, headerOf } from '../context.ts';
import { findRoute } from '../known-routes.ts';

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
