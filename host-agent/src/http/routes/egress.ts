// The egress log of a sandbox: pages, also after the sandbox was deleted, and a stream of what comes.
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import { ownerOf, sharerOf, tenantOf } from '../../keys/index.ts';
import { type Chunk, type PullStream, toChunk } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { logsAreOff } from '../../logs/index.ts';
import type { EgressPage, StoredEgress } from '../../network/index.ts';
import { clientSignal, headerOf } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

const LINES = 'application/x-ndjson';
const MESSAGES = 'text/event-stream';
const KEEPALIVE_MS = 15_000;
/** Records that come together are read together. */
const GATHER_MS = 100;

export function egressHandlers({ sandboxes, egressLog, stopping }: HttpServices) {
  const limit = new ConcurrencyLimit({
    what: 'streams of egress logs',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  return {
    readEgress: async ({ params: { id }, query: { since, verdict, follow } }, c) => {
      const { principal } = c.var;
      if (!egressLog.isKept) throw logsAreOff();
      const filter = { ...(verdict !== 'all' && { verdict }), tenant: tenantOf(principal) };
      const read = async (from: number | undefined): Promise<EgressPage> => {
        const page = await egressLog.read(id, { ...filter, since: from });
        if (page === undefined) sandboxes.as(principal).get(id);
        return page ?? { nextOffset: 0, records: [] };
      };
      const from =
        toOffset(follow ? headerOf(c, 'last-event-id') : undefined) ?? (since < 0 ? undefined : since);
      const first = await read(from);
      if (!follow) return { next_offset: first.nextOffset, records: first.records.map(toEgressBody) };
      const areLines = (c.req.header('accept') ?? '').toLowerCase().includes(LINES);
      const headers = { 'Content-Type': areLines ? LINES : MESSAGES, 'Cache-Control': 'no-store' };
      if (c.req.method === 'HEAD') return c.body(null, 200, headers);
      const slot = limit.acquire(sharerOf(ownerOf(principal)));
      const stream = new EgressStream({
        first,
        read,
        areLines,
        isOpen: () => egressLog.isOpen(id),
        onMore: (listener) => egressLog.onMore(id, listener),
        signals: [clientSignal(c), stopping],
        onEnd: () => slot[Symbol.dispose](),
      });
      return answerPullStream(c, stream, headers);
    },
  } satisfies Partial<Handlers>;
}

function toOffset(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

export function toEgressBody({ timeMs, bytesUp, bytesDown, ...record }: StoredEgress) {
  return {
    at: new Date(timeMs).toISOString(),
    ...record,
    ...(bytesUp !== undefined && { bytes_up: bytesUp }),
    ...(bytesDown !== undefined && { bytes_down: bytesDown }),
  };
}

type EgressStreamOptions = {
  readonly first: EgressPage;
  /** Rejects when the log is gone. */
  readonly read: (since: number) => Promise<EgressPage>;
  readonly areLines: boolean;
  /** Whether more may come. */
  readonly isOpen: () => boolean;
  readonly onMore: (listener: () => void) => () => void;
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly onEnd: () => void;
};

/** Reads the log on demand, so that a slow client uses no memory but for one page. */
export class EgressStream implements PullStream {
  readonly #options: EgressStreamOptions;
  readonly #over = new AbortController();
  readonly #unlisten: () => void;
  #page: EgressPage | undefined;
  #hasMore = false;
  #wake: () => void = () => undefined;

  constructor(options: EgressStreamOptions) {
    this.#options = options;
    this.#page = options.first;
    this.#unlisten = options.onMore(() => {
      this.#hasMore = true;
      this.#wake();
    });
    for (const signal of options.signals) {
      if (signal?.aborted) this.cancel();
      signal?.addEventListener('abort', () => this.cancel(), { once: true, signal: this.#over.signal });
    }
  }

  cancel(): void {
    this.#unlisten();
    this.#over.abort();
    this.#wake();
    this.#options.onEnd();
  }

  async next(): Promise<Chunk | undefined> {
    let { nextOffset } = this.#page ?? { nextOffset: 0 };
    for (;;) {
      if (this.#over.signal.aborted) return undefined;
      const page = this.#page;
      if (page !== undefined && page.records.length > 0) {
        this.#page = { nextOffset: page.nextOffset, records: [] };
        return toChunk(this.#toText(page));
      }
      const isOpen = this.#options.isOpen();
      this.#hasMore = false;
      this.#page = await this.#options.read(nextOffset).catch(() => undefined);
      if (this.#page === undefined) return this.#end();
      const isAtEnd = this.#page.nextOffset === nextOffset && this.#page.records.length === 0;
      nextOffset = this.#page.nextOffset;
      if (!isAtEnd) continue;
      if (!isOpen) return this.#end();
      if (!(await this.#waitForMore())) return toChunk(this.#options.areLines ? '\n' : ':\n\n');
    }
  }

  #toText({ nextOffset, records }: EgressPage): string {
    const bodies = records.map((record) => JSON.stringify(toEgressBody(record)));
    if (this.#options.areLines) return bodies.map((body) => `${body}\n`).join('');
    // The last one has the position behind all of them.
    return bodies
      .map((body, at) => `${at === bodies.length - 1 ? `id: ${nextOffset}\n` : ''}data: ${body}\n\n`)
      .join('');
  }

  #end(): undefined {
    this.cancel();
    return undefined;
  }

  /** False: it is time for a sign of life. */
  async #waitForMore(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#wake = () => resolve(true);
    if (this.#hasMore || this.#over.signal.aborted) resolve(true);
    const keepalive = setTimeout(() => resolve(false), KEEPALIVE_MS).unref();
    const hasMore = await promise;
    clearTimeout(keepalive);
    if (hasMore) await sleep(GATHER_MS, undefined, { signal: this.#over.signal }).catch(() => undefined);
    return hasMore;
  }
}
