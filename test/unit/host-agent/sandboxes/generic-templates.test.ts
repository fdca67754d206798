// Generic templates without a root file system: one for all root file systems, and a specific one after repeated use.
import { readdirSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { agentRootfs } from '../../../../host-agent/src/images/rootfs-source.ts';
import {
  type Home,
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Templates in the background wait until the host is quiet.
t.setTimeout(scaled(180_000));

const profile = (name: string) => ({ rootfs: { kind: 'profile', name } as const });

const isEntering = ({ entersRoot }: { readonly entersRoot?: boolean }) => entersRoot === true;

async function startBare(t: Test, agent = 'agent', home?: Home, options: MemoryDaemonOptions = {}) {
  const place = home ?? (await makeHome(t));
  place.host.takesOtherDisks = true;
  const path = join(place.dataDir, `${agent}.ext4`);
  await writeFile(path, agent);
  const daemon = await startMemoryDaemon(t, {
    ...options,
    home: place,
    agentRootfs: async () => agentRootfs({ path, digest: agent }),
  });
  const made = () =>
    daemon.happened.flatMap((event) => (event.kind === 'template-made' ? [event.rootfs] : []));
  return { ...daemon, path, made };
}

/** Has the daemon make its generic template, behind the first create. */
async function withGeneric(t: Test, agent?: string, home?: Home) {
  const daemon = await startBare(t, agent, home);
  const first = await daemon.manager.create({ ...profile('third') });
  await until(() => daemon.made().includes('agent'), 'the generic template');
  await until(() => daemon.host.running.length === 1, 'the end of its guest');
  return { ...daemon, first };
}

t.test('a second boot, behind the first create, serves all other root filesystems', async (t) => {
  const { host, manager, path, home, made, first } = await withGeneric(t);
  t.equal(host.counts.boots, 2);
  t.same(host.of(first.id).agent.identities.map(isEntering), [false, false], 'it booted in its root');
  t.match(host.machines[1]?.spec, { bootArgs: 'sandbox.bare', disks: [{ path }, {}, { path }] });
  const created = [await manager.create(profile('base'))];
  created.push(await manager.create({ ...profile('other'), diskBytes: 128 * 2 ** 20 }));
  t.equal(host.counts.boots, 2);
  t.same(made().sort(), ['agent', 'third']);
  for (const [at, name] of ['base', 'other'].entries()) {
    const { spec, agent, resizes } = host.of(created[at]!.id);
    t.same(
      spec?.disks.map(({ isReadOnly }) => isReadOnly),
      [true, false, true],
    );
    t.equal(spec?.disks[0]?.path, join(home.dataDir, `${name}.ext4`));
    t.equal(spec?.disks[2]?.path, path);
    t.same(agent.identities.map(isEntering), [true]);
    t.same([agent.grownDisks, resizes], [0, []], 'its layer has its size from the beginning');
    const layer = await stat(join(home.dataDir, 'sandboxes', created[at]!.id, 'layer.ext4'));
    t.equal(layer.size, (name === 'other' ? 128 : 64) * 2 ** 20);
  }
});

t.test('what is made in the background waits until creates leave the host alone', async (t) => {
  const { host, manager, made } = await startBare(t);
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = (count) => (count === 2 ? promise : undefined);
  await manager.create({});
  const waiting = manager.create({ memoryMib: 130 });
  await until(() => host.counts.boots === 2);
  // Longer than the host has to be quiet.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  t.equal(host.counts.boots, 2, 'a create is under way');
  goOn();
  await waiting;
  await until(() => made().includes('agent'));
  t.equal(host.counts.boots, 3);
});

t.test('a root filesystem that is used again gets a specific template without a boot', async (t) => {
  const { host, manager, made } = await withGeneric(t);
  await manager.create({});
  t.notOk(made().includes('base'), 'one use is not repeated use');
  await manager.create({});
  await until(() => made().includes('base'));
  const { id } = await manager.create({});
  t.equal(host.counts.boots, 2);
  t.same(host.of(id).agent.identities.map(isEntering), [false], 'its copies are in their root');
  t.equal(host.of(id).spec?.disks.length, 3);
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 2);
});

t.test('a template that fails in the background harms no create, and is not retried at once', async (t) => {
  const { host, manager, made, lines } = await withGeneric(t);
  await manager.create({});
  host.onSave = () => {
    throw new Error('no room');
  };
  await manager.create({});
  await until(() => lines.some(({ msg }) => msg === 'cannot make a template'));
  host.onSave = () => undefined;
  const { id } = await manager.create({});
  t.same(host.of(id).agent.identities.map(isEntering), [true]);
  t.same(made().sort(), ['agent', 'third']);
  t.equal(host.running.length, 4, 'its guest was ended');
});

t.test('a guest that hangs before it is a generic template holds up no create', async (t) => {
  for (const agentFaults of [{ deafFrom: 2 }, { ignores: 'exec' }] as const) {
    const home = await makeHome(t);
    const { host, manager, lines } = await startBare(t, 'agent', home, { bootTimeoutMs: 500 });
    host.agentFaults = agentFaults;
    await manager.create({});
    await until(() => lines.some(({ msg }) => msg === 'cannot make a template'));
    t.equal(host.running.length, 1);
    t.equal(readdirSync(join(home.dataDir, 'templates')).length, 1, 'the one of the first guest');
    await manager.create({});
    t.same([host.counts.boots, host.counts.restores], [2, 1]);
  }
});

t.test('the guest of a template counts as memory, and gives way to a create', async (t) => {
  const home = await makeHome(t);
  const guestBytes = (128 + 96) * 2 ** 20;
  const { host, manager, lines } = await startBare(t, 'agent', home, {
    admission: { memoryReserveBytes: 0, memoryOvercommit: 1 },
    readCapacity: async () => ({
      memoryTotalBytes: 3 * guestBytes,
      memoryAvailableBytes: 64 * guestBytes,
      diskFreeBytes: 2 ** 40,
    }),
  });
  await manager.create({});
  // The template's guest hangs.
  host.agentFaults = { ignores: 'exec' };
  await until(() => host.running.length === 2, 'the guest of the template');
  host.agentFaults = {};
  await manager.create({});
  t.equal(host.running.length, 3, 'all three fit');
  await manager.create({});
  t.ok(lines.some(({ msg }) => msg === 'cannot make a template'));
  t.equal(host.running.length, 3, 'three sandboxes, without the template');
  await t.rejects(manager.create({}), { code: 'exhausted', message: /may be promised/ });
});

t.test('many sizes queue a few templates, and no more', async (t) => {
  const { host, manager, home } = await startBare(t);
  for (let n = 1; n <= 8; n++) await manager.create({ memoryMib: 128 + n });
  t.equal(host.counts.boots, 8);
  const made = () => readdirSync(join(home.dataDir, 'templates')).filter((name) => !name.startsWith('.'));
  await until(() => made().length === 12, 'four more', 30_000);
  // Longer than the host has to be quiet.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  t.equal(host.counts.boots, 12);
});

t.test('a snapshot of a copy needs the agent image, and its forks have it', async (t) => {
  const { host, manager, path, home } = await startBare(t);
  const { id } = await manager.create({});
  const snapshot = await manager.get(id).snapshot();
  const manifest = JSON.parse(await readFile(join(snapshot.dir, 'manifest.json'), 'utf8'));
  t.match(manifest, { options: { rootfs: { name: 'base', agentPath: path } } });
  t.same(
    (await stat(path)).ino,
    (await stat(join(snapshot.dir, 'agent.ext4'))).ino,
    'pinned by the snapshot',
  );
  t.ok(readdirSync(join(home.dataDir, 'sandboxes', id)).includes('agent.ext4'), 'and by the sandbox');
  const [fork] = await manager.fork(snapshot.id, 1);
  const { spec, agent } = host.of(fork!.id);
  t.equal(spec?.disks[2]?.path, path);
  t.same(agent.identities.map(isEntering), [false], 'it is in its root');
});

t.test('a guest with remaining processes becomes no template, and creates continue as before', async (t) => {
  const { host, manager, made, lines } = await withGeneric(t);
  host.agentFaults = { leavesProcesses: true };
  await manager.create({});
  await manager.create({});
  await until(() => lines.some(({ msg }) => msg === 'cannot make a template'), 'the template given up');
  await manager.create({});
  t.same([made().sort(), host.counts.boots], [['agent', 'third'], 2]);
});

t.test('a root that cannot be entered fails only its own create', async (t) => {
  const { host, manager, made } = await withGeneric(t);
  await manager.create(profile('base'));
  host.agentFaults = { hasNoRoot: true };
  await t.rejects(manager.create(profile('other')), {
    message: 'cannot create the sandbox (stage root): cannot enter the root: EINVAL',
  });
  host.agentFaults = {};
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 2);
  t.same(made().sort(), ['agent', 'third']);
});

