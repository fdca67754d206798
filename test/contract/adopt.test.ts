// The Cloud Hypervisor engine takes over VMMs that another daemon started, whatever that one was doing when it died.
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { VmmApi } from '../../host-agent/src/engines/cloud-hypervisor/api.ts';
import type { Vm, VmmIdentity, VmPaths } from '../../host-agent/src/engines/engine.ts';
import { Guest } from '../../host-agent/src/guest/guest.ts';
import {
  type FakeHost,
  MEMORY_BYTES,
  makeFakeHost,
  powerOff,
} from '../support/fake-cloud-hypervisor/host.ts';
import { until } from '../support/until.ts';

t.setTimeout(120_000);
const nothing = async (): Promise<void> => undefined;

type Left = { readonly identity: VmmIdentity; readonly paths: VmPaths; readonly api: VmmApi };

/** A VM of a daemon that is gone; the registry gives back JSON. */
async function leave(host: FakeHost, name: string): Promise<Left> {
  const engine = host.engine();
  await engine.probe();
  const paths = host.makePaths(name);
  const vm = await engine.boot(host.bootOptions(paths));
  vm.detach();
  const identity = JSON.parse(JSON.stringify(vm.identity)) as VmmIdentity;
  return { identity, paths, api: new VmmApi(join(paths.socketDir, 'api.sock')) };
}

async function isState(api: VmmApi, state: string): Promise<void> {
  while ((await api.info({ timeoutMs: 30_000 })).state !== state) await sleep(20);
}

t.test('a VM that runs is adopted and used as before', async (t) => {
  const host = makeFakeHost(t);
  const { identity, paths } = await leave(host, 'one');
  const engine = host.engine();
  t.same(
    engine.findVmms(host.runDir).map(({ pid, socketDir }) => [pid, socketDir]),
    [[identity.pid, paths.socketDir]],
  );
  t.same(engine.findVmms('/elsewhere'), []);
  const vm = engine.adopt(identity, host.bootOptions(paths)) as Vm;
  const guest = new Guest({ source: vm, incarnation: 'one', log: host.bootOptions(paths).log });
  t.ok(await guest.adopt(20_000));
  t.ok(await vm.responds(20_000));
  t.match(await vm.save({ dir: host.makeSaveDir(), memoryBytes: MEMORY_BYTES, whilePaused: nothing }), {
    memoryPath: String,
  });
  powerOff(guest);
  t.match(await vm.exited, { reason: 'the guest powered off', exitCode: null, signal: null });
  guest.close(new Error('over'));
  t.same(readdirSync(paths.socketDir), []);
  t.equal(engine.adopt(identity, host.bootOptions(paths)), null, 'one that ended is not');
  t.match(await engine.explainEnd(identity), /ended while no daemon ran/);
});

t.test('only exactly that process is taken for it', async (t) => {
  const host = makeFakeHost(t);
  const { identity, paths } = await leave(host, 'one');
  const engine = host.engine();
  const options = host.bootOptions(paths);
  for (const other of [
    { ...identity, bootId: 'another boot' },
    { ...identity, startTicks: identity.startTicks + 1 },
    { ...identity, pid: process.pid },
  ]) {
    t.equal(engine.adopt(other, options), null);
  }
  await engine.adopt(identity, options)?.kill();
});

t.test('a VMM that hides how it was started is found nevertheless, and killed', async (t) => {
  const host = makeFakeHost(t);
  const { identity, paths } = await leave(host, 'one');
  process.kill(identity.pid, 'SIGHUP');
  const engine = host.engine();
  await until(() => host.processes().length === 0, 'a VMM that hides');
  t.equal(engine.findVmms(host.runDir).length, 1);
  const vm = engine.adopt(identity, host.bootOptions(paths));
  t.match(await vm?.exited, { reason: 'it hides what it was started as, as no VMM does' });
  t.same(host.processes(), []);
  t.ok(host.logLines.some(({ msg }) => msg === 'ended a VM'));
});

t.test('a guest that was left paused in the middle of a save goes on', async (t) => {
  const host = makeFakeHost(t);
  const { identity, paths, api } = await leave(host, 'one');
  mkdirSync(join(paths.dir, 'save-AbC123'));
  await api.put('vm.pause', undefined, { timeoutMs: 20_000 });
  // The answer to it never came to the daemon; the VMM is still at it.
  host.set({ latencyMs: { 'vm.snapshot': 1500 } });
  const destination_url = `file://${join(paths.dir, 'save-AbC123')}`;
  api.put('vm.snapshot', { destination_url }, { timeoutMs: 50 }).catch(() => undefined);
  await sleep(100);
  let resumed = 0;
  const vm = host.engine().adopt(identity, { ...host.bootOptions(paths), onResumed: () => resumed++ }) as Vm;
  await isState(api, 'Running');
  while (readdirSync(paths.dir).includes('save-AbC123')) await sleep(20);
  t.equal(resumed, 1);
  const guest = new Guest({ source: vm, incarnation: 'one', log: host.bootOptions(paths).log });
  t.ok(await guest.adopt(20_000));
  guest.close(new Error('over'));
  await vm.kill();
});

t.test('what happened while no daemon ran is found out', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  const panicked = await leave(host, 'panicked');
  process.kill(panicked.identity.pid, 'SIGUSR2');
  const reset = await leave(host, 'reset');
  process.kill(reset.identity.pid, 'SIGUSR1');
  const empty = await leave(host, 'empty');
  // Nobody but an operator could have done that.
  await empty.api.put('vm.boot', undefined, { timeoutMs: 20_000 }).catch(() => undefined);
  host.fault({
    at: 'vm.info',
    kind: 'refuse',
    status: 404,
    reasons: ['Error from API', 'VM is not created'],
  });
  const vm = engine.adopt(empty.identity, host.bootOptions(empty.paths)) as Vm;
  t.match(await vm.exited, { reason: 'the VMM has no VM any more' });
  const gone = async ({ identity, paths }: Left): Promise<void> => {
    while (engine.adopt(identity, host.bootOptions(paths)) !== null) await sleep(50);
  };
  await gone(panicked);
  await gone(reset);
  t.match(await engine.explainEnd(panicked.identity), /^the guest panicked/);
  t.equal(await engine.explainEnd(reset.identity), 'the guest reset itself');
});

t.test('a VMM that does not answer is waited for, and can be ended meanwhile', async (t) => {
  const host = makeFakeHost(t);
  const { identity, paths } = await leave(host, 'one');
  host.fault({ at: 'vm.info', kind: 'hang' }, { at: 'vmm.ping', kind: 'hang' });
  const vm = host.engine().adopt(identity, host.bootOptions(paths)) as Vm;
  t.notOk(await vm.responds(300));
  await vm.kill();
  t.match(vm.exit, { reason: 'stopped' });
  t.same(readdirSync(paths.socketDir), []);
});
