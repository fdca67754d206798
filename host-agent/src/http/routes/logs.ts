// The durable log of a sandbox, also of one that is gone.
import { LOG_SOURCES, type LogRecord, logsAreOff } from '../../logs/index.ts';
import type { HttpApp } from '../context.ts';
import { readSandboxId } from '../input/ids.ts';
import { readChoice, readCount } from '../input/query.ts';
import type { HttpServices } from '../services.ts';

export function addLogRoutes(app: HttpApp, services: HttpServices): void {
  app.get('/sandboxes/:id/logs', async (c) => {
    const id = readSandboxId(c);
    const since = readCount(c, 'since', -1) ?? -1;
    const source = readChoice(c, 'source', [...LOG_SOURCES, 'all'] as const) ?? 'all';
    if (services.logs === undefined) throw logsAreOff();
    const page = await services.logs.read(id, {
      ...(since >= 0 && { since }),
      ...(source !== 'all' && { source }),
    });
    if (page === undefined) services.sandboxes.get(id);
    const { nextOffset = 0, records = [] } = page ?? {};
    return c.json({ next_offset: nextOffset, records: records.map(toRecordBody) });
  });
}

function toRecordBody({ source, stream, text, timeMs }: LogRecord) {
  return { source, stream, text, time_ms: timeMs };
}
