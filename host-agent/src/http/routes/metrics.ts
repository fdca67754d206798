// The metrics of the daemon.
import type { Routes } from '@sandboxd/api';
import { tenantOf } from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import type { Handler } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

/** AppError forbidden for the key of a tenant, because the metrics cover all tenants. */
export function metricsHandler(metrics: HttpServices['metrics']): Handler<Routes['readMetrics']> {
  return async (_, c) => {
    const tenant = tenantOf(c.get('principal'));
    if (tenant !== undefined) {
      const message = `metrics are of all tenants together, so a key of tenant ${tenant} has none; use a key without a tenant`;
      throw new AppError('forbidden', message);
    }
    return c.body(await metrics.render(), 200, { 'Content-Type': metrics.contentType });
  };
}
