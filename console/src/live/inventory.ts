// The sandboxes that the key can see, kept current by the events of the daemon, and the newest events.
import {
  ApiError,
  type Client,
  ConnectionError,
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
/** For a daemon without events. */
const POLL_MS = 5000;
const GONE = 410;

export type Connection =
  | { readonly state: 'connecting' | 'live' | 'polling' }
  | { readonly state: 'lost'; readonly problem: string };

export class Inventory {
  /** Undefined until the first list is there. Oldest first. */
  readonly sandboxes = new Store<ReadonlyMap<string, SandboxInfo> | undefined>(undefined);
  /** Why there is no list. */
  readonly error = new Store<unknown>(undefined);
  /** Newest first. */
  readonly events = new Store<readonly SandboxEvent[]>([]);
  readonly connection = new Store<Connection>({ state: 'connecting' });
  readonly #client: Client;
  readonly #changed = new Set<string>();
  #lastEvent: string | undefined;
  #isStale = true;

  constructor(client: Client) {
    this.#client = client;
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
    try {
      const list = await this.#client.sandboxes.list({ signal });
      this.#isStale = false;
      this.error.set(undefined);
      this.sandboxes.set(new Map(list.map((each) => [each.id, each])));
    } catch (error) {
      if (signal?.aborted || endIfRefused(error)) return;
      if (error instanceof ApiError) this.error.set(error);
      throw error;
    }
  }

  /** Takes what a call of this page returned, before its event comes. */
  put(info: SandboxInfo): void {
    this.sandboxes.set(new Map(this.sandboxes.value).set(info.id, info));
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#stream(signal);
      } catch (error) {
        if (signal.aborted || endIfRefused(error)) return;
        if (error instanceof UnsupportedError) return this.#poll(signal);
        if (error instanceof ApiError && error.status === GONE) {
          this.#lastEvent = undefined;
          this.#isStale = true;
          continue;
        }
        // The page of the list shows the reason; it does not change by itself.
        if (error instanceof ApiError && error.status < 500) return;
        this.connection.set({ state: 'lost', problem: toSentence(error) });
      }
      await pause(RETRY_MS, signal);
    }
  }

  /** Without one, the stream begins with the next event, and the list is read after it was opened. */
  get #position(): { readonly after?: string } {
    return this.#lastEvent === undefined ? {} : { after: this.#lastEvent };
  }

  async #stream(signal: AbortSignal): Promise<void> {
    const onConnection = (isOpen: boolean): void => {
      if (isOpen && (this.#isStale || this.#lastEvent === undefined)) {
        this.refresh(signal).catch(() => undefined);
      }
      if (isOpen) this.connection.set({ state: 'live' });
      else if (!signal.aborted) {
        this.connection.set({ state: 'lost', problem: 'the connection to the daemon was lost' });
      }
    };
    for await (const event of this.#client.events({ ...this.#position, onConnection, signal })) {
      this.#lastEvent = event.id;
      this.#take(event, signal);
    }
  }

  #take(event: SandboxEvent, signal: AbortSignal): void {
    this.events.set([event, ...this.events.value].slice(0, MAX_EVENTS));
    const { sandbox, kind } = event;
    if (sandbox === undefined) return;
    if (kind === 'deleted') this.#remove(sandbox);
    if (this.#changed.size === 0) setTimeout(() => this.#readChanged(signal), GATHER_MS);
    this.#changed.add(sandbox);
  }

  #readChanged(signal: AbortSignal): void {
    const changed = [...this.#changed];
    this.#changed.clear();
    if (signal.aborted) {
      this.#isStale = true;
      return;
    }
    const work =
      changed.length > MAX_SINGLE ? [this.refresh(signal)] : changed.map((id) => this.#read(id, signal));
    Promise.all(work).catch(() => {
      this.#isStale = true;
    });
  }

  async #read(id: string, signal: AbortSignal): Promise<void> {
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
        this.connection.set({ state: 'polling' });
      } catch (error) {
        if (!(error instanceof ConnectionError)) return;
        this.connection.set({ state: 'lost', problem: toSentence(error) });
      }
      await pause(POLL_MS, signal);
    }
  }
}
