// The REST interface as one Hono app. It runs without a socket, too: `createHttpApp(services).request('/healthz')`.
import { Hono } from 'hono';
import { createNotFound } from './allowed-methods.ts';
import type { HttpApp, HttpEnv } from './context.ts';
import { toErrorAnswer } from './errors.ts';
import { logging } from './middleware/logging.ts';
import { ownOrigin } from './middleware/own-origin.ts';
import { requestId } from './middleware/request-id.ts';
import { addExecRoutes } from './routes/exec.ts';
import { addFileRoutes } from './routes/files.ts';
import { addImageRoutes } from './routes/images.ts';
import { addLogRoutes } from './routes/logs.ts';
import { addMetaRoutes } from './routes/meta.ts';
import { addSandboxRoutes } from './routes/sandboxes.ts';
import { addServiceRoutes } from './routes/service.ts';
import { addSnapshotRoutes } from './routes/snapshots.ts';
import type { HttpServices } from './services.ts';

export function createHttpApp(services: HttpServices): HttpApp {
  const app: HttpApp = new Hono<HttpEnv>();
  app.use(requestId, logging(services.log), ownOrigin);
  addMetaRoutes(app, services);
  addImageRoutes(app, services);
  addSandboxRoutes(app, services);
  addExecRoutes(app, services);
  addServiceRoutes(app, services);
  addLogRoutes(app, services);
  addFileRoutes(app, services);
  addSnapshotRoutes(app, services);
  app.notFound(createNotFound(app));
  app.onError((error, c) => {
    const { status, headers, body } = toErrorAnswer(error, c.var.requestId);
    return c.json(body, status, headers);
  });
  return app;
}
