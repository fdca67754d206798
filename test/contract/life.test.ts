// The Cloud Hypervisor engine against a strict stand-in for the program: whole lives of VMs, without a guest.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { SavedVm } from '../../host-agent/src/engines/engine.ts';
import { explainExit } from '../../host-agent/src/sandboxes/resources/agent.ts';
import { MEMORY_BYTES, makeFakeHost, powerOff } from '../support/fake-cloud-hypervisor/host.ts';
import { boot, copy, end, greet, save, soon } from '../support/fake-cloud-hypervisor/lives.ts';

t.setTimeout(120_000);

t.test('probe, boot, talk, save, copy, end', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  t.match(await engine.probe(), { isUsable: true, version: '53.0' });
  t.same(readdirSync(join(host.dir, 'scratch')), [], 'the probe leaves nothing');
  t.match(engine.compatibility(), { engine: 'cloud-hypervisor', version: '53.0', layout: '1' });
  const source = await boot(host, engine, 'source');
  const hello = await source.guest.connect(soon());
  t.match(host.spawned[0], { engine: 'cloud-hypervisor', pid: source.vm.identity.pid });
  t.ok(await source.vm.responds(5000));

  const dir = host.makeSaveDir();
  const saved = await save(source, dir);
  t.same(readdirSync(dir).sort(), ['disk', 'memory', 'state']);
  t.same(readdirSync(source.paths.dir).sort(), ['console.log', 'events.json', 'layer', 'vmm.log']);
  t.ok(statSync(saved.memoryPath).blocks * 512 < 1024 * 1024, 'zeros of the memory are holes');
  await source.guest.setIdentity(
    { sandboxId: 's', hostname: 'later', machineId: 'm', entropy: Buffer.alloc(32), unixTimeUs: 1 },
    soon(),
  );

  const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
  const copies = await Promise.all(names.map((name) => copy(host, engine, name, saved)));
  t.equal(new Set(copies.map(({ vm }) => vm.identity.pid)).size, 8);
  for (const { guest } of copies) {
    t.equal((await guest.connect(soon())).bootId, hello.bootId, 'a copy has the memory of its source');
  }
  t.equal((await source.guest.connect(soon())).bootId, hello.bootId, 'the source goes on');
  t.same(
    host.logLines.filter(({ mode }) => mode !== undefined).map(({ mode }) => mode),
    ['MappedFile'],
  );

  await t.test('a copy of a copy, whose own source is gone', async (t) => {
    const deeper = await save(copies[0]!, host.makeSaveDir());
    await end(copies[0]!);
    const last = await copy(host, engine, 'last', deeper);
    t.equal((await last.guest.connect(soon())).bootId, hello.bootId);
    await end(last);
  });

  await end(source, ...copies);
  t.match(source.vm.exit, { reason: 'stopped', signal: 'SIGKILL' });
  for (const { paths } of [source, ...copies]) t.same(readdirSync(paths.socketDir), []);
  t.same(host.processes(), []);
});

t.test('what the VMM wrote is kept to the last digit, but for paths', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const source = await boot(host, engine, 'source');
  const saved = await save(source, host.makeSaveDir());
  const state = JSON.parse(readFileSync(saved.statePath, 'utf8')) as { config: string; state: string };
  t.match(state.state, '18446744073709551615');
  // What another version might write, and a number that must not be taken for nothing.
  const config = { ...JSON.parse(state.config), added_later: { deep: [0, null, false] }, zero: 0 };
  await writeFile(saved.statePath, JSON.stringify({ ...state, config: JSON.stringify(config) }));
  const paths = host.makePaths('one');
  const one = await greet(host, await engine.restore({ ...host.bootOptions(paths), saved }), paths, 'one');
  const again = await save(one, host.makeSaveDir());
  const kept = JSON.parse(JSON.parse(readFileSync(again.statePath, 'utf8')).config);
  t.match(kept, { added_later: { deep: [0, null, false] }, zero: 0, rtc: null, pvpanic: false });
  t.match(kept.disks, [
    { id: 'disk0', path: join(host.dir, 'root'), readonly: true, image_type: 'Raw', sparse: true },
    { id: 'disk1', path: join(one.paths.dir, 'layer'), readonly: false },
  ]);
  t.equal(kept.vsock.socket, join(one.paths.socketDir, 'vsock.sock'));
  t.equal(kept.vsock.cid, 3);
  await end(source, one);
});

