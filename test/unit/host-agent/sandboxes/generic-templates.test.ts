// Generic templates without a root file system: one for all root file systems, and a specific one after repeated use.
import { readdirSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { agentRootfs } from '../../../../host-agent/src/images/rootfs-source.ts';
import { type Home, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const profile = (name: string) => ({ rootfs: { kind: 'profile', name } as const });

const isEntering = ({ entersRoot }: { readonly entersRoot?: boolean }) => entersRoot === true;

async function startBare(t: Test, agent = 'agent', home?: Home) {
  const place = home ?? (await makeHome(t));
  place.host.takesOtherDisks = true;
  const path = join(place.dataDir, `${agent}.ext4`);
  await writeFile(path, agent);
  const daemon = await startMemoryDaemon(t, {
    home: place,
    agentRootfs: async () => agentRootfs({ path, digest: agent }),
  });
  const made = () =>
    daemon.happened.flatMap((event) => (event.kind === 'template-made' ? [event.rootfs] : []));
  return { ...daemon, path, made };
}

t.test('three root filesystems and two sizes of disk take one boot', async (t) => {
  const { host, manager, path, home, made } = await startBare(t);
  const created = [];
  for (const name of ['base', 'other']) created.push(await manager.create(profile(name)));
  created.push(await manager.create({ ...profile('third'), diskBytes: 128 * 2 ** 20 }));
  t.equal(host.counts.boots, 1);
  t.same(made(), ['agent']);
  t.match(host.machines[0]?.spec, { bootArgs: 'sandbox.bare', disks: [{ path }, {}, { path }] });
  for (const [at, name] of ['base', 'other', 'third'].entries()) {
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
    t.equal(layer.size, (name === 'third' ? 128 : 64) * 2 ** 20);
  }
});

t.test('a root filesystem that is used again gets a specific template without a boot', async (t) => {
  const { host, manager, made } = await startBare(t);
  await manager.create({});
  t.same(made(), ['agent'], 'one use is not repeated use');
  await manager.create({});
  await until(() => made().length === 2);
  t.same(made(), ['agent', 'base']);
  const { id } = await manager.create({});
  t.equal(host.counts.boots, 1);
  t.same(host.of(id).agent.identities.map(isEntering), [false], 'its copies are in their root');
  t.equal(host.of(id).spec?.disks.length, 3);
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 1);
});

t.test('a template that fails in the background harms no create, and is not retried at once', async (t) => {
  const { host, manager, made, lines } = await startBare(t);
  await manager.create({});
  host.onSave = () => {
    throw new Error('no room');
  };
  await manager.create({});
  await until(() => lines.some(({ msg }) => msg === 'cannot make a template for a root filesystem'));
  host.onSave = () => undefined;
  const { id } = await manager.create({});
  t.same(host.of(id).agent.identities.map(isEntering), [true]);
  t.same(made(), ['agent']);
  t.equal(host.running.length, 3, 'its guest was ended');
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
  const { host, manager, made, home } = await startBare(t);
  host.agentFaults = { leavesProcesses: true };
  await manager.create({});
  await manager.create({});
  const root = join(home.dataDir, 'templates');
  await until(() => host.machines.length > 3 && readdirSync(root).length === 1, 'the template given up');
  await manager.create({});
  t.same([made(), host.counts.boots], [['agent'], 1]);
});

t.test('a root that cannot be entered fails only its own create', async (t) => {
  const { host, manager, made } = await startBare(t);
  await manager.create({});
  host.agentFaults = { hasNoRoot: true };
  await t.rejects(manager.create(profile('other')), {
    message: 'cannot create the sandbox (stage root): cannot enter the root: EINVAL',
  });
  host.agentFaults = {};
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 1);
  t.same(made(), ['agent']);
});

t.test('if no copy has entered a root yet, a root that cannot be entered is cold-booted', async (t) => {
  const { host, manager } = await startBare(t);
  host.agentFaults = { hasNoRoot: true };
  await manager.create({});
  await manager.create(profile('other'));
  t.equal(host.counts.boots, 3, 'the shared guest, and each of them');
});

t.test('the next daemon keeps both templates, and removes those of a different agent', async (t) => {
  const first = await startBare(t);
  await first.manager.create({});
  await first.manager.create({});
  await until(() => first.made().length === 2);
  await first.crash();
  const second = await startBare(t, 'agent', first.home);
  await second.manager.create({});
  await second.manager.create(profile('other'));
  t.equal(first.host.counts.boots, 1);
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
