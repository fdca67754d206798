// Templates that a create makes of the guest that it boots: who waits for them, and what their failure costs.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { serviceSpec } from '@sandboxd/api';
import t from 'tap';
import type { AgentFaults } from '../../../support/memory-host/agent.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));

const MIB = 2 ** 20;
const templatesOf = (dataDir: string): string[] =>
  readdirSync(join(dataDir, 'templates')).filter((name) => !name.startsWith('.'));
const hasTemplates = (dataDir: string, count: number) =>
  until(() => templatesOf(dataDir).length === count, `${count} templates`);

t.test('a guest that cannot be saved is used, and for a while no other is saved', async (t) => {
  const { host, manager, home, lines } = await startMemoryDaemon(t);
  host.onSave = () => {
    throw new Error('no state');
  };
  const created = await manager.create({});
  t.equal(host.counts.boots, 1);
  t.same(
    host.running.map(({ identity }) => identity),
    [host.of(created.id).identity],
  );
  t.ok(lines.some(({ msg }) => msg === 'cannot make a template of a booted guest'));
  await until(() => readdirSync(join(home.dataDir, 'templates')).length === 0);
  host.onSave = () => undefined;
  await manager.create({});
  t.equal(host.counts.boots, 2);
  t.equal(host.counts.saves, 1, 'it is not tried again');
  const now = performance.now.bind(performance);
  let laterMs = 50_000;
  t.intercept(performance, 'now', { value: () => now() + laterMs });
  await manager.create({});
  t.equal(host.counts.saves, 1);
  laterMs = 60_000;
  await manager.create({});
  await manager.create({});
  t.same([host.counts.boots, host.counts.restores], [4, 1], 'then it is made');
  t.equal(manager.metricsSource.templates.lookups.none, 3);
});

t.test('a save that ends its VM costs a second boot, and not the create', async (t) => {
  const { host, manager, lines } = await startMemoryDaemon(t);
  host.onSave = () => {
    host.running[0]?.end('the VMM crashed');
    throw new Error('the VMM crashed');
  };
  const { id } = await manager.create({});
  t.equal(host.counts.boots, 2);
  t.same(
    host.running.map(({ identity }) => identity),
    [host.of(id).identity],
  );
  t.ok(lines.some(({ msg }) => msg === 'cannot make a template of a booted guest'));
});

t.test('what a template has of the first guest is not its identity', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  let before: readonly { readonly sandboxId: string; readonly entropy: Uint8Array }[] = [];
  host.onSave = () => {
    before = [...(host.running[0]?.agent.identities ?? [])];
  };
  const { id } = await manager.create({});
  t.equal(before.length, 1, 'a temporary one');
  const [temporary, own] = host.of(id).agent.identities;
  t.equal(temporary?.sandboxId, before[0]?.sandboxId);
  t.not(temporary?.sandboxId, id);
  t.equal(own?.sandboxId, id);
  t.notSame(temporary?.entropy, own?.entropy);
  t.not(temporary?.machineId, own?.machineId);
});

t.test('a create whose client leaves does not fail those that wait for its guest', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = (count) => (count === 1 ? promise : undefined);
  const gone = new AbortController();
  const first = manager.create({}, gone.signal);
  first.catch(() => undefined);
  await until(() => host.counts.boots === 1);
  const others = [1, 2].map(() => manager.create({}));
  gone.abort(new Error('the client left'));
  goOn();
  await t.rejects(first, { message: 'the client left' });
  await Promise.all(others);
  t.same([host.counts.boots, host.counts.restores], [2, 1], 'one of them boots, the other is a copy');
});

t.test('what a create has saved is completed once the create has ended, even if that fails', async (t) => {
  const { host, home, manager } = await startMemoryDaemon(t);
  const faults: AgentFaults = {};
  host.agentFaults = faults;
  host.onSave = () => {
    faults.ignores = 'identity';
  };
  const gone = new AbortController();
  const first = manager.create({}, gone.signal);
  first.catch(() => undefined);
  await until(() => host.running[0]?.agent.ignored === 1, 'its own identity');
  t.same(templatesOf(home.dataDir), []);
  gone.abort(new Error('the client left'));
  await t.rejects(first, { message: 'the client left' });
  await hasTemplates(home.dataDir, 1);
  delete faults.ignores;
  await manager.create({});
  t.same([host.counts.boots, host.counts.restores], [1, 1]);
});

