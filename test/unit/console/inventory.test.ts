// How the console's list follows the daemon: one list at a time, again after a failure, and never silently old.
import {
  ApiError,
  type Client,
  ConnectionError,
  ForbiddenError,
  type SandboxEvent,
  type SandboxInfo,
} from '@sandboxd/client';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';

const storage = { getItem: () => null, removeItem: () => undefined };
Object.assign(globalThis, {
  document: Object.assign(new EventTarget(), { hidden: false }),
  location: { origin: 'http://h', pathname: '/console' },
  sessionStorage: storage,
});
type Held<T> = { readonly value: T };
type Inventory = {
  open(): () => void;
  refresh(): Promise<void>;
  readonly sandboxes: Held<ReadonlyMap<string, SandboxInfo> | undefined>;
  readonly connection: Held<{ readonly state: string }>;
  readonly error: Held<unknown>;
};
// Its types are those of a browser, which the program of the tests does not have.
const path: string = '../../../console/src/live/inventory.ts';
const { Inventory } = (await import(path)) as {
  readonly Inventory: new (client: Client, times: object) => Inventory;
};

type Events = NonNullable<Parameters<Client['events']>[0]>;

/** A daemon whose answers a test decides. */
class FakeDaemon {
  lists = 0;
  listing = 0;
  mostListing = 0;
  streams = 0;
  readonly infos = new Map<string, object>();
  onList: () => Promise<void> = async () => undefined;
  onStream: () => void = () => undefined;
  readonly #events: SandboxEvent[] = [];
  #wake = (): void => undefined;

  readonly client = {
    events: (options: Events) => this.#follow(options),
    sandboxes: {
      list: async () => {
        this.lists++;
        this.listing++;
        this.mostListing = Math.max(this.mostListing, this.listing);
        try {
          await this.onList();
          return structuredClone([...this.infos.values()]);
        } finally {
          this.listing--;
        }
      },
      get: (id: string) => ({ info: async () => structuredClone(this.infos.get(id)) }),
    },
  } as unknown as Client;

  set(id: string, name: string): void {
    this.infos.set(id, { id, name });
    this.#events.push({ id: String(this.#events.length + 1), sandbox: id, kind: 'created' } as never);
    this.#wake();
  }

  async *#follow({ after, onConnection, signal }: Events): AsyncGenerator<SandboxEvent, void> {
    this.streams++;
    this.onStream();
    let at = after === undefined ? this.#events.length : Number(after);
    onConnection?.(true);
    while (!signal?.aborted) {
      const event = this.#events[at];
      if (event !== undefined) {
        at++;
        yield event;
        continue;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }
}

function open(t: Test, daemon: FakeDaemon, listGapMs = 5) {
  const inventory = new Inventory(daemon.client, { gatherMs: 2, retryMs: 2, listGapMs });
  const close = inventory.open();
  t.teardown(close);
  const names = () => [...(inventory.sandboxes.value?.values() ?? [])].map(({ name }) => name);
  return { inventory, names };
}

t.test('a list that fails is read again until it succeeds, and the state shows it', async (t) => {
  const daemon = new FakeDaemon();
  daemon.set('sbx_1', 'one');
  const answers = [new ConnectionError('no route'), new ApiError(429, 'slow down')];
  const isLet = Promise.withResolvers<void>();
  daemon.onList = async () => {
    const error = answers.shift();
    if (error !== undefined) throw error;
    await isLet.promise;
  };
  const { inventory, names } = open(t, daemon);
  await until(() => daemon.lists === 3, 'the third list');
  t.equal(inventory.connection.value.state, 'lost');
  isLet.resolve();
  await until(() => inventory.connection.value.state === 'live', 'the end of the problem');
  t.same(names(), ['one']);
  t.equal(inventory.error.value, undefined);

  daemon.onList = async () => {
    throw new ApiError(500, 'broken');
  };
  for (let at = 0; at < 20; at++) daemon.set(`sbx_${at}`, 'many');
  await until(() => inventory.connection.value.state === 'lost', 'the failure of a later list');
  t.same(names(), ['one'], 'the old list stays');
  t.equal(inventory.error.value, undefined);
  daemon.onList = async () => undefined;
  await until(() => names().length === 20, 'the new list');
  await until(() => inventory.connection.value.state === 'live', 'the end of the failure');
});

t.test('an empty list is a list', async (t) => {
  const { inventory } = open(t, new FakeDaemon());
  await until(() => inventory.sandboxes.value?.size === 0, 'the list');
  t.equal(inventory.connection.value.state, 'live');
});

t.test('only a refusal of the policy ends the following', async (t) => {
  const daemon = new FakeDaemon();
  daemon.set('sbx_1', 'one');
  const answers = [new ApiError(429, 'slow down'), new ApiError(410, 'gone'), new ApiError(404, 'a proxy')];
  daemon.onStream = () => {
    const error = answers.shift();
    if (error !== undefined) throw error;
  };
  const { inventory, names } = open(t, daemon);
  await until(() => names().length === 1, 'the list');
  t.equal(daemon.streams, 4);
  t.equal(inventory.connection.value.state, 'live');

  const closed = new FakeDaemon();
  closed.onStream = () => {
    throw new ForbiddenError(403, 'no view');
  };
  const other = open(t, closed);
  await until(() => other.inventory.connection.value.state === 'refused', 'the refusal');
  t.type(other.inventory.error.value, ForbiddenError);
  t.equal(closed.streams, 1);
});

t.test('many changes make one list at a time, and what is equal stays the same object', async (t) => {
  const daemon = new FakeDaemon();
  daemon.set('sbx_kept', 'kept');
  const { inventory, names } = open(t, daemon);
  await until(() => names().length === 1, 'the first list');
  const kept = inventory.sandboxes.value?.get('sbx_kept') as SandboxInfo;
  const isLet = Promise.withResolvers<void>();
  daemon.onList = () => isLet.promise;
  const before = daemon.lists;
  for (let at = 0; at < 20; at++) daemon.set(`sbx_${at}`, 'a');
  await until(() => daemon.lists > before, 'a list');
  for (let round = 0; round < 5; round++) {
    for (let at = 0; at < 20; at++) daemon.set(`sbx_${at}`, `b${round}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  t.equal(daemon.lists, before + 1, 'none while one is open');
  isLet.resolve();
  await until(() => names().filter((name) => name === 'b4').length === 20, 'the last state');
  t.equal(daemon.mostListing, 1);
  t.equal(inventory.sandboxes.value?.get('sbx_kept'), kept);
  const all = inventory.sandboxes.value;
  await inventory.refresh();
  t.equal(inventory.sandboxes.value, all, 'a list without changes changes nothing');
});
