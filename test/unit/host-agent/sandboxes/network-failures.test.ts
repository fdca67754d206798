// Changes of what a guest may reach that fail, or are cut short by the end of the daemon.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { FaultPoint } from '../../../../host-agent/src/lib/faults.ts';
import { Presets } from '../../../../host-agent/src/network/presets.ts';
import { settleNetworks } from '../../../../host-agent/src/sandboxes/network-changes.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import {
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));

const SSH = { host: 'github.test', protocol: 'tcp', ports: [22] } as const;

async function start(t: Test, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, { templateBudgetBytes: 0, ...options });
  const { id } = await daemon.manager.create({ network: { allowlist: ['a.test'] } });
  daemon.network.calls.length = 0;
  const records = daemon.store.table<SandboxRecord>('sandboxes');
  const handle = () => daemon.manager.as(OPERATOR).get(id);
  return { ...daemon, id, handle, record: () => records.get(id), recorder: daemon.network };
}

const POINTS: readonly FaultPoint[] = ['network.recorded', 'network.changed'];
for (const point of POINTS)
  t.test(`106: a daemon that is killed at ${point} leaves what the next one completes`, async (t) => {
    const home = await makeHome(t);
    let isArmed = false;
    const faults = {
      reach: (at: FaultPoint) => {
        if (isArmed && at === point) throw new Error(`a fault at ${point}`);
      },
    };
    const first = await start(t, { home, faults });
    isArmed = true;
    await t.rejects(first.handle().changeNetwork({ allowlist: ['b.test'] }), /a fault/);
    t.match(first.record(), {
      networkGeneration: 2,
      networkBefore: { allowlist: ['a.test'] },
      options: { network: { allowlist: ['b.test'] } },
    });
    await first.crash();
    const next = await startMemoryDaemon(t, { home });
    t.ok(next.network.calls.includes('start [b.test] again tap1 before [a.test]'), next.network.calls.join());
    const record = next.store.table<SandboxRecord>('sandboxes').get(first.id);
    t.notOk(record?.networkBefore, 'complete');
    t.match(next.manager.as(OPERATOR).get(first.id).network(), { generation: 2, allowlist: ['b.test'] });
  });

t.test('a change that fails is undone; one that cannot be undone is carried out again', async (t) => {
  const { handle, recorder, record } = await start(t);
  let failures = 1;
  recorder.onChange = async () => {
    if (failures-- > 0) throw new Error('nftables broke');
  };
  await t.rejects(handle().changeNetwork({ allowlist: ['b.test'] }), {
    code: 'internal',
    message: /the earlier policy holds: nftables broke/,
  });
  t.match(handle().network(), { generation: 1, allowlist: ['a.test'] });
  t.notOk(record()?.networkBefore);
  failures = 2;
  await t.rejects(handle().changeNetwork({ allowlist: ['b.test'] }), {
    message: /nothing passes until the next change/,
  });
  t.equal(recorder.calls.at(-1), 'shut tap1', 'closed outright');
  t.match(record(), { networkBefore: { allowlist: ['a.test'] } });
  for (let n = 0; n < 3; n++) {
    failures = 2;
    await t.rejects(handle().changeNetwork({ rules: [SSH, { ...SSH, ports: [n + 1] }] }), {
      code: 'internal',
    });
    t.equal(record()?.networkBefore, 'unknown', 'no list that grows with each');
  }
  failures = 0;
  recorder.calls.length = 0;
  await handle().changeNetwork({});
  t.same(
    recorder.calls,
    ['change [b.test] [github.test,github.test] [] tap1'],
    'also by a change that changes nothing',
  );
  t.notOk(record()?.networkBefore);
});

t.test(
  'a change after one that failed, which is cut short: the next daemon trusts no connection',
  async (t) => {
    const home = await makeHome(t);
    const first = await start(t, { home });
    first.recorder.onChange = async () => {
      throw new Error('nftables broke');
    };
    for (const name of ['b.test', 'c.test'])
      await t.rejects(first.handle().changeNetwork({ allowlist: [name] }), {
        message: /nothing passes/,
      });
    await first.crash();
    const next = await startMemoryDaemon(t, { home });
    t.ok(next.network.calls.includes('start [c.test] again tap1 before unknown'), next.network.calls.join());
  },
);

t.test(
  'a network that cannot be shut at first is shut again; where that fails, the error says so',
  async (t) => {
    const { handle, recorder } = await start(t);
    recorder.onChange = async () => {
      throw new Error('nftables broke');
    };
    let failures = 1;
    recorder.onShut = async () => {
      if (failures-- > 0) throw new Error('killed');
    };
    await t.rejects(handle().changeNetwork({ allowlist: ['b.test'] }), { message: /nothing passes until/ });
    failures = 2;
    await t.rejects(handle().changeNetwork({ allowlist: ['b.test'] }), { message: /either policy may hold/ });
  },
);

t.test('internet is closed when a daemon starts that does not offer it, and only then', async (t) => {
  const log = pino({ level: 'silent' });
  const home = await makeHome(t);
  const file = join(home.dataDir, 'presets.json');
  writeFileSync(file, JSON.stringify({ git: { rules: [SSH] } }));
  const on = Presets.open({ file, hasInternet: true, log });
  const first = await start(t, { home, presets: on });
  await first.handle().changeNetwork({ presets: ['internet', 'git'] });
  const other = await first.manager.create({ network: { allowlist: [], presets: ['internet'] } });
  await first.manager.as(OPERATOR).get(other.id).pause(true);
  await first.crash();
  // The name of another preset is gone: what it opened stays.
  const again = await startMemoryDaemon(t, { home, presets: Presets.open({ hasInternet: true, log }) });
  t.match(again.manager.as(OPERATOR).get(first.id).network().presets, [
    { name: 'internet' },
    { name: 'git' },
  ]);
  await again.crash();
  const off = await startMemoryDaemon(t, { home, presets: Presets.open({ hasInternet: false, log }) });
  const view = off.manager.as(OPERATOR);
  t.match(view.get(first.id).network(), {
    generation: 3,
    allowlist: ['a.test'],
    presets: [{ name: 'git', rules: [SSH] }],
  });
  t.match(view.get(other.id).network(), { generation: 2, allowlist: [] });
  t.notOk(view.get(other.id).network().presets);
  t.ok(off.network.calls.includes('change [a.test] [] [git] tap1'), off.network.calls.join());
  t.match(
    off.happened.filter(({ kind }) => kind === 'network-changed'),
    [{ changed: ['presets'] }, { changed: ['presets'] }],
  );
});

t.test('the record of a delete that has begun stays', async (t) => {
  const written: unknown[] = [];
  const toSandbox = (state: string) => {
    const record = { network: {}, networkBefore: 'unknown' };
    const changes = { add: (settle: () => Promise<void>) => settle() };
    return { state, record, changes, replaceRecord: async (to: unknown) => written.push(to) };
  };
  const sandboxes = ['running', 'deleting', 'deleted'].map(toSandbox) as unknown as Sandbox[];
  await settleNetworks(sandboxes, { isServed: () => true }, pino({ level: 'silent' }));
  t.same(written, [{ network: {} }]);
});
