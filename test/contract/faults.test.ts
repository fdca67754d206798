// The Cloud Hypervisor engine against a stand-in that fails at every call: nothing is left, and guests go on.
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { SavedVm, Vm, VmPaths } from '../../host-agent/src/engines/engine.ts';
import { Guest } from '../../host-agent/src/guest/guest.ts';
import { type FakeHost, MEMORY_BYTES, makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import type { Fault } from '../support/fake-cloud-hypervisor/knobs.ts';

t.setTimeout(200_000);
const soon = (): AbortSignal => AbortSignal.timeout(30_000);
const nothing = async (): Promise<void> => undefined;
const WAYS: readonly Fault['kind'][] = ['refuse', 'die', 'die-after', 'drop', 'empty', 'raw'];

async function greet(host: FakeHost, vm: Vm, paths: VmPaths): Promise<Guest> {
  const guest = new Guest({ source: vm, incarnation: 'one', log: host.bootOptions(paths).log });
  await guest.connect(soon());
  return guest;
}

/** What a VM that was not made may have left in its directories. */
function leftovers(paths: VmPaths): string[] {
  const logs = ['vmm.log', 'events.json', 'console.log', 'layer'];
  return [paths.dir, paths.socketDir]
    .flatMap((dir) => readdirSync(dir))
    .filter((name) => !logs.includes(name));
}

t.test('a boot that fails at any call leaves nothing', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  for (const at of ['vmm.ping', 'vm.create', 'vm.boot']) {
    for (const kind of WAYS) {
      // A ping is asked again.
      if (at === 'vmm.ping' && !kind.startsWith('die')) continue;
      host.fault({ at, kind });
      const paths = host.makePaths(`${at}-${kind}`);
      await t.rejects(
        engine.boot(host.bootOptions(paths)),
        { message: /the VMM did not start: / },
        `${at} ${kind}`,
      );
      t.same(leftovers(paths), [], `${at} ${kind}`);
    }
  }
  host.fault({ at: 'spawn', kind: 'die' });
  const dead = host.makePaths('dead');
  await t.rejects(engine.boot(host.bootOptions(dead)), {
    message:
      /^the VMM did not start: the VMM exited with code 1 \(Error creating hypervisor instance: [^\n]*$/,
  });
  t.same(leftovers(dead), []);
  for (const at of ['spawn', 'vmm.ping', 'vm.create', 'vm.boot']) {
    host.fault({ at, kind: 'hang' });
    const paths = host.makePaths(`${at}-cancelled`);
    const signal = AbortSignal.timeout(400);
    await t.rejects(
      engine.boot({ ...host.bootOptions(paths), signal }),
      { name: 'TimeoutError' },
      `${at} cancelled`,
    );
    t.same(leftovers(paths), []);
  }
  host.fault();
  const refused = host.makePaths('refused');
  const onSpawn = (): never => {
    throw new Error('no room for the record');
  };
  await t.rejects(engine.boot({ ...host.bootOptions(refused), onSpawn }), {
    message: /no room for the record/,
  });
  t.same(host.processes(), []);
});

t.test('the error of a VM has the root cause that its VMM reported', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const attempt = async (name: string, change: (options: ReturnType<FakeHost['bootOptions']>) => object) => {
    const options = host.bootOptions(host.makePaths(name));
    await engine.boot({ ...options, ...change(options) }).then(
      (vm) => vm.kill(),
      (error: Error) => {
        throw error;
      },
    );
  };
  await t.rejects(
    attempt('no-disk', ({ spec }) => ({
      spec: { ...spec, disks: [{ path: '/no/disk', isReadOnly: true }] },
    })),
    { message: /Cannot open disk path \/no\/disk: No such file or directory \(os error 2\)/ },
  );
  await t.rejects(
    attempt('no-kernel', ({ spec }) => ({ spec: { ...spec, kernelPath: '/no/kernel' } })),
    { message: /start\/kernel: No such file or directory/ },
  );
  await t.rejects(
    attempt('long', ({ spec }) => ({ spec: { ...spec, bootArgs: 'x'.repeat(60_000) } })),
    { message: /vm.create would have \d+ bytes, and the VMM takes 51200/ },
  );
  const one = host.makePaths('one');
  const vm = await engine.boot(host.bootOptions(one));
  const { disks } = host.spec(one);
  await t.rejects(
    attempt('same-disk', ({ spec }) => ({ spec: { ...spec, disks } })),
    { message: /Another instance likely holds a lock/ },
    'a layer has one VM; the root image is shared',
  );
  await vm.kill();
  // Sockets that a VMM left which was killed.
  const stale = host.makePaths('stale');
  for (const name of ['api.sock', 'api.sock.lock', 'vsock.sock'])
    await writeFile(join(stale.socketDir, name), '');
  await (await engine.boot(host.bootOptions(stale))).kill();
  t.same(leftovers(stale), []);
});

