// A host follows the keys of its fleet: no change is lost, and who writes other ConfigMaps gives it no work.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Complaints } from '../../../../host-agent/src/fleet/host/complaints.ts';
import { SharedKeys } from '../../../../host-agent/src/fleet/host/shared-keys.ts';
import { toKeyObject } from '../../../../host-agent/src/fleet/kubernetes/key-objects.ts';
import { FleetSeal } from '../../../../host-agent/src/fleet/seal.ts';
import { type KeyRecord, KeyRegistry } from '../../../../host-agent/src/keys/index.ts';
import { hashKey, mintKey } from '../../../../host-agent/src/keys/record.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { until } from '../../../support/until.ts';

const NAMESPACE = 'sandboxd';
const seal = new FleetSeal(Buffer.from('a secret of a fleet of 32 bytes, or more'));
const other = new FleetSeal(Buffer.from('the secret of another fleet, also long'));

const keyOf = (name: string): KeyRecord => ({ name, hash: hashKey(name), createdAtMs: 1 });

function event(type: string, name: string, by = seal): Buffer {
  const object = toKeyObject(NAMESPACE, keyOf(name), by);
  const metadata = { ...object.metadata, namespace: NAMESPACE, resourceVersion: '2' };
  return Buffer.from(`${JSON.stringify({ type, object: { ...object, metadata } })}\n`);
}

/** A watch whose events arrive without a turn of the event loop. */
class Events {
  readonly #waiting: ((chunk: Buffer | undefined) => void)[] = [];

  readonly destroy = (): void => {
    for (const give of this.#waiting.splice(0)) give(undefined);
  };

  send(chunk: Buffer): void {
    this.#waiting.shift()?.(chunk);
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      const chunk = await new Promise<Buffer | undefined>((give) => this.#waiting.push(give));
      if (chunk === undefined) return;
      yield chunk;
    }
  }
}

async function follow(
  t: Test,
  setShared: (keys: readonly KeyRecord[]) => Promise<void>,
  more: { readonly retryMs?: number; readonly lines?: object[] } = {},
) {
  const events = new Events();
  const client = {
    request: async () => ({ metadata: { resourceVersion: '1' }, items: [] }),
    stream: async (_: unknown, signal: AbortSignal) => {
      signal.addEventListener('abort', events.destroy);
      return events;
    },
  };
  const { lines = [], retryMs = 5000 } = more;
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const shared = new SharedKeys({
    ...{ client: client as never, seal, namespace: NAMESPACE, log, retryMs },
    keys: { setShared, awaitShared: () => undefined, requireKeys: () => undefined },
    records: { get: () => ({ id: '', isListed: true }), put: async () => undefined } as never,
  });
  t.teardown(() => shared.close());
  shared.start();
  await until(() => events !== undefined, 'a watch');
  return { events, shared };
}

t.test('a change at the very end of the write of an earlier one is written, too', async (t) => {
  for (let ticks = 0; ticks < 16; ticks++) {
    const writes: string[][] = [];
    const written = Promise.withResolvers<void>();
    const { events } = await follow(t, async (keys) => {
      writes.push(keys.map(({ name }) => name).sort());
      if (keys.length === 1) await written.promise;
    });
    await until(() => writes.length === 1, 'the first list');
    await turn();
    events.send(event('ADDED', 'a'));
    await until(() => writes.length === 2, 'the first key');
    await turn();
    events.send(event('ADDED', 'b'));
    for (let n = 0; n < ticks; n++) await undefined;
    written.resolve();
    for (let n = 0; n < 4; n++) await turn();
    t.same(writes.at(-1), ['a', 'b'], `after ${ticks} microtasks`);
  }
});

t.test('what is no key makes no write, and few lines', async (t) => {
  let writes = 0;
  const lines: object[] = [];
  const { events } = await follow(t, async () => void writes++, { lines });
  await until(() => writes === 1, 'the first list');
  await turn();
  for (let n = 0; n < 50; n++) {
    events.send(event(n % 2 === 0 ? 'ADDED' : 'DELETED', `x${n % 3}`, other));
    await turn();
  }
  t.equal(writes, 1);
  t.match(lines, [{ configMap: /^sandboxd-key-/, reason: /secret of this fleet/ }]);
  t.equal(lines.length, 1);
  events.send(event('ADDED', 'a'));
  await until(() => writes === 2, 'a key');
  await turn();
  events.send(event('MODIFIED', 'a'));
  await turn();
  t.equal(writes, 2, 'the same again');
});

t.test('a line a minute has the number of the others', (t) => {
  const lines: object[] = [];
  let now = 0;
  const complaints = new Complaints(
    { warn: (line: object) => lines.push(line) } as never,
    'no key',
    () => now,
  );
  for (const at of [0, 1, 59_999, 60_000, 60_001, 120_000]) {
    now = at;
    complaints.add({ at: String(at) });
  }
  t.strictSame(lines, [{ at: '0' }, { at: '60000', others: 2 }, { at: '120000', others: 1 }]);
  t.end();
});

t.test('a registry that cannot be written is asked again, once for all changes', async (t) => {
  let isFull = true;
  const writes: number[] = [];
  const { events } = await follow(
    t,
    async (keys) => {
      if (isFull) throw new Error('MDB_MAP_FULL');
      writes.push(keys.length);
    },
    { retryMs: 200 },
  );
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  await turn();
  const before = timers();
  for (const name of ['a', 'b', 'c']) {
    events.send(event('ADDED', name));
    await turn();
  }
  t.ok(timers() <= before, 'one timer');
  isFull = false;
  await until(() => writes.length > 0, 'another attempt');
  t.same(writes, [3]);
});

t.test('a host that changes its fleet takes the keys of the earlier one no more', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'shared-keys-'));
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(async () => {
    await store.close();
    await rm(dir, { recursive: true });
  });
  const keys = new KeyRegistry(store);
  const records = store.table<{ readonly id: string }>('fleet_host');
  const start = (of: FleetSeal, namespace: string) =>
    new SharedKeys({
      ...{ client: {} as never, seal: of, namespace, keys, records },
      log: pino({ level: 'silent' }),
    });
  await start(seal, NAMESPACE).restore();
  const text = mintKey();
  const own = await keys.create({ name: 'own' });
  await keys.setShared([{ name: 'ci', hash: hashKey(text), createdAtMs: 1 }]);
  await start(seal, NAMESPACE).restore();
  t.match(keys.find(text), { state: 'valid' }, 'the same fleet');
  await start(seal, 'another').restore();
  t.match(keys.find(text), { state: 'unknown' }, 'another namespace');
  await keys.setShared([{ name: 'ci', hash: hashKey(text), createdAtMs: 1 }]);
  await start(other, 'another').restore();
  t.match(keys.find(text), { state: 'unknown' }, 'another secret');
  t.match(keys.find(own.text), { state: 'valid' });
});
