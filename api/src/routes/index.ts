// The table of all routes.
import { INTERFACE_LIMITS, type RequestLimits } from '../limits.ts';
import { commandRoutes } from './commands.ts';
import { consoleRoutes } from './console.ts';
import { eventRoutes } from './events.ts';
import { execRoutes } from './exec.ts';
import { fileRoutes } from './files.ts';
import { hostRoutes } from './hosts.ts';
import { imageRoutes } from './images.ts';
import { linkRoutes } from './links.ts';
import { logRoutes } from './logs.ts';
import { mcpRoutes } from './mcp.ts';
import { metaRoutes } from './meta.ts';
import { networkRoutes } from './network.ts';
import { portRoutes } from './ports.ts';
import { sandboxRoutes } from './sandboxes.ts';
import { secretRoutes } from './secrets.ts';
import { serviceRoutes } from './service.ts';
import { snapshotRoutes } from './snapshots.ts';

/** The routes by name, with the limits of one daemon. */
export function routesWithin(limits: RequestLimits) {
  return {
    ...metaRoutes,
    ...hostRoutes,
    ...consoleRoutes,
    ...mcpRoutes,
    ...imageRoutes,
    ...sandboxRoutes(limits),
    ...eventRoutes,
    ...execRoutes,
    ...commandRoutes,
    ...fileRoutes,
    ...logRoutes,
    ...serviceRoutes,
    ...portRoutes,
    ...networkRoutes,
    ...secretRoutes,
    ...linkRoutes,
    ...snapshotRoutes(limits),
  };
}

/** The routes with the limits of the API, which no daemon exceeds. */
export const ROUTES = routesWithin(INTERFACE_LIMITS);

export type Routes = typeof ROUTES;
export type RouteName = keyof Routes;
