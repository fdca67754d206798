// The event stream: stored events, and new ones if the client follows.
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
/** Interval of keepalives on an idle stream. */
const KEEPALIVE_MS = 15_000;

export function eventHandlers({ events: journal, stopping }: HttpServices) {
  const limit = new ConcurrencyLimit({
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
      const fallback = follow ? journal.last : journal.prunedTo;
      const from =
        after === undefined || after === ''
          ? fallback
          : after === '0'
            ? journal.prunedTo
            : journal.toSeq(after);
      const areLines = (c.req.header('accept') ?? '').toLowerCase().includes(LINES);
      const headers = { 'Content-Type': areLines ? LINES : MESSAGES, 'Cache-Control': 'no-store' };
      if (c.req.method === 'HEAD') return c.body(null, 200, headers);
      const slot = limit.acquire(sharerOf(toOwner(principal)));
      let keepalive: NodeJS.Timeout | undefined;
      let isOver = false;
      const stream = new EventStream({
        journal,
        from,
        isFollowing: follow,
        areLines,
        matches: (event) =>
          canSee(principal, event.owner) &&
          kinds?.has(event.kind) !== false &&
          sandboxes?.has(event.sandbox ?? '') !== false,
        signals: [clientSignal(c), stopping],
        onEnd: () => {
          isOver = true;
          clearInterval(keepalive);
          slot[Symbol.dispose]();
        },
      });
      // It may be over already.
      if (!isOver) keepalive = setInterval(() => stream.keepalive(), KEEPALIVE_MS).unref();
      return answerPullStream(c, stream, headers);
    },
  } satisfies Partial<Handlers>;
}
