// Recording a service's output: over lost connections and restarts of the daemon nothing is missing or comes twice.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceRecord } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { GuestService, OutputEvents } from '../../../../host-agent/src/guest/service.ts';
import type { ServiceOutputRequest } from '../../../../host-agent/src/guest/service-types.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { LogStore } from '../../../../host-agent/src/logs/index.ts';
import { LogCapture } from '../../../../host-agent/src/sandboxes/log-capture.ts';

const ID = 'sbx_0123456789abc';

/** A guest whose service wrote `output` into one ring after the other. */
class FakeGuest {
  isConnected = true;
  readonly requests: ServiceOutputRequest[] = [];
  events: OutputEvents | undefined;
  consumed = 0;
  readonly #listeners = new Set<() => void>();

  readonly service = {
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

t.test('a connection that comes back goes on behind the last record', async (t) => {
  const { log, logger, texts } = await (await makeLogs(t))();
  const guest = new FakeGuest();
  const capture = new LogCapture({ guest, log, logger });
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

t.test('a daemon that comes back goes on where its log ends, in the middle of a character', async (t) => {
  const open = await makeLogs(t);
  const first = await open();
  const euro = Buffer.from('€');
  const guest = new FakeGuest();
  new LogCapture({ guest, log: first.log, logger: first.logger });
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
  new LogCapture({ guest: again, log: second.log, logger: second.logger });
  t.match(again.requests[0], { ring: 'c'.repeat(16), fromSeq: 2 });
  again.send({ kind: 'ring', seq: 2, id: 'c'.repeat(16) }, out(2, euro.subarray(2)));
  t.same(await second.texts(), ['a', 'b', 'exec: true', '€']);
  await second.store.stop();
});
