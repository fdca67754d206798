// Events of sandboxes and snapshots: stored ones, and new ones as they occur.
import { event, eventsQuery } from '../schemas/event.ts';
import { EVENT } from './examples.ts';
import type { Route } from './route.ts';

export const eventRoutes = {
  followEvents: {
    method: 'GET',
    path: '/events',
    tag: 'events',
    summary: 'Stream the events of sandboxes and snapshots',
    description:
      'The answer is a stream of server-sent events, or of JSON lines if Accept names application/x-ndjson. ' +
      'With Last-Event-ID the stream continues after that event, without gaps or duplicates, also across ' +
      'restarts of the daemon.',
    access: 'view',
    query: eventsQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description:
          'the events, oldest first; the data field of each server-sent event holds the same JSON as a line',
        content: {
          'text/event-stream': { kind: 'bytes' },
          'application/x-ndjson': { kind: 'lines', schema: event },
        },
      },
    ],
    errors: {
      410: 'events after Last-Event-ID were deleted, or the id belongs to another daemon',
      501: 'events are disabled on this daemon',
    },
    example: { query: { follow: '0' }, answer: EVENT },
  },
} as const satisfies Record<string, Route>;
