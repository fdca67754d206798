// The durable log of a sandbox. It outlives the sandbox.
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
      {
        status: 200,
        description: 'a page of the log, also after the sandbox was deleted',
        content: json(logsResponse),
      },
    ],
    errors: {
      404: 'the sandbox does not exist and has no log',
      501: 'durable logs are disabled on this daemon',
    },
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