t.test('a guest that is resumed runs only behind its mark, and then no cancellation ends it', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const source = await boot(host, engine, 'source');
  const saved = await save(source, host.makeSaveDir());
  const paths = host.makePaths('one');
  const cancel = new AbortController();
  const options = { ...host.bootOptions(paths), saved, ownsMemory: true, signal: cancel.signal };
  const mark = async (): Promise<void> => {
    const vmms = engine.findVmms(host.dir).map(({ socketDir }) => socketDir);
    t.ok(vmms.includes(paths.socketDir), 'its VMM is there');
    throw new Error('no space for the mark');
  };
  await t.rejects(engine.restore({ ...options, beforeRun: mark }), { message: /no space for the mark/ });
  t.notOk(engine.findVmms(host.dir).some(({ socketDir }) => socketDir === paths.socketDir));
  const beforeRun = async (): Promise<void> => cancel.abort(new Error('a client that left'));
  const one = await greet(host, await engine.restore({ ...options, beforeRun }), paths, 'one');
  t.match(one.vm.identity.memory, { kind: 'copy-on-write', origin: { path: saved.memoryPath } });
  await end(source, one);
});

t.test('a copy of a guest without a network has one, and so have its own copies', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const source = await boot(host, engine, 'source');
  const saved = await save(source, host.makeSaveDir());
  const restore = async (name: string, from: SavedVm, tap: string) => {
    const paths = host.makePaths(name);
    const options = host.bootOptions(paths);
    const net = { namespace: '/proc/self/ns/net', mac: '02:00:00:00:00:02', tap };
    const spec = { ...options.spec, net };
    return greet(host, await engine.restore({ ...options, spec, saved: from }), paths, name);
  };
  const netOf = ({ statePath }: SavedVm): unknown =>
    JSON.parse(JSON.parse(readFileSync(statePath, 'utf8')).config).net;
  const one = await restore('one', saved, 'tap1');
  const again = await save(one, host.makeSaveDir());
  t.match(netOf(again), [{ id: 'net0', tap: 'tap1', mac: '02:00:00:00:00:02' }]);
  const two = await restore('two', again, 'tap2');
  t.match(netOf(await save(two, host.makeSaveDir())), [{ id: 'net0', tap: 'tap2' }]);
  t.equal(netOf(saved), undefined);
  host.set({
    faults: [{ at: 'vm.add-net', kind: 'refuse', reasons: ['Error', 'Resource busy (os error 16)'] }],
  });
  await t.rejects(restore('three', saved, 'tap3'), { message: /vm\.add-net: .*Resource busy/ });
  await end(source, one, two);
  t.same(host.processes(), []);
});

t.test('a disk grows', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const one = await boot(host, engine, 'one');
  await one.vm.resizeDisk(1, 1 << 20);
  t.equal(statSync(join(one.paths.dir, 'layer')).size, 1 << 20);
  await t.rejects(one.vm.resizeDisk(0, 1 << 20), { message: /vm\.resize-disk: .*read-only/ });
  await t.rejects(one.vm.resizeDisk(5, 1 << 20), { message: /No disk with id disk5/ });
  await end(one);
});

