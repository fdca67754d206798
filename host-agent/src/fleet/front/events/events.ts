// Events of all hosts as one stream. Each host has the events and checks the key; the gateway joins what they send, and
// connects again to a host that was lost.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import { ConcurrencyLimit } from '../../../lib/concurrency-limit.ts';
import { AppError, toError } from '../../../lib/errors.ts';
import type { FleetMap, Host } from '../../catalogue.ts';
import { type Callers, clientOf } from '../callers.ts';
import { answer } from '../creates.ts';
import { isNotPermitted } from '../fan-out.ts';
import { pickHostHeaders } from '../headers.ts';
import type { HostConnections } from '../host-connections.ts';
import { HostEvents, type HostMessage, HostRefusal, timeOf } from './host-events.ts';
import { HostStreams } from './host-streams.ts';
import { EventOutput } from './output.ts';
import { FleetPosition, MAX_CURSORS } from './position.ts';

const MAX_HOSTS = MAX_CURSORS - 64;
const LOOK_MS = 1000;
const MAX_WAIT_MS = 10_000;
/** A stream that lasted for less was none. */
const BRIEF_MS = 5000;
const GONE = 410;
const NOT_PERMITTED: readonly number[] = [401, 403];

type Opened = { readonly host: Host; readonly found: HostEvents | Error };

export class FleetEvents {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;
  readonly #callers: Callers;
  readonly #open = new Set<EventOutput>();
  readonly #limit = new ConcurrencyLimit({
    what: 'streams of events',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  readonly #hostStreams = new HostStreams();

  constructor(map: FleetMap, connections: HostConnections, callers: Callers) {
    this.#map = map;
    this.#connections = connections;
    this.#callers = callers;
  }

  get count(): number {
    return this.#limit.count;
  }

