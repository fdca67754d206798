// The REST API as one Hono app. It also runs without a server: `createHttpApp(services).request('/healthz')`.
import { ROUTES, type Route, routesWithin } from '@sandboxd/api';
import { Hono } from 'hono';
import type { Principal } from '../keys/index.ts';
import type { HttpApp, HttpContext, HttpEnv } from './context.ts';
import { toErrorAnswer } from './errors.ts';
import { ExecWebSockets } from './exec/upgrade.ts';
import {
  audit,
  authentication,
  consoleEntrance,
  logging,
  metrics,
  noStore,
  requestId,
  tracing,
} from './middleware.ts';
import { ANY_PLACE } from './placement.ts';
import { commandHandlers } from './routes/commands.ts';
import { consoleHandlers } from './routes/console.ts';
import { egressHandlers } from './routes/egress.ts';
import { eventHandlers } from './routes/events.ts';
import { execHandlers } from './routes/exec.ts';
import { fileHandlers } from './routes/files.ts';
import { hostHandlers } from './routes/hosts.ts';
import { imageHandlers } from './routes/images.ts';
import { logHandlers } from './routes/logs.ts';
import { LookUps } from './routes/look-ups.ts';
import { type Connect, connectTo, mcpHandlers } from './routes/mcp.ts';
import { metaHandlers } from './routes/meta.ts';
import { networkHandlers } from './routes/network.ts';
import { linkHandlers } from './routes/port-links.ts';
import { portHandlers } from './routes/ports.ts';
import { sandboxHandlers } from './routes/sandboxes.ts';
import { secretHandlers } from './routes/secrets.ts';
import { serviceHandlers } from './routes/service.ts';
import { singleFileHandlers } from './routes/single-files.ts';
import { snapshotHandlers } from './routes/snapshots.ts';
import { watchHandlers } from './routes/watch-files.ts';
import { createNotFound, guardLiteralPaths, serveRoutes } from './serve-routes.ts';
import type { HttpServices } from './services.ts';

export function createHttpApp(services: HttpServices): HttpApp {
  const app: HttpApp = new Hono<HttpEnv>();
  const routes = routesWithin(services.limits);
  const { log, authenticator } = services;
  app.use(
    requestId,
    noStore,
    consoleEntrance(services.console),
    tracing(services.telemetry),
    logging(log),
    metrics(services.metrics),
    audit(services.audit),
    authentication(authenticator),
  );
  const webSockets = new ExecWebSockets();
  const lookUps = new LookUps(services.sandboxes, services.placement);
  const handlers = {
    ...metaHandlers(services),
    ...hostHandlers(services),
    ...consoleHandlers(services),
    ...mcpHandlers(
      services,
      connectTo((request, env) => app.fetch(request, env)),
    ),
    ...imageHandlers(services),
    ...sandboxHandlers(services, lookUps),
    ...eventHandlers(services),
    ...execHandlers(services, webSockets),
    ...commandHandlers(services, webSockets),
    ...serviceHandlers(services),
    ...portHandlers(services),
    ...networkHandlers(services),
    ...secretHandlers(services),
    ...egressHandlers(services),
    ...linkHandlers(services),
    ...logHandlers(services),
    ...fileHandlers(services),
    ...singleFileHandlers(services),
    ...watchHandlers(services),
    ...snapshotHandlers(services),
  };
  guardLiteralPaths(app, Object.values(routes));
  serveRoutes(app, routes, handlers, { ...services, lookUps });
  return finish(app, Object.values(routes));
}

/** The app of the separate metrics address: metrics and health check. */
export function createMetricsApp(services: HttpServices): HttpApp {
  const app: HttpApp = new Hono<HttpEnv>();
  app.use(
    requestId,
    noStore,
    logging(services.log),
    audit(services.audit),
    authentication(services.authenticator),
  );
  const { health, readMetrics } = ROUTES;
  serveRoutes(app, { health, readMetrics }, metaHandlers(services), services);
  return finish(app, [health, readMetrics]);
}

/** The tools for agents alone, before another REST interface, which checks what their calls ask. */
export function createMcpApp({
  log,
  stopping,
  connect,
  principalOf,
}: Pick<HttpServices, 'log' | 'stopping'> & {
  readonly connect: Connect;
  readonly principalOf: (c: HttpContext) => Principal;
}): HttpApp {
  const app: HttpApp = new Hono<HttpEnv>();
  app.use(requestId, noStore, logging(log), async (c, next) => {
    c.set('audit', {});
    c.set('principal', principalOf(c));
    await next();
  });
  const { serveMcp } = ROUTES;
  const handlers = mcpHandlers({ stopping }, connect);
  serveRoutes(app, { serveMcp }, handlers, {
    answers: NO_ANSWERS,
    digestSecrets: (text) => text,
    placement: ANY_PLACE,
  });
  return finish(app, [serveMcp]);
}

/** For routes that take no Idempotency-Key. */
const NO_ANSWERS: HttpServices['answers'] = {
  find: () => undefined,
  put: () => undefined,
  record: async () => undefined,
  settle: async () => undefined,
  remove: async () => undefined,
};

function finish(app: HttpApp, routes: readonly Route[]): HttpApp {
  app.notFound(createNotFound(routes));
  app.onError((error, c) => {
    const { status, headers, body } = toErrorAnswer(error, c.var.requestId);
    return c.json(body, status, headers);
  });
  return app;
}
