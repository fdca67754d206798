// The sandboxes that the key can see, kept current by the events of the daemon, and the newest events.
import {
  ApiError,
  type Client,
  ForbiddenError,
  NotFoundError,
  type SandboxEvent,
  type SandboxInfo,
  UnsupportedError,
} from '@sandboxd/client';
import { endIfRefused, toSentence } from '../session/session.ts';
import { Store } from './store.ts';
import { pause, whileVisible } from './visibility.ts';

/** Events of a moment are answered together. */
const GATHER_MS = 120;
/** Above this number of changed sandboxes, the list costs less than each of them. */
const MAX_SINGLE = 8;
const MAX_EVENTS = 500;
const RETRY_MS = 2000;
const MAX_RETRY_MS = 30_000;
/** Between two lists, which cost the daemon the more the more changes. */
const LIST_GAP_MS = 1000;
/** For a daemon without events. */
const POLL_MS = 5000;
const GONE = 410;

export type Connection =
  | { readonly state: 'connecting' | 'live' | 'polling' | 'refused' }
  | { readonly state: 'lost'; readonly problem: string };

type Problems = { readonly stream?: string | undefined; readonly list?: string | undefined };

export type Times = { readonly gatherMs: number; readonly retryMs: number; readonly listGapMs: number };

export class Inventory {
  /** Undefined until the first list is there. Oldest first. */
  readonly sandboxes = new Store<ReadonlyMap<string, SandboxInfo> | undefined>(undefined);
  /** Why there is no list. */
  readonly error = new Store<unknown>(undefined);
  /** Newest first. */
  readonly events = new Store<readonly SandboxEvent[]>([]);
  /** Of a fleet: the hosts that do not answer. */
  readonly unreachable = new Store<readonly string[]>([]);
  readonly connection = new Store<Connection>({ state: 'connecting' });
  readonly #client: Client;
  readonly #changed = new Set<string>();
  #lastEvent: string | undefined;
  #isStale = true;
  /** Why there are no events now, and why the list is older than the events. */
  #problems: Problems = {};
  /** Whose work reads what has changed. */
  #reading: AbortSignal | undefined;
  readonly #times: Times;

  constructor(
    client: Client,
    times: Times = { gatherMs: GATHER_MS, retryMs: RETRY_MS, listGapMs: LIST_GAP_MS },
  ) {
    this.#client = client;
    this.#times = times;
  }

  /** Reads the stored events, which may be many. */
  async readPast(sandbox?: string, signal?: AbortSignal): Promise<void> {
    const past: SandboxEvent[] = [];
    const only = sandbox === undefined ? {} : { sandboxes: [sandbox] };
    for await (const event of this.#client.events({ ...only, follow: false, ...(signal && { signal }) })) {
      past.push(event);
      if (past.length > 2 * MAX_EVENTS) past.splice(0, MAX_EVENTS);
    }
    const known = new Set(this.events.value.map(({ id }) => id));
    const older = past.reverse().filter(({ id }) => !known.has(id));
    const all = [...this.events.value, ...older].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
    this.events.set(all.slice(0, MAX_EVENTS));
  }

