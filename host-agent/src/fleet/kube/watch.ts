// A copy of one kind of objects, kept current: a list in pages, then a watch from its version; after 410 a new list.
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { backOffMs } from '../../lib/back-off.ts';
import { toError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient, KubeError } from './client.ts';

const PAGE_ITEMS = 500;
/** Of one event: an object has at most 1.5 MiB in etcd. */
const MAX_LINE_BYTES = 4 * 2 ** 20;
/** A list without an end would fill the memory. */
const MAX_OBJECTS = 250_000;
/** The server ends a watch after this; a silent break is then noticed. */
const WATCH_S = 240;
/** A bookmark comes each minute; without any byte for this long the connection is broken. */
const SILENT_MS = 150_000;
const BACK_OFF = { firstMs: 100, mostMs: 5000, jitter: 0.25 };

const version = z.object({ metadata: z.object({ resourceVersion: z.string().optional() }) });
const page = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
});
const watchEvent = z.object({ type: z.string(), object: z.unknown() });

export type Change = 'put' | 'deleted';

export type WatchOptions = {
  readonly client: KubeClient;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** All that exist; replaces what was known. */
  readonly onList: (objects: readonly unknown[]) => void;
  readonly onChange: (change: Change, object: unknown) => void;
  readonly log: Logger;
};

export class Watch {
  readonly #options: WatchOptions;
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #isCurrent = false;
  #done: Promise<void> | undefined;

  constructor(options: WatchOptions) {
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
    let from: string | undefined;
    for (let failures = 0; !signal.aborted; ) {
      try {
        from ??= await this.#list();
        this.#first.resolve();
        from = await this.#follow(from);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        if (isRefusal(error, 410)) from = undefined;
        else failures += 1;
        if (failures > 0) log.warn({ path, reason: toError(error).message }, 'cannot follow the API server');
      } finally {
        this.#isCurrent = false;
      }
      await sleep(backOffMs(failures, BACK_OFF), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Resolves with the version that the watch goes on from. */
  async #list(): Promise<string> {
    const { client, path, query, onList } = this.#options;
    const objects: unknown[] = [];
    for (let next: string | undefined; ; ) {
      const asked = { ...query, limit: String(PAGE_ITEMS), continue: next };
      const request = { method: 'GET', path, query: asked, signal: this.#stop.signal } as const;
      const { metadata, items } = page.parse(await client.request(request));
      objects.push(...items);
      if (objects.length > MAX_OBJECTS) throw new Error(`there are more than ${MAX_OBJECTS} objects`);
      next = metadata.continue || undefined;
      if (next !== undefined) continue;
      onList(objects);
      return metadata.resourceVersion;
    }
  }

  /** Resolves with the last version seen, when the server ends the watch. */
  async #follow(from: string): Promise<string> {
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
    let last = from;
    for await (const line of readLines(answer)) {
      const { type, object } = watchEvent.parse(JSON.parse(line));
      if (type === 'ERROR') throw toWatchError(object);
      last = version.parse(object).metadata.resourceVersion ?? last;
      if (type === 'ADDED' || type === 'MODIFIED') onChange('put', object);
      else if (type === 'DELETED') onChange('deleted', object);
    }
    return last;
  }
}

function toWatchError(status: unknown): KubeError {
  const fields = z.object({ code: z.number(), message: z.string() });
  const { code, message } = fields.catch({ code: 0, message: 'the watch failed' }).parse(status);
  return new KubeError(code, 'Watch', message);
}

async function* readLines(answer: IncomingMessage): AsyncGenerator<string> {
  const silent = setTimeout(() => answer.destroy(new Error('the watch is silent')), SILENT_MS);
  let rest = Buffer.alloc(0);
  try {
    for await (const chunk of answer) {
      silent.refresh();
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
        if (end > 0) yield rest.toString('utf8', 0, end);
        rest = rest.subarray(end + 1);
      }
      if (rest.length > MAX_LINE_BYTES) throw new Error(`an event is over ${MAX_LINE_BYTES} bytes`);
    }
  } finally {
    clearTimeout(silent);
    answer.destroy();
  }
}
