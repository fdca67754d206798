// A copy of one kind of objects, kept current: a list in pages, then a watch from its version; after 410 a new list.
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { backOffMs } from '../../lib/back-off.ts';
import { toError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient, KubeError } from './client.ts';
import { readPages } from './pages.ts';

/** Of one event: an object has at most 1.5 MiB in etcd, and six bytes of JSON for some of its characters. */
const MAX_LINE_BYTES = 16 * 2 ** 20;
/** Of those that are ours: a list without an end would fill the memory. */
const MAX_OBJECTS = 250_000;
/** The server ends a watch after this; a silent break is then noticed. */
const WATCH_S = 240;
/** A bookmark comes each minute; without any byte for this long the connection is broken. */
const SILENT_MS = 150_000;
/** A refusal may last, as of a role that was not applied yet. */
const LOG_AGAIN_MS = 60_000;
const BACK_OFF = { firstMs: 100, mostMs: 5000, jitter: 0.25 };

const version = z.object({ metadata: z.object({ resourceVersion: z.string().optional() }) });
const watchEvent = z.object({ type: z.string(), object: z.unknown() });

export type Change = 'put' | 'deleted';

export type WatchOptions<T> = {
  readonly client: KubeClient;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** What is kept of an object of the list; undefined: nothing. */
  readonly read: (object: unknown) => T | undefined;
  /** All that exist; replaces what was known. */
  readonly onList: (objects: readonly T[]) => void;
  readonly onChange: (change: Change, object: unknown) => void;
  readonly log: Logger;
};

export class Watch<T> {
  readonly #options: WatchOptions<T>;
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #isCurrent = false;
  /** The last version. A watch that breaks goes on from there: what is repeated would show what is gone once more. */
  #seen: string | undefined;
  #done: Promise<void> | undefined;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
    this.#first.promise.catch(() => undefined);
  }

  /** Whether the copy follows the server now. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  start(): void {
    this.#done ??= this.#run();
  }

  /** Resolves after the first list. */
  listed(): Promise<void> {
    return this.#first.promise;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { log, path } = this.#options;
    let logged = { reason: '', atMs: 0 };
    for (let failures = 0; !signal.aborted; ) {
      try {
        this.#seen ??= await this.#list();
        this.#first.resolve();
        await this.#follow(this.#seen);
        failures = 0;
        logged = { reason: '', atMs: 0 };
      } catch (error) {
        if (signal.aborted) break;
        if (isRefusal(error, 410)) this.#seen = undefined;
        else failures += 1;
        const { message: reason } = toError(error);
        const isNews = reason !== logged.reason || performance.now() - logged.atMs > LOG_AGAIN_MS;
        if (failures > 0 && isNews) {
          logged = { reason, atMs: performance.now() };
          log.warn({ path, reason }, 'cannot follow the API server');
        }
      } finally {
        this.#isCurrent = false;
      }
      await sleep(backOffMs(failures, BACK_OFF), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Resolves with its version. */
  async #list(): Promise<string> {
    const { client, path, query = {}, read, onList } = this.#options;
    const { signal } = this.#stop;
    const objects: T[] = [];
    const pages = readPages((request) => client.request(request), { path, query, signal });
    for (;;) {
      const { done, value } = await pages.next();
      if (done) {
        onList(objects);
        return value;
      }
      // Page by page: objects of others may be large, and many.
      objects.push(...value.flatMap((item) => read(item) ?? []));
      if (objects.length > MAX_OBJECTS) throw new Error(`there are more than ${MAX_OBJECTS} objects`);
    }
  }

  /** Resolves when the server ends the watch. */
  async #follow(from: string): Promise<void> {
    const { client, path, query, onChange } = this.#options;
    const asked = {
      ...query,
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: from,
      timeoutSeconds: String(WATCH_S),
    };
    const answer = await client.stream({ method: 'GET', path, query: asked }, this.#stop.signal);
    this.#isCurrent = true;
    for await (const line of readLines(answer)) {
      const { type, object } = watchEvent.parse(JSON.parse(line));
      if (type === 'ERROR') throw toWatchError(object);
      const { resourceVersion } = version.parse(object).metadata;
      if (type === 'ADDED' || type === 'MODIFIED') onChange('put', object);
      else if (type === 'DELETED') onChange('deleted', object);
      this.#seen = resourceVersion ?? this.#seen;
    }
  }
}

function toWatchError(status: unknown): KubeError {
  const fields = z.object({ code: z.number(), message: z.string() });
  const { code, message } = fields.catch({ code: 0, message: 'the watch failed' }).parse(status);
  return new KubeError(code, 'Watch', message);
}

async function* readLines(answer: IncomingMessage): AsyncGenerator<string> {
  const silent = setTimeout(() => answer.destroy(new Error('the watch is silent')), SILENT_MS);
  let pieces: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      silent.refresh();
      let from = 0;
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
        const line = Buffer.concat([...pieces, chunk.subarray(from, end)]);
        [pieces, sizeBytes, from] = [[], 0, end + 1];
        if (line.length > 0) yield line.toString();
      }
      if (from < chunk.length) pieces.push(chunk.subarray(from));
      sizeBytes += chunk.length - from;
      if (sizeBytes > MAX_LINE_BYTES) throw new Error(`an event is over ${MAX_LINE_BYTES} bytes`);
    }
  } finally {
    clearTimeout(silent);
    answer.destroy();
  }
}
