// The network of a sandbox: order of allocation and release, and that a failed create leaves nothing of it.
import t, { type Test } from 'tap';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import {
  type Home,
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../../../support/memory-host/daemon.ts';
import { RecordingNetwork } from '../../../support/memory-host/network.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const allowlist = ['example.org'];
const publish = [{ hostPort: 8080, guestPort: 80 }];

async function start(t: Test, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, { templateBudgetBytes: 0, ...options });
  return { recorder: daemon.network, ...daemon };
}

t.test('the network exists before the VM, and is removed before another sandbox gets it', async (t) => {
  const { recorder, manager, host, store, logs } = await start(t);
  const recorded: unknown[] = [];
  const records = store.table<SandboxRecord>('sandboxes');
  recorder.onCall = (call) => {
    if (call === 'create') recorded.push(...records.all().map(({ record }) => record.network?.tap));
  };
  host.onBoot = () => void recorder.calls.push('boot');
  host.onKill = () => void recorder.calls.push('kill');
  const info = await manager.create({ network: { allowlist } });
  t.same(recorder.calls, [
    'tidy',
    'allocate',
    'create tap1',
    'publish [] tap1',
    'start [example.org] first tap1',
    'boot',
  ]);
  t.same(recorded, ['tap1'], 'a crash after that leaves nothing unrecorded');
  t.same(info.network, { allowlist, guestIp: '10.0.1.2', gateway: '10.0.1.1' });
  t.notOk('published' in info);
  const { spec, agent } = host.of(info.id);
  t.match(spec?.net, { tap: 'tap1', namespace: '/ns/1' });
  t.same(agent.identities[0]?.network, {
    mac: '02',
    gatewayMac: '01',
    address: '10.0.1.2',
    prefixLength: 30,
    gateway: '10.0.1.1',
    dns: '10.0.1.1',
  });
  recorder.deny('denied: other.example');
  recorder.calls.length = 0;
  await manager.delete(info.id);
  await until(() => recorder.calls.includes('free tap1'));
  t.equal(records.get(info.id), undefined);
  t.same(recorder.calls, ['kill', 'stop tap1', 'kill', 'clear tap1', 'free tap1']);
  const page = await logs.read(info.id, { since: 0 });
  t.same(
    page?.records.map(({ text }) => text),
    ['denied: other.example'],
  );
});

t.test('a sandbox without a network allocates none', async (t) => {
  const { recorder, manager, host } = await start(t);
  const info = await manager.create({});
  t.notOk('network' in info || 'published' in info);
  t.notOk(host.of(info.id).agent.identities[0]?.network);
  t.notOk('net' in (host.of(info.id).spec ?? {}));
  await manager.delete(info.id);
  await manager.stop('destroy');
  t.same(recorder.calls, ['tidy']);
});

t.test('published ports alone give an empty allowlist, and a copy has its own ports', async (t) => {
  const { recorder, manager } = await start(t);
  const info = await manager.create({ publish });
  t.match(info, { network: { allowlist: [] }, published: publish });
  t.ok(recorder.calls.includes('publish [8080] tap1') && recorder.calls.includes('start [] first tap1'));
  const snapshot = await manager.get(info.id).snapshot();
  const [plain] = await manager.fork(snapshot.id, 1);
  t.notOk('published' in (plain ?? {}), 'the ports of its source are taken');
  const [fork] = await manager.fork(snapshot.id, 1, undefined, undefined, {
    publish: [{ hostPort: 9090, guestPort: 80 }],
  });
  t.match(fork, { published: [{ hostPort: 9090 }], network: { guestIp: '10.0.3.2' } });
  t.same(
    recorder.calls.filter((call) => call.startsWith('publish')),
    ['publish [8080] tap1', 'publish [] tap2', 'publish [9090] tap3'],
  );
  await t.rejects(manager.fork(snapshot.id, 2, undefined, undefined, { publish }), {
    message: /needs count 1/,
  });
});

