// The durable log of a sandbox, also after the sandbox was deleted.
import { tenantOf } from '../../keys/index.ts';
import { type LogRecord, logsAreOff } from '../../logs/index.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

export function logHandlers(services: HttpServices) {
  return {
    readLogs: async ({ params: { id }, query: { since, source } }, c) => {
      const { principal } = c.var;
      const tenant = tenantOf(principal);
      if (services.logs === undefined) throw logsAreOff();
      const page = await services.logs.read(id, {
        ...(since >= 0 && { since }),
        ...(source !== 'all' && { source }),
        ...(tenant !== undefined && { tenant }),
      });
      if (page === undefined) services.sandboxes.as(principal).get(id);
      const { nextOffset = 0, records = [] } = page ?? {};
      return { next_offset: nextOffset, records: records.map(toRecordBody) };
    },
  } satisfies Partial<Handlers>;
}

function toRecordBody({ source, stream, text, timeMs }: LogRecord) {
  return { source, stream, text, time_ms: timeMs };
}