t.test('a save that fails at any call lets the guest go on', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const paths = host.makePaths('one');
  const vm = await engine.boot(host.bootOptions(paths));
  const guest = await greet(host, vm, paths);
  const faults: Fault[] = (['refuse', 'drop', 'empty', 'raw'] as const).flatMap((kind) => [
    { at: 'vm.snapshot', kind },
    { at: 'vm.pause', kind, times: 1 },
  ]);
  faults.push({ at: 'vm.snapshot', kind: 'half' }, { at: 'vm.pause', kind: 'half', times: 1 });
  for (const fault of faults) {
    host.fault(fault);
    const dir = host.makeSaveDir();
    const what = `${fault.at} ${fault.kind}`;
    await t.rejects(
      vm.save({ dir, memoryBytes: MEMORY_BYTES, whilePaused: nothing }),
      { message: /cannot save the VM: / },
      what,
    );
    t.ok((await guest.ping()) >= 0, `${what}: it answers`);
    t.same(leftovers(paths).sort(), ['api.sock', 'api.sock.lock', 'vsock.sock'], what);
    t.same(readdirSync(dir), [], what);
  }
  const reasons = ['Error from API', 'Cannot write', 'No space left on device (os error 28)'];
  host.fault({ at: 'vm.snapshot', kind: 'refuse', reasons });
  await t.rejects(vm.save({ dir: host.makeSaveDir(), memoryBytes: MEMORY_BYTES, whilePaused: nothing }), {
    code: 'exhausted',
  });
  host.fault();
  await t.rejects(
    vm.save({
      dir: host.makeSaveDir(),
      memoryBytes: MEMORY_BYTES,
      whilePaused: () => Promise.reject(new Error('no space')),
    }),
    { message: 'cannot save the VM: no space' },
  );
  const full = host.makeSaveDir();
  mkdirSync(join(full, 'memory'));
  await t.rejects(vm.save({ dir: full, memoryBytes: MEMORY_BYTES, whilePaused: nothing }), {
    message: /cannot save the VM/,
  });
  t.ok((await guest.ping()) >= 0);
  t.match(await vm.save({ dir: host.makeSaveDir(), memoryBytes: MEMORY_BYTES, whilePaused: nothing }), {
    memoryPath: String,
  });
  t.ok((await guest.ping()) >= 0);
  guest.close(new Error('over'));
  await vm.kill();
});

t.test('a guest that can neither be paused nor go on is ended, and says why', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const cases = [
    ['vm.pause', 'half', /could not be paused, and not be resumed either/],
    ['vm.resume', 'refuse', /could not be resumed after it was saved/],
    ['vm.snapshot', 'die', /killed by SIGKILL|could not be resumed/],
  ] as const;
  for (const [at, kind, reason] of cases) {
    const paths = host.makePaths(at);
    const vm = await engine.boot(host.bootOptions(paths));
    host.fault({ at, kind });
    await t.rejects(vm.save({ dir: host.makeSaveDir(), memoryBytes: MEMORY_BYTES, whilePaused: nothing }), {
      message: /cannot save/,
    });
    t.match((await vm.exited).reason, reason);
    t.same(leftovers(paths), []);
    host.fault();
  }
});

t.test('a copy that fails at any call leaves nothing, and the saved VM as it was', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const source = host.makePaths('source');
  const vm = await engine.boot(host.bootOptions(source));
  const dir = host.makeSaveDir();
  const saved = await vm.save({ dir, memoryBytes: MEMORY_BYTES, whilePaused: nothing, staysPaused: true });
  await vm.kill();
  const attempt = async (name: string, from: SavedVm = saved, signal?: AbortSignal): Promise<VmPaths> => {
    const paths = host.makePaths(name);
    const options = { ...host.bootOptions(paths), ...(signal && { signal }) };
    await t.rejects(engine.restore({ ...options, saved: from }), { message: /./ }, name);
    t.same(leftovers(paths), [], name);
    t.same(readdirSync(dir).sort(), ['memory', 'state'], name);
    return paths;
  };
  for (const at of ['vm.restore', 'vm.resume']) {
    for (const kind of WAYS) {
      host.fault({ at, kind });
      await attempt(`${at}-${kind}`);
    }
    host.fault({ at, kind: 'hang' });
    await attempt(`${at}-cancelled`, saved, AbortSignal.timeout(500));
  }
  host.fault();
  host.set({ cpu: 'another' });
  await attempt('other-cpu');
  host.set({ cpu: 'cpu-one', version: 'next' });
  await attempt('other-version');
  host.set({ version: '53' });
  await attempt('no-files', { memoryPath: join(dir, 'gone'), statePath: join(dir, 'gone') });
  await writeFile(join(host.dir, 'rubbish'), '{"formatVersion": 9}');
  await attempt('with-rubbish', { ...saved, statePath: join(host.dir, 'rubbish') });
  t.same(host.processes(), []);
  const paths = host.makePaths('well');
  const well = await engine.restore({ ...host.bootOptions(paths), saved });
  await well.kill();
});