t.test('if any step fails, nothing of the sandbox or its network remains', async (t) => {
  for (const fails of ['allocate', 'create', 'publish', 'start']) {
    const { recorder, manager, host, store } = await start(t);
    recorder.fails = fails;
    await t.rejects(manager.create({ network: { allowlist } }), {
      message: `cannot create the sandbox (stage network): cannot ${fails}`,
    });
    const undone = recorder.calls.filter((call) => /^(stop|clear|free)/.test(call));
    t.same(undone, fails === 'allocate' ? [] : ['stop tap1', 'clear tap1', 'free tap1'], fails);
    t.equal(host.counts.boots, 0);
    t.same(store.table('sandboxes').all(), []);
  }
});

t.test('a network that cannot be recorded is released', async (t) => {
  const { recorder, manager } = await start(t, {
    changeRecords: (records) => {
      const put = records.put.bind(records);
      return Object.assign(records, {
        put: (id: string, record: SandboxRecord) =>
          record.network === undefined ? put(id, record) : Promise.reject(new Error('the registry is full')),
      });
    },
  });
  await t.rejects(manager.create({ network: { allowlist } }), { message: /the registry is full/ });
  t.notOk(recorder.calls.some((call) => call.startsWith('create')));
  t.equal(recorder.calls.at(-1), 'free tap1');
});

async function crashWithNetworks(t: Test, home: Home) {
  const first = await start(t, { home });
  const { id } = await first.manager.create({ network: { allowlist }, publish });
  const plain = await first.manager.create({});
  const records = first.store.table<SandboxRecord>('sandboxes');
  return { ...first, id, plain, records };
}

t.test('the next daemon adopts the network, and logs what of it is lost', async (t) => {
  for (const fails of ['', 'start', 'adopt ports']) {
    const home = await makeHome(t);
    const first = await crashWithNetworks(t, home);
    await first.crash();
    const recorder = new RecordingNetwork();
    recorder.fails = fails;
    const next = await startMemoryDaemon(t, { home, network: recorder });
    t.same(
      next.manager
        .list()
        .map(({ id }) => id)
        .sort(),
      [first.id, first.plain.id].sort(),
    );
    t.same(recorder.calls, [
      'adopt tap1',
      'start [example.org] again tap1',
      'adopt ports [8080] tap1',
      'tidy',
    ]);
    const warned = next.lines.filter(({ msg }) => msg?.startsWith('a sandbox has lost its'));
    t.equal(warned.length, fails === '' ? 0 : 1);
    t.match(next.manager.get(first.id).info, { network: { guestIp: '10.0.1.2' }, published: publish });
    await next.manager.delete(first.id);
    await until(() => recorder.calls.includes('free tap1'));
  }
});

t.test('without published ports none are adopted', async (t) => {
  const home = await makeHome(t);
  const first = await start(t, { home });
  await first.manager.create({ network: { allowlist } });
  await first.crash();
  const next = await start(t, { home });
  t.ok(next.recorder.calls.includes('adopt ports [] tap1'));
});

t.test('the next daemon removes the network of a half-created sandbox', async (t) => {
  const home = await makeHome(t);
  const first = await crashWithNetworks(t, home);
  await first.records.put(first.id, { ...first.records.get(first.id)!, isReady: false });
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  t.same(
    next.manager.list().map(({ id }) => id),
    [first.plain.id],
  );
  t.same(next.network.calls, ['adopt tap1', 'stop tap1', 'clear tap1', 'free tap1', 'tidy']);
});

t.test('a second create with a network copies a template with a network', async (t) => {
  const { recorder, manager, host, happened } = await start(t, { templateBudgetBytes: 2 ** 30 });
  const made = () => happened.flatMap((event) => (event.kind === 'template-made' ? [event.hasNetwork] : []));
  await manager.create({ network: { allowlist } });
  await until(() => made().length === 1);
  for (let count = 0; count < 2; count++) await manager.create({ network: { allowlist: [] } });
  await until(() => made().length === 2);
  t.same(made(), [true, true]);
  await until(
    () => recorder.calls.includes('free tap4'),
    'the network of the template’s guest to be destroyed',
  );
  t.ok(recorder.calls.includes('start [] first tap4'), 'its allowlist is empty');
  const copy = await manager.create({ network: { allowlist } });
  t.equal(host.counts.boots, 1);
  t.equal(host.of(copy.id).agent.identities[0]?.network?.address, copy.network?.guestIp);
  const { id } = await manager.create({});
  t.notOk(host.of(id).agent.identities[0]?.network);
});
