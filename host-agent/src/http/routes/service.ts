// The supervised service: configure, start, stop, restart, look at it, read its output.
import { clientSignal } from '../client-signal.ts';
import type { HttpApp, HttpContext } from '../context.ts';
import { readSandboxId } from '../input/ids.ts';
import { readCount, readQuery } from '../input/query.ts';
import { readFields } from '../input/read-fields.ts';
import { serviceSchema, stopSchema, toServiceSpec } from '../input/service-request.ts';
import { toWebStream } from '../outflow.ts';
import { OutputFrames } from '../service/output-frames.ts';
import { readOutputPage } from '../service/output-page.ts';
import { toStatusBody } from '../service/status-body.ts';
import type { HttpServices } from '../services.ts';

const DEFAULT_PAGE_BYTES = 256 * 1024;
const MAX_PAGE_BYTES = 1024 * 1024;

export function addServiceRoutes(app: HttpApp, services: HttpServices): void {
  const { sandboxes, bodyIdleMs } = services;

  app.get('/sandboxes/:id/service', async (c) => {
    const service = sandboxes.get(readSandboxId(c)).service();
    return c.json(toStatusBody(await service.status(clientSignal(c))));
  });

  // What a command has begun goes on when its client leaves, so these give the guest no signal.
  app.put('/sandboxes/:id/service', async (c) => {
    const id = readSandboxId(c);
    const spec = toServiceSpec(await readFields(c, serviceSchema, bodyIdleMs));
    return c.json(toStatusBody(await sandboxes.get(id).service().configure(spec)));
  });

  app.post('/sandboxes/:id/service/start', async (c) => {
    return c.json(toStatusBody(await sandboxes.get(readSandboxId(c)).service().start()));
  });

  app.post('/sandboxes/:id/service/stop', async (c) => {
    const id = readSandboxId(c);
    const { grace_s } = await readFields(c, stopSchema, bodyIdleMs);
    const graceMs = grace_s === undefined ? undefined : grace_s * 1000;
    return c.json(toStatusBody(await sandboxes.get(id).service().stop(graceMs)));
  });

  app.post('/sandboxes/:id/service/restart', async (c) => {
    return c.json(toStatusBody(await sandboxes.get(readSandboxId(c)).service().restart()));
  });

  app.get('/sandboxes/:id/service/logs', async (c) => {
    const id = readSandboxId(c);
    const fromSeq = readCount(c, 'from_seq', 0);
    const maxBytes = readCount(c, 'max_bytes', 1);
    const isFollowing = readQuery(c, 'follow') !== '0';
    const service = sandboxes.get(id).service();
    if (fromSeq !== undefined || maxBytes !== undefined || wantsJson(c)) {
      const limited = Math.min(maxBytes ?? DEFAULT_PAGE_BYTES, MAX_PAGE_BYTES);
      return c.json(
        await readOutputPage(service, { fromSeq: fromSeq ?? 0, maxBytes: limited }, clientSignal(c)),
      );
    }
    const isHead = c.req.method === 'HEAD';
    const signals = [clientSignal(c), ...(services.stopping ? [services.stopping] : [])];
    const frames = new OutputFrames(service, { isFollowing, isWaiting: false }, signals);
    await frames.opened;
    const headers = { 'Content-Type': 'application/octet-stream' };
    if (!isHead) return c.body(toWebStream(frames), 200, headers);
    frames.cancel();
    return c.body(null, 200, headers);
  });
}

function wantsJson(c: HttpContext): boolean {
  return c.req.header('accept')?.toLowerCase().includes('application/json') ?? false;
}