t.test('the best memory mode that there is, and why not a better one', async (t) => {
  const host = makeFakeHost(t);
  const source = host.makePaths('source');
  const makeSaved = async (): Promise<SavedVm> => {
    const engine = host.engine();
    await engine.probe();
    const vm = await engine.boot(host.bootOptions(source));
    const saved = await vm.save({
      dir: host.makeSaveDir(),
      memoryBytes: MEMORY_BYTES,
      whilePaused: nothing,
      staysPaused: true,
    });
    await vm.kill();
    return saved;
  };
  let count = 0;
  const copy = async (engine: ReturnType<FakeHost['engine']>, saved: SavedVm): Promise<void> => {
    await (await engine.restore({ ...host.bootOptions(host.makePaths(`copy-${count++}`)), saved })).kill();
  };
  const chosen = (): unknown => host.logLines.findLast(({ mode }) => mode !== undefined);

  const saved = await makeSaved();
  const usual = host.engine();
  t.match(await usual.probe(), { detail: /by MappedFile \(CopyOnWrite: this version does not have it\)/ });
  await copy(usual, saved);
  t.match(chosen(), { mode: 'MappedFile', refusals: ['CopyOnWrite: this version does not have it'] });
  await t.rejects(
    copy(usual, { ...saved, memoryPath: join(host.dir, 'gone') }),
    { message: /ENOENT/ },
    'a failure for another reason costs no mode',
  );
  host.fault({ at: 'vm.restore', kind: 'refuse', times: 2 });
  await t.rejects(copy(usual, saved), { message: /a fault of the test/ });
  host.fault();
  await copy(usual, saved);
  t.match(chosen(), { mode: 'MappedFile' });
  host.set({ canMap: false });
  await copy(usual, saved);
  t.match(chosen(), { mode: 'OnDemand', msg: /MappedFile: vm.restore: .*a fault of mapping/ });
  host.set({ hasUserfaultfd: false });
  await Promise.all([copy(usual, saved), copy(usual, saved), copy(usual, saved)]);
  t.match(chosen(), { mode: 'Copy', msg: /OnDemand: userfaultfd cannot be used: .*not permitted/ });
  const strict = host.engine('on-demand');
  const reason = /no memory mode works: OnDemand: userfaultfd/;
  t.match(await strict.probe(), { isUsable: false, reason }, 'a probe copies, too');
  const plain = host.engine('copy');
  t.match(await plain.probe(), { detail: /by Copy;/ });
  await copy(plain, saved);
  t.match(chosen(), { mode: 'Copy', refusals: [] });

  host.set({ version: 'next', canMap: true });
  const absent = host.engine('copy-on-write');
  t.match(await absent.probe(), { detail: /by CopyOnWrite;/ });
  const newer = host.engine();
  t.match(await newer.probe(), { version: '54.0', detail: /by CopyOnWrite;/ });
  await copy(newer, await makeSaved());
  t.match(chosen(), { mode: 'CopyOnWrite', refusals: [] });
});

t.test('a copy that is still being filled is saved when it is full', async (t) => {
  const host = makeFakeHost(t);
  host.set({ fillMs: 1500 });
  const engine = host.engine('on-demand');
  await engine.probe();
  const source = host.makePaths('source');
  const vm = await engine.boot(host.bootOptions(source));
  const saved = await vm.save({ dir: host.makeSaveDir(), memoryBytes: MEMORY_BYTES, whilePaused: nothing });
  const one = await engine.restore({ ...host.bootOptions(host.makePaths('one')), saved });
  let pauses = 0;
  const dir = host.makeSaveDir();
  const again = await one.save({ dir, memoryBytes: MEMORY_BYTES, whilePaused: async () => void pauses++ });
  t.equal(pauses, 1, 'the disk is copied once');
  t.ok(existsSync(again.memoryPath));
  await Promise.all([vm.kill(), one.kill()]);
});

t.test('a host whose Landlock turns out not to work is used without', async (t) => {
  const host = makeFakeHost(t);
  const reasons = ['Error from API', 'The VM could not be created', 'Error applying landlock'];
  host.fault({ at: 'vm.create', kind: 'refuse', reasons, needs: '"landlock_enable":true' });
  const engine = host.engine();
  t.match(await engine.probe(), { isUsable: true, detail: /no Landlock: / });
  const paths = host.makePaths('one');
  await (await engine.boot(host.bootOptions(paths))).kill();
});

t.test('a program that will not do is refused with the reason', async (t) => {
  const host = makeFakeHost(t);
  host.set({ version: '52' });
  t.match(await host.engine().probe(), {
    isUsable: false,
    reason: /is version 52\.0; at least 53\.0 is needed/,
  });
  host.set({ version: '53', isConsoleSilent: true });
  host.fault({ at: 'vm.boot', kind: 'refuse', reasons: ['Error from API', 'Cannot open /dev/kvm'] });
  t.match(await host.engine().probe(), {
    isUsable: false,
    reason: /cannot start a guest: .*Cannot open \/dev\/kvm/,
  });
  host.fault();
  await t.rejects(host.engine().probe(AbortSignal.timeout(700)), { name: 'TimeoutError' }, 'a silent guest');
  t.same(readdirSync(join(host.dir, 'scratch')), []);
  t.throws(() => host.engine().compatibility(), { message: /not probed yet/ });
});
