// Egress logs without guests: what is kept of what a guest does, and what a flood costs.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { LogStore } from '../../../../host-agent/src/logs/index.ts';
import { EgressLog, type EgressRecord } from '../../../../host-agent/src/network/egress-log.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(60_000));

const ID = 'sbx_0123456789abc';
const OTHER = 'sbx_0123456789abd';
const MIB = 2 ** 20;

const DENIED: EgressRecord = {
  verdict: 'denied',
  reason: 'no rule',
  protocol: 'tcp',
  address: '192.0.2.1',
  port: 22,
};
const ALLOWED: EgressRecord = {
  verdict: 'allowed',
  reason: 'a rule',
  protocol: 'tls',
  rule: 'a.test:443/tls',
  name: 'a.test',
  bytesUp: 5,
  bytesDown: 7,
  ms: 3,
};

async function start(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-egress-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const log = pino({ level: 'silent' });
  const open = async (alive: readonly string[] = []) => {
    const store = new LogStore({ dir, maxBytes: MIB, retentionMs: 1000_000, retentionBytes: 2 ** 30, log });
    const egress = new EgressLog(store);
    await egress.start(new Set(alive));
    t.teardown(() => store.stop());
    return { store, egress };
  };
  return { dir, open, ...(await open()) };
}

t.test(
  'records come back with generation and time, by verdict, and nothing is on disk before the first',
  async (t) => {
    const { dir, egress } = await start(t);
    await egress.begin(ID, { generation: 1 }, 'one');
    t.same(await readdir(dir), []);
    t.equal(await egress.read(ID, {}), undefined);
    egress.add(ID, DENIED);
    await egress.begin(OTHER, { generation: 1 });
    egress.change(ID, { generation: 2 });
    egress.add(ID, ALLOWED);
    egress.add(ID, { ...ALLOWED, generation: 1 });
    egress.add('sbx_unknown', DENIED);
    const page = await egress.read(ID, {});
    t.match(page?.records, [{ ...DENIED, generation: 1 }, { ...ALLOWED, generation: 2 }, { generation: 1 }]);
    t.ok(Math.abs((page?.records[0]?.timeMs ?? 0) - Date.now()) < scaled(60_000));
    t.match((await egress.read(ID, { verdict: 'denied' }))?.records, [DENIED]);
    t.equal((await egress.read(ID, { verdict: 'allowed' }))?.records.length, 2);
    t.same(await egress.read(ID, { since: page?.nextOffset ?? 0 }), {
      nextOffset: page?.nextOffset,
      records: [],
    });
    t.equal(await egress.read(ID, { tenant: 'two' }), undefined, 'of another tenant');
    t.equal((await egress.read(ID, { tenant: 'one' }))?.records.length, 3);
    t.same(
      [...egress.counts],
      [
        { labels: { verdict: 'denied', protocol: 'tcp' }, value: 1 },
        { labels: { verdict: 'allowed', protocol: 'tls' }, value: 2 },
      ],
    );
  },
);

t.test('denied: only those; off: nothing; both count', async (t) => {
  const { dir, egress } = await start(t);
  await egress.begin(ID, { generation: 1, mode: 'off' });
  for (const each of [DENIED, ALLOWED]) egress.add(ID, each);
  t.same(await readdir(dir), []);
  egress.change(ID, { generation: 2, mode: 'denied' });
  for (const each of [DENIED, ALLOWED]) egress.add(ID, each);
  t.match((await egress.read(ID, {}))?.records, [{ verdict: 'denied', generation: 2 }]);
  t.same(
    [...egress.counts].map(({ value }) => value),
    [2, 2],
  );
  const none = new EgressLog(undefined);
  await none.begin(ID, { generation: 1 });
  none.add(ID, DENIED);
  t.equal(none.isKept, false);
  t.equal(await none.read(ID, {}), undefined);
});

t.test('a flood of denials costs little, says how many are missing, and hides no connection', async (t) => {
  const { dir, egress } = await start(t);
  await egress.begin(ID, { generation: 1 });
  const cpu = process.cpuUsage();
  for (let n = 0; n < 200_000; n++) egress.add(ID, { ...DENIED, name: 'x'.repeat(5000), port: n % 65_536 });
  const { user, system } = process.cpuUsage(cpu);
  t.ok((user + system) / 200_000 < 20, `${(user + system) / 200_000} µs of CPU for each`);
  egress.add(ID, ALLOWED);
  await egress.end(ID, true);
  const { records = [] } = (await egress.read(ID, { since: 0 })) ?? {};
  t.ok(records.length < 200, `${records.length} records`);
  const missing = records.filter(({ verdict }) => verdict === 'missing');
  const kept = records.filter(({ verdict }) => verdict === 'denied');
  const dropped = missing.reduce((sum, each) => sum + (each.dropped ?? 0), 0);
  t.equal(kept.length + dropped, 200_000);
  t.equal(kept[0]?.name?.length, 253);
  t.ok(records.some(({ verdict }) => verdict === 'allowed'));
  t.match((await egress.read(ID, { since: 0, verdict: 'denied' }))?.records.at(-1), { verdict: 'missing' });
  const [files = []] = await Promise.all([readdir(join(dir, ID))]);
  t.ok(files.includes('ended'));
});

t.test('a log outlives its sandbox and the daemon, unless no client saw it', async (t) => {
  const { dir, open, store, egress } = await start(t);
  for (const id of [ID, OTHER]) {
    await egress.begin(id, { generation: 1 });
    egress.add(id, DENIED);
  }
  await egress.read(ID, {});
  await egress.end(OTHER, false);
  t.same(await readdir(dir), [ID]);
  await store.stop();
  const next = await open([ID]);
  await next.egress.begin(ID, { generation: 4 });
  next.egress.add(ID, DENIED);
  t.match((await next.egress.read(ID, { since: 0 }))?.records, [{ generation: 1 }, { generation: 4 }]);
  let ended = 0;
  next.egress.onMore(ID, () => ended++);
  await next.egress.end(ID, true);
  t.equal(ended, 1);
  t.equal(next.egress.isOpen(ID), false);
  t.equal((await next.egress.read(ID, { since: 0 }))?.records.length, 2);
  await next.store.stop();
  const last = await open();
  t.ok((await readdir(join(dir, ID))).includes('ended'));
  t.equal((await last.egress.read(ID, { since: 0 }))?.records.length, 2);
});
