// The stream of changes in a directory of a guest.
import { isUtf8 } from 'node:buffer';
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH, type WatchEventBody } from '@sandboxd/api';
import { decodeWatchRecord, type WatchRecord } from '@sandboxd/proto';
import type { FileWatchEvents, FileWatching, WatchEndReason } from '../../guest/file-watch.ts';
import { ownerOf, sharerOf } from '../../keys/index.ts';
import { type Chunk, type PullStream, toChunk } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { clientSignal, guestOf } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';
import { toFilePath, toPlace } from './single-files.ts';

const LINES = 'application/x-ndjson';
const MESSAGES = 'text/event-stream';
/** Interval of keepalives on an idle stream. */
const KEEPALIVE_MS = 15_000;
/** Maximum size of one chunk, apart from its last event. */
const CHUNK_CHARS = 64 * 1024;

const ENDS: Readonly<Record<WatchEndReason, string>> = {
  removed: 'the directory was removed, moved or unmounted',
  unreadable: 'the user may no longer read the directory',
  limit: 'there are more directories than can be watched',
};

export function watchHandlers({ sandboxes: host, stopping }: HttpServices) {
  const limit = new ConcurrencyLimit({
    what: 'watches of files',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  return {
    watchFiles: async ({ params: { id }, query: { recursive, ...place } }, c) => {
      const files = (await guestOf(host, c, id)).files();
      const directory = toFilePath(place);
      const areLines = (c.req.header('accept') ?? '').toLowerCase().includes(LINES);
      const headers = { 'Content-Type': areLines ? LINES : MESSAGES, 'Cache-Control': 'no-store' };
      const slot = limit.acquire(sharerOf(ownerOf(c.get('principal'))));
      const stream = new WatchStream({
        directory,
        areLines,
        signal: clientSignal(c),
        stopping,
        watch: (events) => files.watch({ place: toPlace(place), recursive }, events),
        onEnd: () => slot[Symbol.dispose](),
      });
      // A refusal has its status.
      await stream.opened;
      if (c.req.method !== 'HEAD') return answerPullStream(c, stream, headers);
      stream.cancel();
      return c.body(null, 200, headers);
    },
  } satisfies Partial<Handlers>;
}

export type WatchStreamOptions = {
  /** Path of the request. */
  readonly directory: Buffer;
  /** JSON lines instead of server-sent events. */
  readonly areLines: boolean;
  /** Of the client. */
  readonly signal: AbortSignal;
  /** Of the daemon. */
  readonly stopping: AbortSignal;
  readonly watch: (events: FileWatchEvents) => FileWatching;
  readonly onEnd: () => void;
};

type Batch = { readonly records: Buffer | undefined; readonly bytes: number; at: number };

export class WatchStream implements PullStream {
  /** Resolves when the guest watches; rejects if it refuses. */
  readonly opened: Promise<void>;
  readonly #options: WatchStreamOptions;
  readonly #prefix: Buffer;
  readonly #over = new AbortController();
  readonly #watching: FileWatching | undefined;
  readonly #keepalive: NodeJS.Timeout;
  #batches: Batch[] = [];
  #end: WatchEventBody | undefined;
  #isKeepaliveDue = false;
  #wake: () => void = () => undefined;

  /** Throws AppError. */
  constructor(options: WatchStreamOptions) {
    this.#options = options;
    const { directory, signal, stopping } = options;
    this.#prefix = directory.at(-1) === 0x2f ? directory : Buffer.concat([directory, Buffer.from('/')]);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    // Prevents an unhandled rejection before a caller awaits it.
    promise.catch(() => undefined);
    this.#keepalive = setInterval(() => this.keepalive(), KEEPALIVE_MS).unref();
    let isOpen = false;
    try {
      this.#watching = options.watch({
        records: (records, bytes) => {
          isOpen ||= records !== undefined;
          this.#batches.push({ records, bytes, at: 0 });
          if (isOpen) resolve();
          this.#wake();
        },
        end: (reason) => {
          this.#finish({ type: 'end', reason, message: ENDS[reason] });
          resolve();
        },
        failed: (error) => {
          if (!isOpen) this.cancel();
          reject(error);
          this.#finish({ type: 'end', reason: 'lost', message: error.message });
        },
      });
    } catch (error) {
      this.cancel();
      throw error;
    }
    const once = { once: true, signal: this.#over.signal };
    const leave = (): void => {
      this.cancel();
      reject(signal.reason);
    };
    const stop = (): void => {
      this.#watching?.cancel();
      this.#finish({ type: 'end', reason: 'stopping', message: 'the daemon stops' });
      resolve();
    };
    if (signal.aborted) leave();
    else if (stopping.aborted) stop();
    signal.addEventListener('abort', leave, once);
    stopping.addEventListener('abort', stop, once);
  }

  cancel(): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    clearInterval(this.#keepalive);
    this.#watching?.cancel();
    this.#batches = [];
    this.#options.onEnd();
    this.#wake();
  }

  keepalive(): void {
    this.#isKeepaliveDue = true;
    this.#wake();
  }

  async next(): Promise<Chunk | undefined> {
    for (;;) {
      if (this.#over.signal.aborted) return undefined;
      const text = this.#take();
      if (text !== '') return toChunk(text);
      if (this.#end !== undefined) {
        const last = this.#render(this.#end);
        this.cancel();
        return toChunk(last);
      }
      if (this.#isKeepaliveDue) {
        this.#isKeepaliveDue = false;
        return toChunk(this.#options.areLines ? '\n' : ':\n\n');
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The next events, and returns the credit of what is taken. */
  #take(): string {
    let text = '';
    while (text.length < CHUNK_CHARS) {
      const batch = this.#batches[0];
      if (batch === undefined) break;
      const { records } = batch;
      if (records !== undefined && batch.at < records.length) {
        const { record, next } = decodeWatchRecord(records, batch.at);
        batch.at = next;
        text += this.#render(this.#toBody(record));
        continue;
      }
      this.#batches.shift();
      this.#watching?.consumed(batch.bytes);
    }
    return text;
  }

  #toBody(record: WatchRecord): WatchEventBody {
    if (!('path' in record)) return { type: record.type, directories: record.directories };
    const { type, from, isDirectory, isClosed } = record;
    const path = Buffer.concat([this.#prefix, record.path]);
    const former = from && Buffer.concat([this.#prefix, from]);
    return {
      type,
      path: path.toString(),
      ...(!isUtf8(path) && { path_base64: path.toString('base64') }),
      ...(former && { from: former.toString() }),
      ...(former && !isUtf8(former) && { from_base64: former.toString('base64') }),
      ...(isDirectory && { directory: true as const }),
      ...(isClosed && type === 'write' && { closed: true as const }),
    };
  }

  #render(body: WatchEventBody): string {
    const json = JSON.stringify(body);
    return this.#options.areLines ? `${json}\n` : `data: ${json}\n\n`;
  }

  #finish(end: WatchEventBody): void {
    this.#end ??= end;
    this.#wake();
  }
}