const profileService = { spec: serviceSpec.parse({ cmd: ['serve'] }), readyPort: 8000 };

t.test('the template of a profile with a service is made although its client leaves', async (t) => {
  const { host, home, manager } = await startMemoryDaemon(t, { profileService });
  host.agentFaults = { endedServices: 0 };
  const gone = new AbortController();
  const first = manager.create({}, gone.signal);
  first.catch(() => undefined);
  await until(() => host.running.some(({ agent }) => agent.services.length === 1), 'its service');
  gone.abort(new Error('the client left'));
  await t.rejects(first, { message: 'the client left' });
  host.agentFaults = {};
  const others = [1, 2].map(() => manager.create({}));
  await Promise.all(others);
  await hasTemplates(home.dataDir, 1);
  t.same([host.counts.boots, host.counts.restores], [2, 2], 'those that wait are copies of it');
  t.equal(host.counts.saves, 1);
});

t.test("a create fails with its profile's service, once", async (t) => {
  const { host, home, manager, store } = await startMemoryDaemon(t, { profileService });
  host.agentFaults = { endedServices: 3 };
  const message = /stage service.*ended 3 times.*port 8000.*too little memory/;
  await t.rejects(manager.create({}), { code: 'internal', message });
  t.equal(host.counts.boots, 1, 'it is not waited for twice');
  await t.rejects(manager.create({}), { code: 'internal', message }, 'also without a template');
  t.equal(host.running.length, 0);
  t.same(store.table('sandboxes').all(), []);
  t.same(templatesOf(home.dataDir), []);
});

t.test('a boot that fails fails its own create; those that waited boot their own guests', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = async (count) => {
    if (count > 1) return;
    await promise;
    throw new Error('no memory');
  };
  const first = manager.create({});
  first.catch(() => undefined);
  await until(() => host.counts.boots === 1);
  const others = [1, 2].map(() => manager.create({}));
  goOn();
  await t.rejects(first, { message: /no memory/ });
  await Promise.all(others);
  t.same([host.counts.boots, host.counts.restores, host.counts.saves], [3, 0, 0]);
});

t.test('a disk that is larger than those of templates is grown once the guest is saved', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t);
  const { id } = await manager.create({ diskBytes: 128 * MIB });
  t.same(host.of(id).resizes, [[1, 128 * MIB]]);
  t.equal(host.of(id).agent.grownDisks, 1);
  const { diskBytes } = manager.get(id).info;
  t.equal(diskBytes, 128 * MIB);
  await hasTemplates(home.dataDir, 1);
  await manager.create({});
  t.same([host.counts.boots, host.counts.restores], [1, 1], 'and serves smaller ones');
});

t.test('a template of a first guest is replaced by one that is warmed up', async (t) => {
  const { host, manager, home, happened } = await startMemoryDaemon(t);
  for (let count = 0; count < 3; count++) await manager.create({});
  const [booted = ''] = templatesOf(home.dataDir);
  await until(() => happened.filter(({ kind }) => kind === 'template-made').length === 2);
  await until(() => !templatesOf(home.dataDir).includes(booted), 'the removal of the first one');
  t.equal(templatesOf(home.dataDir).length, 1);
  t.same([host.counts.boots, host.counts.restores], [1, 3], 'it is made of a copy');
  const { execs, hellos } = host.machines[3]!.agent;
  t.equal(execs.length, 10, 'what runs once is in every copy');
  t.match(execs[0]?.exec.cmd, [/ld-linux/, '--help']);
  t.equal(hellos, 3, 'the start has one, too');
  await manager.create({});
  t.equal(host.counts.boots, 1);
});
