// The durable log of a sandbox, also of one that is gone.
import { sandboxPath } from '../schemas/id.ts';
import { logsQuery, logsResponse } from '../schemas/log.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, type Route } from './route.ts';

export const logRoutes = {
  readLogs: {
    method: 'GET',
    path: '/sandboxes/:id/logs',
    tag: 'logs',
    summary: 'Read the durable log: output of the service and of commands',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: logsQuery,
    answers: [
      { status: 200, description: 'a page; also of a sandbox that is gone', content: json(logsResponse) },
    ],
    errors: { 404: 'there is neither such a sandbox nor a log of it', 501: 'this daemon keeps no logs' },
    example: {
      params: { id: SANDBOX_ID },
      query: { source: 'exec' },
      answer: {
        next_offset: 54,
        records: [{ source: 'exec', stream: 'stdout', text: 'hello\n', time_ms: 1_773_500_966_535 }],
      },
    },
  },
} as const satisfies Record<string, Route>;