  /** Clients connect again, to another gateway. */
  stop(): void {
    for (const output of [...this.#open]) output.end();
  }

  /** RefusedCaller; AppError invalid_argument, gone, exhausted, unsupported, upstream. Resolves at its end. */
  async serve(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const hosts = this.#map.hosts();
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    if (hosts.length > MAX_HOSTS) {
      throw new AppError(
        'unsupported',
        `a gateway joins the events of ${MAX_HOSTS} hosts at most, and the fleet has ${hosts.length}; ask hosts`,
      );
    }
    const caller = await this.#callers.findFor(request, response);
    if (response.destroyed) return;
    using _slot = this.#limit.acquire(clientOf(caller), caller.tenant);
    using _streams = this.#hostStreams.acquire(caller, hosts.length);
    const stream = new FleetStream(request, response, path, {
      map: this.#map,
      connections: this.#connections,
    });
    const { output } = stream;
    this.#open.add(output);
    try {
      await stream.run(hosts);
    } finally {
      this.#open.delete(output);
      output.abort();
    }
  }
}

/** One client's. */
class FleetStream {
  readonly output: EventOutput;
  readonly #map: FleetMap;
  readonly #connections: HostConnections;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #isFollowing: boolean;
  readonly #position: FleetPosition;
  /** Whether it begins with what happens now. */
  readonly #isFresh: boolean;
  readonly #path: string;
  readonly #headers: readonly string[];
  readonly #followed = new Map<string, Promise<void>>();

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    { map, connections }: { readonly map: FleetMap; readonly connections: HostConnections },
  ) {
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const after = [request.headers['last-event-id']].flat()[0] || query.get('last_event_id') || undefined;
    query.delete('last_event_id');
    this.#map = map;
    this.#connections = connections;
    this.#request = request;
    this.#response = response;
    this.#isFollowing = query.get('follow') !== '0';
    this.#isFresh = after === undefined && this.#isFollowing;
    this.#position =
      after === undefined || after === '0'
        ? new FleetPosition(this.#isFresh ? Date.now() : 0)
        : FleetPosition.parse(after);
    this.#path = query.size === 0 ? '/events' : `/events?${query}`;
    this.#headers = toHeaders(request);
    const kinds = query.get('kind');
    this.output = new EventOutput({
      response,
      position: this.#position,
      areLines: (request.headers.accept ?? '').toLowerCase().includes('application/x-ndjson'),
      kinds: kinds ? new Set(kinds.split(',')) : undefined,
    });
  }

  async run(hosts: readonly Host[]): Promise<void> {
    this.#position.trim(hosts.map(({ name }) => name));
    const opened = await Promise.all(
      hosts.map(async (host) => ({ host, found: await this.#openHost(host, this.#isFresh).catch(toError) })),
    );
    const close = (): void => {
      for (const { found } of opened) if (found instanceof HostEvents) found.close();
    };
    try {
      if (this.output.signal.aborted) return;
      const refusals = opened.flatMap(({ host, found }) =>
        found instanceof HostRefusal ? [{ host, found }] : [],
      );
      const gone = refusals.filter(({ found }) => found.status === GONE);
      if (gone.length > 0) throw toGone(gone.map(({ host }) => host.name));
      if (opened.every(({ found }) => found instanceof Error)) {
        const refused = refusals.find(({ found }) => isNotPermitted(found.refusal)) ?? refusals[0];
        if (refused !== undefined) return answer(this.#response, refused.found.refusal);
        throw new AppError('upstream', 'no host of the fleet answers');
      }
      const missing = opened.flatMap(({ host, found }) => (found instanceof Error ? [host.name] : []));
      this.output.begin(missing.sort(), this.#request.method === 'HEAD');
      if (this.#isFollowing) await this.#follow(opened);
      else await this.#list(opened);
    } finally {
      close();
    }
  }

  /** `isFresh`: from now on. HostRefusal, AppError upstream. */
  async #openHost(host: Host, isFresh = false): Promise<HostEvents> {
    const cursor = this.#position.cursorOf(host.name);
    const events = await HostEvents.open(this.#connections, host, {
      ...{ path: this.#path, headers: this.#headers, signal: this.output.signal },
      after: isFresh ? undefined : (cursor ?? '0'),
      sinceMs: isFresh || cursor !== undefined ? undefined : this.#position.sinceMs,
    });
    this.#position.advance(host.name, events.first.id);
    return events;
  }

  /** The oldest of all hosts first, to the present. */
  async #list(opened: readonly Opened[]): Promise<void> {
    const sources = await Promise.all(
      opened.map(async ({ host, found }) => {
        const source = new PastEvents(host, found, () => this.#openHost(host));
        await source.advance();
        return source;
      }),
    );
    for (const { host, failure } of sources) if (failure) await this.#reportLost(host, failure);
    let left = sources.filter(({ head }) => head !== undefined);
    while (left.length > 0 && !this.output.signal.aborted) {
      const source = left.reduce((oldest, each) => (each.atMs < oldest.atMs ? each : oldest));
      const { head, host } = source;
      if (head !== undefined) await this.output.deliver(host.name, head.id, head.data);
      await source.advance();
      if (source.failure !== undefined) await this.#reportLost(host, source.failure);
      if (source.head === undefined) left = left.filter((each) => each !== source);
    }
    for (const source of sources) source.close();
    this.output.end();
  }

  /** Until the client leaves. Hosts that join are followed, too, and those that leave no longer. */
  async #follow(opened: readonly Opened[]): Promise<void> {
    const { signal } = this.output;
    for (const { host, found } of opened) this.#add(host, found);
    while (!signal.aborted) {
      const hosts = this.#map.hosts();
      if (hosts.length > MAX_HOSTS) return this.output.end();
      // Those that come and go under new names would make it longer and longer.
      if (this.#position.size > hosts.length) this.#position.trim(hosts.map(({ name }) => name));
      for (const host of hosts) if (!this.#followed.has(host.name)) this.#add(host, undefined);
      await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
    await Promise.all(this.#followed.values());
  }

  #add(host: Host, found: HostEvents | Error | undefined): void {
    const following = this.#followHost(host, found).finally(() => this.#followed.delete(host.name));
    this.#followed.set(host.name, following);
  }

  async #followHost(host: Host, begun: HostEvents | Error | undefined): Promise<void> {
    const { signal } = this.output;
    const { name } = host;
    let events = begun instanceof Error ? undefined : begun;
    let failure = begun instanceof Error ? begun : undefined;
    let wasOpen = events !== undefined;
    let isLost = false;
    let waitMs = 0;
    let openedAtMs = performance.now();
    for (;;) {
      try {
        if (failure !== undefined) throw failure;
        events ??= await this.#openHost(this.#map.host(name) ?? host);
        openedAtMs = performance.now();
        wasOpen = true;
        if (isLost) await this.output.report('host-reachable', name);
        isLost = false;
        await this.#deliverAll(events);
        throw new Error('it ended its stream');
      } catch (error) {
        const wasBrief = events === undefined || performance.now() - openedAtMs < BRIEF_MS;
        events?.close();
        events = undefined;
        failure = undefined;
        if (signal.aborted || this.#map.host(name) === undefined) return;
        if (mustBegin(error, wasOpen)) return this.output.end();
        if (!wasBrief) waitMs = 0;
        // The first failure may be that of an agent that was started again.
        if (!isLost && (waitMs > 0 || begun === error)) {
          isLost = true;
          await this.#reportLost(host, toError(error));
        }
        await sleep(waitMs, undefined, { signal }).catch(() => undefined);
        waitMs = Math.min(MAX_WAIT_MS, Math.max(LOOK_MS, 2 * waitMs));
        if (signal.aborted || this.#map.host(name) === undefined) return;
      }
    }
  }

  async #deliverAll(events: HostEvents): Promise<void> {
    const { name } = events.host;
    for (let next = await events.next(); next !== undefined; next = await events.next()) {
      await this.output.deliver(name, next.id, next.data);
      if (this.output.signal.aborted) return;
    }
  }

  async #reportLost({ name }: Host, error: Error): Promise<void> {
    if (!this.output.signal.aborted) await this.output.report('host-unreachable', name, error.message);
  }
}

/** The stored events of one host, of which the next one is known. */
class PastEvents {
  readonly host: Host;
  readonly #reopen: () => Promise<HostEvents>;
  #events: HostEvents | undefined;
  #hasReopened = false;
  head: HostMessage | undefined;
  atMs = 0;
  /** Why the rest is missing. */
  failure: Error | undefined;

  constructor(host: Host, found: HostEvents | Error, reopen: () => Promise<HostEvents>) {
    this.host = host;
    this.#reopen = reopen;
    if (found instanceof Error) this.failure = found;
    else this.#events = found;
  }

  /** Once it connects again, behind what was delivered. */
  async advance(): Promise<void> {
    this.head = undefined;
    if (this.#events === undefined) return;
    try {
      do this.head = await this.#events.next();
      while (this.head !== undefined && this.head.data === undefined);
      this.atMs = timeOf(this.head?.data);
    } catch (error) {
      this.close();
      this.#events = undefined;
      if (this.#hasReopened) {
        this.failure = toError(error);
        return;
      }
      this.#hasReopened = true;
      this.#events = await this.#reopen().catch((again: unknown) => {
        this.failure = toError(again);
        return undefined;
      });
      await this.advance();
    }
  }

  close(): void {
    this.#events?.close();
  }
}

/** The client hears why when it connects again: its place is not kept any more, or its key is not. */
function mustBegin(error: unknown, wasOpen: boolean): boolean {
  if (!(error instanceof HostRefusal)) return false;
  return error.status === GONE || (wasOpen && NOT_PERMITTED.includes(error.status));
}

function toGone(hosts: readonly string[]): AppError {
  return new AppError(
    'gone',
    `events right behind Last-Event-ID are not kept any more by ${hosts.toSorted().join(', ')}; read the list of sandboxes ` +
      'and go on without it',
  );
}

function toHeaders(request: IncomingMessage): string[] {
  return pickHostHeaders(request, ['authorization', 'x-request-id']);
}
