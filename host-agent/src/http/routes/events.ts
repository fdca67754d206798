// The event stream: stored events, and new ones if the client follows.

import { setImmediate } from 'node:timers/promises';
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import type { Entry, Journal } from '../../events/journal.ts';
import { ownerOf, sharerOf } from '../../keys/index.ts';
import { type Chunk, type PullStream, toChunk } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { matchesLabels } from '../../lib/labels.ts';
import { type StoredEvent, toEventBody } from '../../sandboxes/lifecycle-events.ts';
import { clientSignal, headerOf } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

const LINES = 'application/x-ndjson';
const MESSAGES = 'text/event-stream';
/** Interval of keepalives on an idle stream. */
const KEEPALIVE_MS = 15_000;

export function eventHandlers({ events: journal, sandboxes: host, stopping }: HttpServices) {
  const limit = new ConcurrencyLimit({
    what: 'streams of events',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  return {
    followEvents: ({ query: { sandbox, kind, label, follow, last_event_id } }, c) => {
      const principal = c.get('principal');
      const { isVisible } = host.as(principal);
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
      const slot = limit.acquire(sharerOf(ownerOf(principal)));
      const stream = new EventStream({
        journal,
        from,
        isFollowing: follow,
        areLines,
        matches: (event) =>
          isVisible(event.owner) &&
          kinds?.has(event.kind) !== false &&
          sandboxes?.has(event.sandbox ?? '') !== false &&
          matchesLabels(event.labels, label),
        signals: [clientSignal(c), stopping],
        onEnd: () => slot[Symbol.dispose](),
      });
      return answerPullStream(c, stream, headers);
    },
  } satisfies Partial<Handlers>;
}

// The event stream of one client. Reads the journal on demand, so that a slow client uses no memory.
export type EventStreamOptions = {
  readonly journal: Journal<StoredEvent>;
  /** The stream starts after the entry with this sequence number. */
  readonly from: number;
  readonly isFollowing: boolean;
  /** JSON lines instead of server-sent events. */
  readonly areLines: boolean;
  readonly matches: (event: StoredEvent) => boolean;
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly onEnd: () => void;
};

/** Reconnection time of server-sent events. */
const RETRY_MS = 1000;
/** Maximum size of one chunk, which is all that the daemon buffers for a client. */
const CHUNK_BYTES = 64 * 1024;

export class EventStream implements PullStream {
  readonly #options: EventStreamOptions;
  readonly #over = new AbortController();
  readonly #unlisten: () => void;
  #seq: number;
  #hasBegun = false;
  #isKeepaliveDue = false;
  #wake: () => void = () => undefined;
  #keepalive: NodeJS.Timeout | undefined;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#seq = options.from;
    this.#unlisten = options.journal.onMore(() => this.#wake());
    for (const signal of options.signals) {
      if (signal?.aborted) this.cancel();
      signal?.addEventListener('abort', () => this.cancel(), { once: true, signal: this.#over.signal });
    }
    if (!this.#over.signal.aborted)
      this.#keepalive = setInterval(() => this.keepalive(), KEEPALIVE_MS).unref();
  }

  cancel(): void {
    clearInterval(this.#keepalive);
    this.#unlisten();
    this.#over.abort();
    this.#wake();
    this.#options.onEnd();
  }

  /** Sends the current position, so that the client does not read the skipped events again after a reconnect. */
  keepalive(): void {
    this.#isKeepaliveDue = true;
    this.#wake();
  }

  async next(): Promise<Chunk | undefined> {
    const { journal, isFollowing, matches, areLines } = this.#options;
    if (!this.#hasBegun && !areLines) {
      this.#hasBegun = true;
      return toChunk(`retry: ${RETRY_MS}\n${this.#position}`);
    }
    for (;;) {
      if (this.#over.signal.aborted) return undefined;
      if (!journal.isRecent(this.#seq)) {
        await nextDiskTurn();
        if (this.#over.signal.aborted) return undefined;
      }
      // The next events were deleted. The client reconnects and then gets status 410.
      if (this.#seq < journal.prunedTo) return this.#end();
      const entries = journal.read(this.#seq);
      const texts: Buffer[] = [];
      let bytes = 0;
      for (const entry of entries) {
        if (bytes >= CHUNK_BYTES) break;
        this.#seq = entry.seq;
        if (!matches(entry.event)) continue;
        const text = areLines ? toLine(journal, entry) : toMessage(journal, entry);
        texts.push(text);
        bytes += text.length;
      }
      const [first] = texts;
      if (first !== undefined)
        return { bytes: texts.length === 1 ? first : Buffer.concat(texts), release: () => undefined };
      if (entries.length > 0) continue;
      if (!isFollowing) return this.#end();
      else if (this.#isKeepaliveDue) {
        this.#isKeepaliveDue = false;
        return toChunk(areLines ? '\n' : this.#position);
      } else await this.#waitForEvent();
    }
  }

  /** An id without data updates Last-Event-ID of the client without an event. */
  get #position(): string {
    return `id: ${this.#options.journal.toId(this.#seq)}\n\n`;
  }

  #end(): undefined {
    this.cancel();
    return undefined;
  }

  #waitForEvent(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = () => undefined;
        resolve();
      };
    });
  }
}

let lastTurn: Promise<unknown> = Promise.resolve();

/** Serializes reads of old events from disk and yields to the event loop between them. */
function nextDiskTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => setImmediate());
  return lastTurn;
}

function toMessage(journal: Journal<StoredEvent>, entry: Entry<StoredEvent>): Buffer {
  entry.text ??= Buffer.from(`id: ${journal.toId(entry.seq)}\ndata: ${toJson(journal, entry)}\n\n`);
  return entry.text;
}

function toLine(journal: Journal<StoredEvent>, entry: Entry<StoredEvent>): Buffer {
  return Buffer.from(`${toJson(journal, entry)}\n`);
}

function toJson(journal: Journal<StoredEvent>, { seq, event }: Entry<StoredEvent>): string {
  return JSON.stringify(toEventBody(journal.toId(seq), event));
}
