// What happened, as it happens and as it is kept.
import { event, eventsQuery } from '../schemas/event.ts';
import { EVENT } from './examples.ts';
import type { Route } from './route.ts';

export const eventRoutes = {
  followEvents: {
    method: 'GET',
    path: '/events',
    tag: 'events',
    summary: 'Follow what happens to sandboxes and snapshots',
    description:
      'Server-sent events, or lines of JSON where Accept names those. With Last-Event-ID it goes on where it was left, without gap or duplicate, also over restarts of the daemon.',
    access: 'view',
    query: eventsQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'the events, oldest first; each data is one as a line has it',
        content: {
          'text/event-stream': { kind: 'bytes' },
          'application/x-ndjson': { kind: 'lines', schema: event },
        },
      },
    ],
    errors: {
      410: 'events behind Last-Event-ID are not kept any more, or it is of another daemon',
      501: 'this daemon keeps no events',
    },
    example: { query: { follow: '0' }, answer: EVENT },
  },
} as const satisfies Record<string, Route>;
