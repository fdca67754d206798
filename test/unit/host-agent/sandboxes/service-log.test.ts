// Log capture of services: over lost connections and restarts of the daemon nothing is missing or duplicated.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceRecord } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Guest } from '../../../../host-agent/src/guest/guest.ts';
import type {
  GuestService,
  OutputEvents,
  ServiceOutputRequest,
} from '../../../../host-agent/src/guest/service.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { LogStore } from '../../../../host-agent/src/logs/index.ts';
import { LogCaptures } from '../../../../host-agent/src/sandboxes/command-logs.ts';
import { CommandCounts } from '../../../../host-agent/src/sandboxes/exec.ts';
import { ServiceLog } from '../../../../host-agent/src/sandboxes/service-log.ts';

const ID = 'sbx_0123456789abc';

/** A guest whose service wrote `output` to one ring after the other. */
class FakeGuest {
  isConnected = true;
  readonly requests: ServiceOutputRequest[] = [];
  events: OutputEvents | undefined;
  consumed = 0;
  readonly #listeners = new Set<() => void>();
  readonly #configured = Promise.withResolvers<void>();
  readonly configure = this.#configured.resolve;
  listings = 0;
  readonly can = () => true;
  readonly commands = {
    list: async () => {
      this.listings += 1;
      return [];
    },
  };

  readonly service = {
    configured: this.#configured.promise,
    output: (request: ServiceOutputRequest, events: OutputEvents) => {
      if (!this.isConnected) throw new AppError('guest_unreachable', 'gone');
      this.requests.push(request);
      this.events = events;
      return {
        consumed: (bytes: number) => {
          this.consumed += bytes;
        },
        cancel: () => {
          this.events = undefined;
        },
      };
    },
  } as unknown as GuestService;