t.test('connections one after another, the newest counts', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  host.set({ guestUpMs: 600 });
  const paths = host.makePaths('one');
  const startedAt = performance.now();
  const vm = await engine.boot(host.bootOptions(paths));
  const one = await greet(host, vm, paths, 'one');
  t.ok(performance.now() - startedAt >= 500, 'it waits for a guest whose driver is not there yet');
  for (let round = 0; round < 20; round++) await one.guest.reconnect(`round-${round}`, soon());
  t.ok((await one.guest.ping()) >= 0);
  // A stranger on the socket who asks for nonsense harms nobody.
  const stranger = connect(join(paths.socketDir, 'vsock.sock'));
  stranger.write('HELLO there, whoever you are and wherever\n');
  await new Promise((resolve) => stranger.on('close', resolve));
  t.ok((await one.guest.ping()) >= 0);
  host.fault({ at: 'vsock', kind: 'refuse', times: 3 }, { at: 'vsock', kind: 'hang', times: 2 });
  await one.guest.reconnect('after refusals and silence', soon());
  t.ok((await one.guest.ping()) >= 0);
  const cancelled = new AbortController();
  host.fault({ at: 'vsock', kind: 'hang' });
  setTimeout(() => cancelled.abort(new Error('enough')), 200);
  await t.rejects(vm.openChannel(cancelled.signal), { message: 'enough' });
  const waiting = vm.openChannel(soon());
  setTimeout(() => void vm.kill(), 200);
  await t.rejects(waiting, { message: /the VM ended: stopped/ });
  await end(one);
});

t.test('the end of a guest is noticed, and its kind is known', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const [off, reset, panicked, killed, late] = await Promise.all(
    ['off', 'reset', 'panicked', 'killed', 'late'].map((name) => boot(host, engine, name)),
  );
  powerOff(off!.guest);
  t.match(await off!.vm.exited, { reason: 'the guest powered off', exitCode: 0, signal: null });
  process.kill(reset!.vm.identity.pid, 'SIGUSR1');
  t.match(await reset!.vm.exited, { reason: 'the guest reset itself' });
  process.kill(panicked!.vm.identity.pid, 'SIGUSR2');
  t.match(await panicked!.vm.exited, { reason: /^the guest panicked \(kernel panic/ });
  process.kill(killed!.vm.identity.pid, 'SIGKILL');
  t.match(await killed!.vm.exited, { reason: 'the VMM was killed by SIGKILL' });
  host.set({ losesLastEvent: true });
  process.kill(late!.vm.identity.pid, 'SIGTERM');
  t.match(await late!.vm.exited, { exitCode: 0 });
  for (const { vm, paths, guest } of [off!, reset!, panicked!, killed!, late!]) {
    t.same(readdirSync(paths.socketDir), [], 'its sockets are gone');
    await t.rejects(vm.openChannel(soon()), { message: /the VM ended/ });
    await t.rejects(vm.save({ dir: '/', memoryBytes: MEMORY_BYTES, whilePaused: async () => undefined }), {
      message: /the VM ended/,
    });
    guest.close(new Error('over'));
  }
});

t.test('a guest that is over is not called lost, however long its VMM takes to end', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const one = await boot(host, engine, 'slow');
  t.equal(await one.vm.isEnding(), false);
  host.set({ endMs: 1500 });
  powerOff(one.guest);
  while (one.guest.isConnected) await sleep(10);
  t.equal(one.vm.exit, undefined, 'its connection is lost, its VMM not');
  t.equal(await one.vm.isEnding(), true);
  t.equal(await explainExit(one.vm), 'the guest powered off');
  one.guest.close(new Error('over'));
});

t.test('a VMM that boots its guest again in spite of its settings is killed', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const one = await boot(host, engine, 'one');
  // As if what it needs to start had been left.
  const { mkdirSync } = await import('node:fs');
  mkdirSync(join(one.paths.dir, 'start'));
  await writeFile(join(one.paths.dir, 'start', 'kernel'), '');
  process.kill(one.vm.identity.pid, 'SIGUSR1');
  t.match(await one.vm.exited, { reason: 'the guest reset itself', signal: 'SIGKILL' });
  await end(one);
});
