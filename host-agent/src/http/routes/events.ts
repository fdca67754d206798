// What happened: followed, or read up to the present.
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import { canSee, sharerOf, toOwner } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { clientSignal } from '../client-signal.ts';
import { headerOf } from '../context.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { EventStream } from '../streams/event-stream.ts';

const LINES = 'application/x-ndjson';
const MESSAGES = 'text/event-stream';
/** A connection on which nothing happens shows that it is there. */
const PULSE_MS = 15_000;

export function eventHandlers({ events: journal, stopping }: HttpServices) {
  const places = new ConcurrencyLimit({
    what: 'streams of events',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  return {
    followEvents: ({ query: { sandbox, kind, follow, last_event_id } }, c) => {
      const principal = c.get('principal');
      const sandboxes = sandbox && new Set(sandbox);
      const kinds = kind && new Set<string>(kind);
      const after = headerOf(c, 'last-event-id') || last_event_id;
      const standard = follow ? journal.last : journal.prunedTo;
      const from =
        after === undefined || after === ''
          ? standard
          : after === '0'
            ? journal.prunedTo
            : journal.toSeq(after);
      const areLines = (c.req.header('accept') ?? '').toLowerCase().includes(LINES);
      const headers = { 'Content-Type': areLines ? LINES : MESSAGES, 'Cache-Control': 'no-store' };
      if (c.req.method === 'HEAD') return c.body(null, 200, headers);
      const place = places.acquire(sharerOf(toOwner(principal)));
      const pulse = setInterval(() => stream.keepalive(), PULSE_MS).unref();
      const stream = new EventStream({
        journal,
        from,
        isFollowing: follow,
        areLines,
        isWanted: (event) =>
          canSee(principal, event.owner) &&
          kinds?.has(event.kind) !== false &&
          sandboxes?.has(event.sandbox ?? '') !== false,
        signals: [clientSignal(c), stopping],
        onEnd: () => {
          clearInterval(pulse);
          place[Symbol.dispose]();
        },
      });
      return answerPullStream(c, stream, headers);
    },
  } satisfies Partial<Handlers>;
}