  watchConnections(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  send(...records: ServiceRecord[]): void {
    this.events?.records(records, 10);
  }

  breakConnection(): void {
    const { events } = this;
    this.events = undefined;
    this.isConnected = false;
    events?.failed(new AppError('guest_unreachable', 'lost'));
  }

  connect(): void {
    this.isConnected = true;
    this.announce();
  }

  announce(): void {
    for (const listener of this.#listeners) listener();
  }
}

const out = (seq: number, data: string | Buffer): ServiceRecord => ({
  kind: 'output',
  stream: 'stdout',
  seq,
  unixMs: 1000 + seq,
  data: Buffer.from(data),
});

async function makeLogs(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-capture-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const logger = pino({ level: 'silent' });
  const open = async () => {
    const store = new LogStore({
      dir,
      maxBytes: 2 ** 24,
      retentionMs: 1e9,
      retentionBytes: 1e9,
      log: logger,
    });
    await store.start(new Set([ID]));
    const log = await store.open(ID);
    if (log === undefined) throw new Error('no log');
    const texts = async () => (await store.read(ID, { since: 0 }))?.records.map(({ text }) => text);
    return { store, log, logger, texts };
  };
  return open;
}

t.test('a new connection continues after the last record', async (t) => {
  const { log, logger, texts } = await (await makeLogs(t))();
  const guest = new FakeGuest();
  const capture = new ServiceLog({ guest, log, logger });
  t.match(guest.requests[0], { ring: '', fromSeq: 0, isFollowing: true, isWaiting: true });
  guest.send({ kind: 'ring', seq: 0, id: 'a'.repeat(16) }, out(0, 'one\n'), out(1, 'two\n'));
  t.equal(guest.consumed, 10);
  guest.breakConnection();
  guest.connect();
  t.match(guest.requests[1], { ring: 'a'.repeat(16), fromSeq: 2 });
  guest.send({ kind: 'ring', seq: 2, id: 'a'.repeat(16) }, out(1, 'again\n'), out(2, 'three\n'));
  guest.send({ kind: 'gap', seq: 7, records: 4, bytes: 44 }, out(7, 'eight\n'));
  guest.send({ kind: 'ring', seq: 0, id: 'b'.repeat(16) }, out(0, 'new\n'));
  t.match(await texts(), [
    'one\n',
    'two\n',
    'three\n',
    /44 bytes of output \(4 records\)/,
    'eight\n',
    'new\n',
  ]);
  capture.stop();
  guest.connect();
  t.equal(guest.requests.length, 2, 'not after its end');
});

t.test('a new guest is asked for output once it has a service, one of earlier at once', async (t) => {
  const { log, logger } = await (await makeLogs(t))();
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const start = (guest: FakeGuest) =>
    new LogCaptures({ counts: new CommandCounts(), guest: guest as FakeGuest & Guest, log, logger });
  const guest = new FakeGuest();
  const captures = start(guest);
  captures.begin(false);
  guest.connect();
  await turn();
  t.same([guest.requests.length, guest.listings], [0, 0]);
  guest.configure();
  await turn();
  t.match(guest.requests, [{ ring: '', fromSeq: 0, isFollowing: true, isWaiting: true }]);
  guest.breakConnection();
  guest.connect();
  t.equal(guest.requests.length, 2);
  captures.stop();
  t.equal(guest.events, undefined);
  const earlier = new FakeGuest();
  const adopted = start(earlier);
  adopted.begin(true);
  t.same([earlier.requests.length, earlier.listings], [1, 1]);
  earlier.configure();
  await turn();
  t.equal(earlier.requests.length, 1);
  adopted.stop();
  const gone = new FakeGuest();
  start(gone).stop();
  gone.configure();
  await turn();
  t.equal(gone.requests.length, 0);
});

t.test('a restarted daemon continues where its log ends, in the middle of a character', async (t) => {
  const open = await makeLogs(t);
  const first = await open();
  const euro = Buffer.from('€');
  const guest = new FakeGuest();
  new ServiceLog({ guest, log: first.log, logger: first.logger });
  guest.send(
    { kind: 'ring', seq: 0, id: 'c'.repeat(16) },
    out(0, 'a'),
    out(1, Buffer.concat([Buffer.from('b'), euro.subarray(0, 2)])),
  );
  first.log.event('exec', 'exec: true');
  await first.log.flush();

  // As after kill -9: nothing was closed.
  const second = await open();
  const again = new FakeGuest();
  new ServiceLog({ guest: again, log: second.log, logger: second.logger });
  t.match(again.requests[0], { ring: 'c'.repeat(16), fromSeq: 2 });
  again.send({ kind: 'ring', seq: 2, id: 'c'.repeat(16) }, out(2, euro.subarray(2)));
  t.same(await second.texts(), ['a', 'b', 'exec: true', '€']);
  await second.store.stop();
});

/** A log that records its calls, and is full or fails when a test asks for it. */
function makeLog() {
  const logged: string[] = [];
  const waiting: (() => void)[] = [];
  const log = {
    hasFailed: false,
    position: undefined,
    append: ({ stream, timeMs, data }: { stream: string; timeMs: number; data: Buffer }) =>
      logged.push(`${stream} ${data.toString('latin1')}${timeMs < 2000 ? '' : ' late'}`),
    event: (_source: string, text: string) => logged.push(text.slice(0, 24)),
    whenWritable: (goOn: () => void) => waiting.push(goOn),
  };
  return { logged, waiting, log };
}

t.test(
  'backpressure: output waits in the guest for a full log, and capture stops when the log fails',
  async (t) => {
    const { logged, waiting, log } = makeLog();
    const guest = new FakeGuest();
    let outputs = 0;
    const parts = { guest, log: log as never, logger: pino({ level: 'silent' }), onOutput: () => outputs++ };
    new ServiceLog(parts);
    guest.send({ kind: 'ring', seq: 0, id: 'a' });
    t.equal(outputs, 0, 'a ring alone is nothing that the service did');
    guest.send(out(0, 'one'));
    t.same([outputs, guest.consumed, waiting.length], [1, 0, 2]);
    for (const goOn of waiting.splice(0)) goOn();
    t.equal(guest.consumed, 20);
    guest.send({ kind: 'gap', seq: 5, records: 2, bytes: 9 });
    t.equal(outputs, 2);
    log.hasFailed = true;
    guest.send(out(5, 'two'));
    t.equal(waiting.length, 1);
    t.equal(guest.events, undefined, 'it wants no more');
    guest.connect();
    t.equal(guest.requests.length, 1);
    t.same(logged, ['stdout one', 'about 9 bytes of output ', 'stdout two']);
    new ServiceLog(parts);
    t.equal(guest.requests.length, 1);
  },
);

t.test('incomplete characters are logged before the output that replaces them', (t) => {
  const { logged, log } = makeLog();
  const guest = new FakeGuest();
  new ServiceLog({ guest, log: log as never, logger: pino({ level: 'silent' }) });
  const half = (seq: number, stream: 'stdout' | 'stderr') => ({ ...out(seq, Buffer.of(0xe2, 0x82)), stream });
  guest.send({ kind: 'ring', seq: 0, id: 'a' }, half(0, 'stdout'), half(1, 'stderr'));
  t.same(logged, []);
  guest.send({ kind: 'gap', seq: 4, records: 2, bytes: 9 }, out(4, 'x'));
  const rest = ['stdout \u00e2\u0082 late', 'stderr \u00e2\u0082 late'];
  t.same(logged, [...rest, 'about 9 bytes of output ', 'stdout x']);
  guest.send(half(5, 'stderr'), { kind: 'ring', seq: 0, id: 'b' }, out(0, 'y'));
  t.same(logged.slice(4), [rest[1], 'stdout y']);
  t.end();
});

t.test('a lost subscription with a live guest is renewed a second later', (t) => {
  const timers = new Map<object, { readonly callback: () => void; readonly ms: number }>();
  t.intercept(globalThis, 'setTimeout', {
    value: (callback: () => void, ms: number) => {
      const timer = { unref: () => timer };
      timers.set(timer, { callback, ms });
      return timer;
    },
  });
  t.intercept(globalThis, 'clearTimeout', { value: (timer: object) => void timers.delete(timer) });
  const pass = () => {
    const due = [...timers.values()];
    timers.clear();
    for (const { callback } of due) callback();
    return due.map(({ ms }) => ms);
  };
  const guest = new FakeGuest();
  const { log } = makeLog();
  const capture = new ServiceLog({ guest, log: log as never, logger: pino({ level: 'silent' }) });
  guest.connect();
  t.equal(guest.requests.length, 1, 'once at a time');
  guest.events?.end({} as never);
  t.equal(guest.requests.length, 1);
  t.same(pass(), [1000]);
  t.equal(guest.requests.length, 2);
  guest.breakConnection();
  t.same(pass(), [1000]);
  t.equal(guest.requests.length, 2, 'the agent is absent');
  guest.connect();
  t.equal(guest.requests.length, 3);
  guest.events?.end({} as never);
  guest.connect();
  t.equal(guest.requests.length, 4, 'a new connection is sooner');
  t.same(pass(), []);
  guest.events?.end({} as never);
  guest.events?.end({} as never);
  t.equal(timers.size, 1);
  capture.stop();
  t.equal(timers.size, 0);
  capture.stop();
  const absent = new FakeGuest();
  absent.isConnected = false;
  const later = new ServiceLog({ guest: absent, log: log as never, logger: pino({ level: 'silent' }) });
  t.equal(absent.requests.length, 0);
  absent.connect();
  t.equal(absent.requests.length, 1);
  absent.events?.end({} as never);
  timers.clear();
  absent.isConnected = false;
  absent.announce();
  t.equal(timers.size, 1, 'a connection that is lost again by then is retried');
  absent.connect();
  t.equal(absent.requests.length, 2);
  const { events } = absent;
  later.stop();
  t.equal(absent.events, undefined, 'a stopped capture gets no output');
  events?.failed(new AppError('guest_unreachable', 'lost'));
  t.equal(timers.size, 0);
  t.end();
});