  /** Follows the daemon while the page is visible; returns how to end that. */
  open(): () => void {
    return whileVisible((signal) => this.#follow(signal));
  }

  /** Reads the whole list again. */
  async refresh(signal?: AbortSignal): Promise<void> {
    this.#isStale = false;
    try {
      const list = await this.#client.sandboxes.list({ signal });
      this.error.set(undefined);
      const before = this.sandboxes.value;
      const all = new Map(list.map((each) => [each.id, keepEqual(before?.get(each.id), each)]));
      const ids = [...(before?.keys() ?? [])];
      const isSame = list.length === ids.length && list.every(({ id }, at) => id === ids[at]);
      if (before === undefined || !isSame || list.some(({ id }) => all.get(id) !== before?.get(id)))
        this.sandboxes.set(all);
      this.#note({ list: undefined });
    } catch (error) {
      this.#isStale = true;
      if (signal?.aborted || endIfRefused(error)) return;
      // An old list is worth more than the reason why there is no newer one, which the banner has.
      const isRefused = error instanceof ForbiddenError;
      if (isRefused || (error instanceof ApiError && this.sandboxes.value === undefined))
        this.error.set(error);
      if (!isRefused) this.#note({ list: toSentence(error) });
      throw error;
    }
  }

  /** Takes what a call of this page returned, before its event comes. */
  put(info: SandboxInfo): void {
    const before = this.sandboxes.value?.get(info.id);
    const next = keepEqual(before, info);
    if (next !== before) this.sandboxes.set(new Map(this.sandboxes.value).set(info.id, next));
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let waitMs = this.#times.retryMs;
    for (;;) {
      try {
        await this.#stream(signal, () => {
          waitMs = this.#times.retryMs;
        });
      } catch (error) {
        if (signal.aborted || endIfRefused(error)) return;
        if (error instanceof UnsupportedError) return this.#poll(signal);
        if (error instanceof ForbiddenError) {
          this.error.set(error);
          this.connection.set({ state: 'refused' });
          return;
        }
        if (error instanceof ApiError && error.status === GONE) {
          this.#lastEvent = undefined;
          this.#isStale = true;
        }
        this.#note({ stream: toSentence(error) });
      }
      await pause(waitMs, signal);
      waitMs = Math.min(MAX_RETRY_MS, 2 * waitMs);
    }
  }

  #note(problems: Problems): void {
    this.#problems = { ...this.#problems, ...problems };
    const problem = this.#problems.stream ?? this.#problems.list;
    this.connection.set(problem === undefined ? { state: 'live' } : { state: 'lost', problem });
  }

  /** Without one, the stream begins with the next event, and the list is read after it was opened. */
  get #position(): { readonly after?: string } {
    return this.#lastEvent === undefined ? {} : { after: this.#lastEvent };
  }

  async #stream(signal: AbortSignal, onOpen: () => void): Promise<void> {
    const onConnection = (isOpen: boolean): void => {
      if (isOpen) {
        onOpen();
        // Each stream names them again.
        this.unreachable.set([]);
        if (this.#lastEvent === undefined) this.#isStale = true;
        if (this.#isStale) this.#read(signal);
        this.#note({ stream: undefined });
      } else if (!signal.aborted) this.#note({ stream: 'the connection to the daemon was lost' });
    };
    for await (const event of this.#client.events({ ...this.#position, onConnection, signal })) {
      this.#lastEvent = event.id;
      this.#take(event, signal);
    }
  }

  #take(event: SandboxEvent, signal: AbortSignal): void {
    this.events.set([event, ...this.events.value].slice(0, MAX_EVENTS));
    const { sandbox, kind, host } = event;
    if (host !== undefined && (kind === 'host-unreachable' || kind === 'host-reachable')) {
      const others = this.unreachable.value.filter((each) => each !== host);
      this.unreachable.set(kind === 'host-reachable' ? others : [...others, host].sort());
      this.#isStale = true;
      this.#read(signal);
    }
    if (sandbox === undefined) return;
    if (kind === 'deleted') this.#remove(sandbox);
    this.#changed.add(sandbox);
    this.#read(signal);
  }

  /** Reads what has changed, one round at a time, until nothing has. */
  #read(signal: AbortSignal): void {
    if (this.#reading === signal) return;
    this.#reading = signal;
    this.#readAll(signal).catch(() => {
      // The page was hidden: the next visit begins with a list.
      this.#isStale = true;
    });
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    try {
      await this.#readChanged(signal);
    } finally {
      // At once: what changes from here on is not read by this round.
      if (this.#reading === signal) this.#reading = undefined;
    }
  }

  async #readChanged(signal: AbortSignal): Promise<void> {
    let waitMs = this.#times.retryMs;
    if (!this.#isStale) await pause(this.#times.gatherMs, signal);
    while (this.#isStale || this.#changed.size > 0) {
      const changed = [...this.#changed];
      this.#changed.clear();
      const isList = this.#isStale || changed.length > MAX_SINGLE;
      try {
        if (isList) await this.refresh(signal);
        else await Promise.all(changed.map((id) => this.#readOne(id, signal)));
        signal.throwIfAborted();
        waitMs = this.#times.retryMs;
      } catch (error) {
        this.#isStale = true;
        if (signal.aborted || endIfRefused(error) || error instanceof ForbiddenError) return;
        await pause(waitMs, signal);
        waitMs = Math.min(MAX_RETRY_MS, 2 * waitMs);
        continue;
      }
      await pause(isList ? this.#times.listGapMs : this.#times.gatherMs, signal);
    }
  }

  async #readOne(id: string, signal: AbortSignal): Promise<void> {
    try {
      this.put(await this.#client.sandboxes.get(id).info({ signal }));
    } catch (error) {
      if (error instanceof NotFoundError) this.#remove(id);
      else throw error;
    }
  }

  #remove(id: string): void {
    if (this.sandboxes.value?.has(id) !== true) return;
    const rest = new Map(this.sandboxes.value);
    rest.delete(id);
    this.sandboxes.set(rest);
  }

  async #poll(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.refresh(signal);
        if (this.#isStale) return;
        this.connection.set({ state: 'polling' });
      } catch (error) {
        if (signal.aborted || error instanceof ForbiddenError) return;
      }
      await pause(POLL_MS, signal);
    }
  }
}

/** The old object if nothing has changed, so that its pages are not drawn and read again. */
function keepEqual(before: SandboxInfo | undefined, now: SandboxInfo): SandboxInfo {
  return before !== undefined && JSON.stringify(before) === JSON.stringify(now) ? before : now;
}
