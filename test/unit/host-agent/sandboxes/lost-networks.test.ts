// Networks that are gone when a daemon starts: after a reboot of the host, or of the container that the daemon runs in,
// where the host has the same boot id.
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { type Home, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { RecordingNetwork } from '../../../support/memory-host/network.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));

const publish = [{ hostPort: 8080, guestPort: 80 }];
const REBOOTS = { host: 'an earlier one', container: undefined } as const;

/** One sandbox with a network. */
async function start(t: Test, home: Home) {
  const daemon = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const { id } = await daemon.manager.create({ network: { allowlist: ['a.test'] }, publish });
  return { ...daemon, id };
}

/** That of the next daemon, which has another run directory. */
function afterReboot(): RecordingNetwork {
  const network = new RecordingNetwork();
  network.place = '/other';
  for (const place of ['/ns', '/other']) network.lost.add(`${place}/1`);
  return network;
}

async function reboot({ store, crash, host }: Awaited<ReturnType<typeof start>>, bootId?: string) {
  const records = store.table<SandboxRecord>('sandboxes');
  for (const { id, record } of records.all())
    if (bootId !== undefined && record.vmm !== null)
      await records.put(id, { ...record, vmm: { ...record.vmm, bootId } });
  await crash();
  for (const machine of host.running) machine.end('a reboot');
}

for (const [what, bootId] of Object.entries(REBOOTS))
  t.test(`after a reboot of the ${what} that of a paused sandbox is made again, once`, async (t) => {
    const home = await makeHome(t);
    const first = await start(t, home);
    await first.manager.as(OPERATOR).get(first.id).pause(true);
    await reboot(first, bootId);
    const network = afterReboot();
    const second = await startMemoryDaemon(t, { home, network });
    t.same(
      network.calls,
      [
        'adopt tap1',
        'create again tap1',
        'start [a.test] first tap1',
        'publish [8080] asleep tap1',
        'tidy',
        'ports hold tap1',
      ],
      'in the run directory of this daemon',
    );
    await second.crash();
    network.calls.length = 0;
    const third = await startMemoryDaemon(t, { home, network });
    t.same(network.calls.slice(0, 3), [
      'adopt tap1',
      'start [a.test] again tap1',
      'adopt ports [8080] asleep tap1',
    ]);
    await third.manager.as(OPERATOR).get(first.id).resume();
    t.match(home.host.of(first.id).spec, { net: { namespace: '/other/1', guestIp: '10.0.1.2' } });
    await third.manager.delete(first.id);
    await until(() => network.calls.includes('free tap1'), 'it to be removed');
  });

t.test('one that cannot be made again is made by the resume, which says why it cannot', async (t) => {
  const home = await makeHome(t);
  const first = await start(t, home);
  await first.manager.as(OPERATOR).get(first.id).pause(true);
  await reboot(first);
  const network = afterReboot();
  network.fails = 'create again';
  const next = await startMemoryDaemon(t, { home, network });
  const sandbox = () => next.manager.as(OPERATOR).get(first.id);
  t.ok(next.lines.some(({ msg }) => msg?.startsWith('a paused sandbox has lost its network')));
  for (const fails of ['create again', 'start']) {
    network.fails = fails;
    await t.rejects(sandbox().resume(), {
      message: `cannot resume the sandbox, which stays paused: cannot ${fails}`,
    });
  }
  t.same(network.calls.slice(-2), ['start [a.test] first tap1', 'clear tap1'], 'half of it is none');
  t.match(sandbox().info, { state: 'paused' });
  network.fails = '';
  network.calls.length = 0;
  await sandbox().resume();
  t.same(network.calls.slice(0, 3), [
    'create again tap1',
    'start [a.test] first tap1',
    'publish [8080] asleep tap1',
  ]);
  t.match(sandbox().info, { state: 'running' });
  t.equal(network.calls.at(-1), 'ports open tap1');
});

t.test('a sandbox that has ended has none any more, and frees its addresses', async (t) => {
  const home = await makeHome(t);
  const first = await start(t, home);
  const snapshot = await first.manager.as(OPERATOR).get(first.id).snapshot();
  await reboot(first);
  const network = afterReboot();
  const next = await startMemoryDaemon(t, { home, network });
  t.same(
    network.calls.filter((call) => /^(?:clear|free)/.test(call)),
    ['clear tap1', 'free tap1'],
  );
  const sandbox = next.manager.as(OPERATOR).get(first.id);
  t.match(sandbox.info, { state: 'failed' });
  await t.rejects(sandbox.rollback(snapshot.id), { code: 'conflict', message: /has ended its network/ });
  network.calls.length = 0;
  await next.manager.delete(first.id);
  t.same(
    network.calls.filter((call) => call !== 'tidy'),
    [],
  );
});

for (const [what, bootId] of Object.entries(REBOOTS))
  t.test(
    `its addresses are another one’s then, also for later daemons: a reboot of the ${what}`,
    async (t) => {
      const home = await makeHome(t);
      const first = await start(t, home);
      await reboot(first, bootId);
      const network = new RecordingNetwork();
      network.lost.add('/ns/1');
      const second = await startMemoryDaemon(t, { home, network, templateBudgetBytes: 0 });
      const records = second.store.table<SandboxRecord>('sandboxes');
      t.notOk(records.get(first.id)?.network, 'not in the registry');
      network.lost.clear();
      const other = await second.manager.create({ network: { allowlist: ['b.test'] } });
      t.equal(records.get(other.id)?.network?.tap, 'tap1');
      await second.crash();
      network.calls.length = 0;
      const third = await startMemoryDaemon(t, { home, network, templateBudgetBytes: 0 });
      t.same(network.calls.slice(0, 2), ['adopt tap1', 'start [b.test] again tap1'], 'once');
      network.calls.length = 0;
      await third.manager.delete(first.id);
      const left = third.store.table<SandboxRecord>('sandboxes');
      await until(() => left.get(first.id) === undefined, 'nothing of it to be left');
      t.notOk(
        network.calls.some((call) => /^(?:stop|clear|free)/.test(call)),
        network.calls.join(),
      );
    },
  );

t.test('one that is removed and cannot be recorded stays taken until the sandbox is deleted', async (t) => {
  const home = await makeHome(t);
  const first = await start(t, home);
  const records = first.store.table<SandboxRecord>('sandboxes');
  const { network: slot } = records.get(first.id) ?? {};
  await reboot(first);
  const network = new RecordingNetwork();
  network.lost.add('/ns/1');
  network.fails = 'clear';
  const second = await startMemoryDaemon(t, { home, network, templateBudgetBytes: 0 });
  t.same(second.store.table<SandboxRecord>('sandboxes').get(first.id)?.network, slot);
  network.fails = '';
  const other = await second.manager.create({ network: { allowlist: [] } });
  t.equal(second.store.table<SandboxRecord>('sandboxes').get(other.id)?.network?.tap, 'tap2');
  await second.manager.delete(first.id);
  await until(() => network.calls.includes('free tap1'), 'it to be freed');
});

t.test(
  'a deleted one keeps its addresses until nothing of it is left, also for the next daemon',
  async (t) => {
    const home = await makeHome(t);
    const first = await start(t, home);
    first.network.fails = 'clear';
    await first.manager.delete(first.id);
    await until(() => first.network.calls.includes('clear tap1'), 'the clean-up to fail');
    const { network: slot } = first.store.table<SandboxRecord>('sandboxes').get(first.id) ?? {};
    t.equal(slot?.tap, 'tap1');
    await first.crash();
    const network = new RecordingNetwork();
    network.fails = 'clear';
    const second = await startMemoryDaemon(t, { home, network, templateBudgetBytes: 0 });
    network.fails = '';
    const other = await second.manager.create({ network: { allowlist: [] } });
    t.equal(second.store.table<SandboxRecord>('sandboxes').get(other.id)?.network?.tap, 'tap2');
    await second.crash();
    const third = await startMemoryDaemon(t, { home, network, templateBudgetBytes: 0 });
    t.ok(network.calls.includes('free tap1'));
    t.notOk(third.store.table<SandboxRecord>('sandboxes').get(first.id));
  },
);
