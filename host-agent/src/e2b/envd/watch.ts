// envd's watches: as a stream, and as watchers whose events a client fetches.
import { posix } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BadRequestError, type WatchEvent } from '@sandboxd/client';
import { readLines } from '@sandboxd/client/requests';
import { z } from 'zod';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { randomSuffix } from '../../lib/ids.ts';
import { acquire, type EnvdCall } from './call.ts';
import { ConnectError } from './connect-protocol.ts';
import { describe, type FileCall } from './filesystem.ts';

export const watchRequests = {
  WatchDir: z.object({
    path: z.string().default(''),
    recursive: z.boolean().default(false),
    includeEntry: z.boolean().default(false),
  }),
  GetWatcherEvents: z.object({ watcherId: z.string() }),
};
type WatchRequest = z.output<typeof watchRequests.WatchDir>;

const MAX_WATCHERS = 256;
const MAX_WATCHERS_OF_EACH = 64;
const MAX_WATCHERS_OF_SANDBOX = 32;
/** Events that wait to be fetched; with more, the oldest are dropped. */
const MAX_EVENTS = 10_000;
/** Of their JSON. */
const MAX_EVENT_CHARS = 1024 * 1024;
/** A watcher that its client has forgotten. */
const UNUSED_MS = 10 * 60_000;

const MAX_UNCLOSED = 1000;

/** What an upload writes before it has its name. */
const PART = /^\.sandbox-[0-9a-f]+\.part$/;

const TYPES = {
  create: 'EVENT_TYPE_CREATE',
  write: 'EVENT_TYPE_WRITE',
  remove: 'EVENT_TYPE_REMOVE',
  attrib: 'EVENT_TYPE_CHMOD',
} as const;

/** `start` first; ends by the signal. ConnectError. */
export async function* watch(
  call: EnvdCall,
  request: WatchRequest,
  signal: AbortSignal,
): AsyncGenerator<object, void> {
  const directory = await call.path(request.path);
  for await (const event of watchEvents(call, directory, request, signal))
    yield event === 'armed' ? { start: {} } : { filesystem: event };
}

async function* watchEvents(
  call: FileCall,
  directory: string,
  { recursive, includeEntry }: WatchRequest,
  signal: AbortSignal,
): AsyncGenerator<'armed' | object, void> {
  const { type } = await call.requests.call('statFile', { params: call.params, query: { path: directory } });
  if (type !== 'directory')
    throw new ConnectError('invalid_argument', `path ${directory} is not a directory`);
  const { body } = await call.requests.stream('watchFiles', {
    params: call.params,
    query: { path: directory, ...(recursive && { recursive: 'true' }) },
    accept: 'application/x-ndjson',
    signal,
  });
  const nameOf = (changed = ''): string => posix.relative(directory, changed);
  const isPart = (changed = ''): boolean => PART.test(posix.basename(changed));
  /** Uploads whose file is closed once it has its name: that is not a second change. */
  const unclosed = new Set<string>();
  for await (const line of readLines(body)) {
    if (line === '') continue;
    const event = JSON.parse(line) as WatchEvent;
    if (event.type === 'end') return assertRemoved(event);
    if (event.type === 'armed') yield 'armed';
    if (event.type === 'rename') {
      const name = nameOf(event.path);
      if (!isPart(event.from)) yield { name: nameOf(event.from), type: 'EVENT_TYPE_RENAME' };
      yield await withEntry(call, { name, type: TYPES.create }, event.path, includeEntry);
      // An upload: its content has come with the name.
      if (isPart(event.from)) {
        if (event.path !== undefined && unclosed.size < MAX_UNCLOSED) unclosed.add(event.path);
        yield await withEntry(call, { name, type: TYPES.write }, event.path, includeEntry);
      }
    }
    if (event.type === 'write' && event.closed && unclosed.delete(event.path ?? '')) continue;
    if (!(event.type in TYPES) || isPart(event.path)) continue;
    const change = { name: nameOf(event.path), type: TYPES[event.type as keyof typeof TYPES] };
    yield await withEntry(call, change, event.path, includeEntry && event.type !== 'remove');
  }
  throw new AppError('cancelled', 'the watch was lost');
}

/** Another end than that of the directory is an error. */
function assertRemoved({ reason, message = 'the watch has ended' }: WatchEvent): void {
  if (reason === 'removed') return;
  if (reason === 'limit') throw new ConnectError('resource_exhausted', message);
  if (reason === 'unreadable') throw new ConnectError('permission_denied', message);
  throw new AppError('cancelled', message);
}

async function withEntry(
  call: FileCall,
  change: { readonly name: string; readonly type: string },
  path: string | undefined,
  isWanted: boolean,
): Promise<object> {
  if (!isWanted || path === undefined) return change;
  // It may be gone by now.
  const entry = await describe(call, path).catch(() => undefined);
  return entry === undefined ? change : { ...change, entry };
}

