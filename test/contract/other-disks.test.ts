// Copies on Cloud Hypervisor that have other disks than the guest that was saved, against the stand-in.
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { SavedVm, VmPaths } from '../../host-agent/src/engines/engine.ts';
import { makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import { boot, copy, end, greet, save, soon } from '../support/fake-cloud-hypervisor/lives.ts';

t.setTimeout(120_000);

t.test('a copy of a guest that has no root yet has disks of its own, of other sizes', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  t.equal(engine.takesOtherDisks, false, 'not before its version is known');
  await engine.probe();
  t.equal(engine.takesOtherDisks, true);
  await writeFile(join(host.dir, 'agent'), Buffer.alloc(10 * 512));
  await writeFile(join(host.dir, 'root'), Buffer.alloc(77 * 512 + 1));
  /** As the sandboxes have them: root, layer, the agent's own image. */
  const optionsOf = (paths: VmPaths, root: string, bootArgs = '') => {
    const options = host.bootOptions(paths);
    const disks = [
      { path: join(host.dir, root), isReadOnly: true },
      { path: join(paths.dir, 'layer'), isReadOnly: false },
      { path: join(host.dir, 'agent'), isReadOnly: true },
    ];
    return { ...options, spec: { ...options.spec, bootArgs, disks } };
  };
  const enter = (name: string) => ({
    sandboxId: name,
    hostname: name,
    machineId: 'm',
    entropy: Buffer.alloc(32),
    unixTimeUs: 1,
    entersRoot: true,
  });
  const restore = async (name: string, from: SavedVm, layerSectors: number) => {
    const paths = host.makePaths(name);
    await writeFile(join(paths.dir, 'layer'), Buffer.alloc(layerSectors * 512));
    return greet(host, await engine.restore({ ...optionsOf(paths, 'root'), saved: from }), paths, name);
  };
  const disksOf = ({ statePath }: SavedVm): unknown[] => {
    const { snapshots } = JSON.parse(JSON.parse(readFileSync(statePath, 'utf8')).state);
    const devices = snapshots['device-manager'].snapshots;
    const read = (id: string) => JSON.parse(devices[id].snapshot_data.state);
    return [0, 1, 2].map((index) => [
      read(`disk${index}`).disk_nsectors,
      read(`_virtio-pci-disk${index}`).device_activated,
    ]);
  };
  const paths = host.makePaths('bare');
  const booted = await engine.boot(optionsOf(paths, 'agent', 'sandbox.bare'));
  const bare = await greet(host, booted, paths, 'bare');
  const saved = await save(bare, host.makeSaveDir());
  t.same(disksOf(saved), [
    [10, false],
    [0, false],
    [10, true],
  ]);
  await end(bare);

  const [one, two] = await Promise.all([restore('one', saved, 5), restore('two', saved, 900)]);
  for (const [name, { guest }] of Object.entries({ one, two })) await guest.setIdentity(enter(name), soon());
  const deeper = await save(two, host.makeSaveDir());
  t.same(disksOf(deeper), [
    [77, true],
    [900, true],
    [10, true],
  ]);
  // Its driver has the disks now: it is told of another size by its VMM, and by nothing else.
  const last = await restore('last', deeper, 900);
  await last.vm.resizeDisk(1, 1000 * 512);
  t.match(disksOf(await save(last, host.makeSaveDir()))[1], [1000, true]);
  const shrunk = await restore('shrunk', deeper, 5);
  t.match(disksOf(await save(shrunk, host.makeSaveDir()))[1], [900, true], 'what a guest has is not changed');

  await t.test('a saved state of another form is refused, and nothing is left', async (t) => {
    const text = readFileSync(saved.statePath, 'utf8');
    for (const [from, to, message] of [
      ['device_activated', 'driver_attached', /nothing says whether a driver has disk0/],
      ['disk_nsectors', 'disk_size', /disk0 has no size/],
      ['_virtio-pci-disk1', '_virtio-mmio-disk1', /it has no _virtio-pci-disk1/],
    ] as const) {
      await writeFile(saved.statePath, text.replaceAll(from, to));
      await t.rejects(restore(from, saved, 5), { message });
    }
    await writeFile(saved.statePath, text);
  });
  await end(one, two, last, shrunk);
  t.same(host.processes(), []);
});

t.test('a version whose saved state is not known keeps its disks', async (t) => {
  const host = makeFakeHost(t);
  host.set({ version: 'next' });
  const engine = host.engine();
  t.match(await engine.probe(), { isUsable: true, version: '54.0' });
  t.equal(engine.takesOtherDisks, false);
  const source = await boot(host, engine, 'source');
  const one = await copy(host, engine, 'one', await save(source, host.makeSaveDir()));
  await end(source, one);
});