t.test('if no copy has entered a root yet, a root that cannot be entered is cold-booted', async (t) => {
  const { host, manager } = await withGeneric(t);
  host.agentFaults = { hasNoRoot: true };
  await manager.create({});
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 4, 'the first, the shared guest, and each of them');
});

t.test('the next daemon keeps all templates, and removes those of a different agent', async (t) => {
  const first = await withGeneric(t);
  await first.manager.create({});
  await first.manager.create({});
  await until(() => first.made().includes('base'));
  await first.crash();
  const second = await startBare(t, 'agent', first.home);
  for (const name of ['base', 'other', 'third']) await second.manager.create(profile(name));
  t.equal(first.host.counts.boots, 2);
  await second.crash();
  await startBare(t, 'newer', first.home);
  const left = readdirSync(join(first.home.dataDir, 'templates')).filter((name) => !name.startsWith('.'));
  t.same(left, []);
});

t.test('without an agent image each root filesystem is booted', async (t) => {
  const home = await makeHome(t);
  home.host.takesOtherDisks = true;
  const agentRootfs = () => Promise.reject(new Error('no mke2fs'));
  const { host, manager } = await startMemoryDaemon(t, { home, agentRootfs });
  for (const name of ['base', 'other', 'base']) await manager.create(profile(name));
  t.equal(host.counts.boots, 2);
  t.equal(host.machines.at(-1)?.spec?.disks.length, 2);
});