type Watcher = {
  readonly sandbox: string;
  events: { readonly event: object; readonly chars: number }[];
  chars: number;
  failure: Error | undefined;
  isOver: boolean;
  readonly stop: AbortController;
  readonly slot: Disposable;
  timer: NodeJS.Timeout;
};

/** Watchers by id. They end with the daemon, and when they are not used. */
export class Watchers {
  readonly #all = new Map<string, Watcher>();
  readonly #limit = new ConcurrencyLimit({
    what: 'watchers',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });

  async create(call: EnvdCall, request: WatchRequest): Promise<object> {
    const directory = await call.path(request.path);
    const slot = this.#acquireOrEvict(call);
    const stop = new AbortController();
    const watcherId = randomSuffix();
    const timer = setTimeout(() => this.#remove(watcherId), UNUSED_MS).unref();
    const state = { events: [], chars: 0, failure: undefined, isOver: false };
    const watcher: Watcher = { sandbox: call.id, ...state, stop, slot, timer };
    this.#all.set(watcherId, watcher);
    const lasting = { params: call.params, requests: call.lasting };
    const events = watchEvents(lasting, directory, request, stop.signal);
    try {
      await events.next();
    } catch (error) {
      this.#remove(watcherId);
      throw error instanceof BadRequestError ? new ConnectError('invalid_argument', error.message) : error;
    }
    void collect(watcher, events);
    return { watcherId };
  }

  /** What has happened since the last call, with what is on its way. */
  async take(call: EnvdCall, watcherId: string): Promise<object> {
    const watcher = this.#find(call, watcherId);
    watcher.timer.refresh();
    await settle(watcher);
    const { events } = watcher;
    watcher.events = [];
    watcher.chars = 0;
    if (events.length === 0 && watcher.failure !== undefined) throw watcher.failure;
    return { events: events.map(({ event }) => event) };
  }

  remove(call: EnvdCall, watcherId: string): object {
    this.#find(call, watcherId);
    this.#remove(watcherId);
    return {};
  }

  close(): void {
    for (const id of this.#all.keys()) this.#remove(id);
  }

  /** Where there are too many, those go first whose sandbox or directory is gone. ConnectError resource_exhausted. */
  #acquireOrEvict(call: EnvdCall): Disposable {
    try {
      return this.#acquire(call);
    } catch {
      for (const [id, { isOver }] of this.#all) if (isOver) this.#remove(id);
      return this.#acquire(call);
    }
  }

  #acquire(call: EnvdCall): Disposable {
    const ofSandbox = [...this.#all.values()].filter(({ sandbox }) => sandbox === call.id);
    if (ofSandbox.length >= MAX_WATCHERS_OF_SANDBOX)
      throw new ConnectError('resource_exhausted', 'the sandbox has too many watchers; remove some');
    return acquire(this.#limit, call.principal);
  }

  /** A watcher of another sandbox does not exist. */
  #find(call: EnvdCall, watcherId: string): Watcher {
    const watcher = this.#all.get(watcherId);
    if (watcher?.sandbox === call.id) return watcher;
    throw new ConnectError('not_found', `watcher with id ${watcherId.slice(0, 64)} not found`);
  }

  #remove(id: string): void {
    const watcher = this.#all.get(id);
    this.#all.delete(id);
    clearTimeout(watcher?.timer);
    watcher?.stop.abort();
    watcher?.slot[Symbol.dispose]();
  }
}

/** A client that has just written a file expects the event: in E2B's sandboxes it is there at once. */
async function settle(watcher: Watcher): Promise<void> {
  const endMs = performance.now() + SETTLE_MS;
  let quietMs = performance.now() + FIRST_EVENT_MS;
  for (let seen = 0; performance.now() < Math.min(quietMs, endMs) && watcher.failure === undefined; ) {
    const { length } = watcher.events;
    if (length > seen) quietMs = performance.now() + QUIET_MS;
    seen = length;
    await sleep(POLL_MS);
  }
}

const FIRST_EVENT_MS = 500;
const QUIET_MS = 150;
const SETTLE_MS = 1000;
const POLL_MS = 10;

async function collect(watcher: Watcher, events: AsyncGenerator<'armed' | object, void>): Promise<void> {
  try {
    for await (const event of events) {
      if (event === 'armed') continue;
      const chars = JSON.stringify(event).length;
      watcher.events.push({ event, chars });
      watcher.chars += chars;
      while (watcher.events.length > MAX_EVENTS || watcher.chars > MAX_EVENT_CHARS)
        watcher.chars -= watcher.events.shift()?.chars ?? watcher.chars;
    }
  } catch (error) {
    if (!watcher.stop.signal.aborted)
      watcher.failure = new ConnectError(
        'unavailable',
        error instanceof Error ? error.message : 'the watch was lost',
      );
  } finally {
    watcher.isOver = true;
  }
}
