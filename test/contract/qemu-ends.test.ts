// The QEMU engine against a stand-in: a guest that is over is known to be, with its cause, and one that is saved goes on.
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { adoptVmm } from '../../host-agent/src/engines/adoption.ts';
import type { SaveOptions, Vm, VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import { QEMU } from '../../host-agent/src/engines/qemu/control.ts';
import { bootQemu } from '../../host-agent/src/engines/qemu/index.ts';
import { findVmms } from '../../host-agent/src/engines/vmm-process.ts';
import { Guest } from '../../host-agent/src/guest/guest.ts';
import {
  type FakeQemuHost,
  MEMORY_BYTES,
  makeFakeQemuHost,
  type QemuKnobs,
} from '../support/fake-qemu/host.ts';

t.setTimeout(120_000);
const soon = (): AbortSignal => AbortSignal.timeout(60_000);
const KVM_DUMP =
  'KVM internal error. Suberror: 1\nemulation failure\nEAX=00000000 EBX=00000000 ECX=00000000\nCode=0f c7 0f\n';

/** What ends a guest whose VMM lives on, and what is said of it. */
const ENDS: readonly (readonly [Partial<QemuKnobs>, RegExp])[] = [
  [
    { endsIn: 'internal-error', log: KVM_DUMP },
    /^the guest cannot run any further on this host: internal error of the VMM \(KVM internal error. Suberror: 1, emulation failure\)$/,
  ],
  [{ endsIn: 'internal-error', log: '' }, /^the guest cannot run any further on this host: [^(]*$/],
  [
    { endsIn: 'guest-panicked', log: '', lastWords: 'Kernel panic - not syncing: Oh\n' },
    /^the guest panicked \(kernel panic - not syncing: oh\)$/,
  ],
  [{ endsIn: 'guest-panicked', lastWords: '' }, /^the guest panicked$/],
  [{ endsIn: 'shutdown' }, /^the guest powered off$/],
];

async function boot(host: FakeQemuHost, name: string, memoryPath?: string): Promise<Vm> {
  const options = host.bootOptions(host.makePaths(name));
  return bootQemu({ ...options, ...(memoryPath !== undefined && { memoryPath }) }, host.setup);
}

t.test('a guest whose VMM stopped it for good is over at once, with the cause in one line', async (t) => {
  const host = makeFakeQemuHost(t);
  for (const [index, [knobs, reason]] of ENDS.entries()) {
    host.set(knobs);
    const vm = await boot(host, `one-${index}`);
    const guest = new Guest({ source: vm, incarnation: 'one', log: host.log });
    await guest.connect(soon());
    process.kill(vm.identity.pid, 'SIGUSR1');
    t.match((await vm.exited).reason, reason);
    t.equal(await vm.isEnding(), true);
    t.same(readdirSync(vm.identity.paths.socketDir), []);
    const said = host.logLines.filter(({ msg }) => msg === 'ended a VM');
    t.equal(said.length, index + 1);
    t.match(said.at(-1), { diagnosis: /console:.*vmm log:/s });
    guest.close(new Error('over'));
  }
  t.match(
    host.logLines.map(({ diagnosis }) => diagnosis).join('\n'),
    /EAX=00000000/,
    'what only an expert reads is in the log',
  );
});

t.test('one that was over before there was a control connection does not start', async (t) => {
  const host = makeFakeQemuHost(t);
  host.set({ firstStatus: 'internal-error' });
  const error = await boot(host, 'one').catch((cause: Error) => cause);
  t.match((error as Error).message, /^the VMM did not start: the guest cannot run any further[^\n]*$/);
  t.match(host.logLines.at(-1), { msg: 'a VMM did not start', diagnosis: /console: / });
});

t.test('a VMM that ends says its last line, and the log says the others', async (t) => {
  const host = makeFakeQemuHost(t);
  const options = host.bootOptions(host.makePaths('one'));
  const setup = { ...host.setup, program: '/bin/false' };
  await t.rejects(bootQemu(options, setup), {
    message: /^the VMM did not start: .*exited with code 1[^\n]*$/,
  });
});

t.test('a VMM that refuses to start says what it refused', async (t) => {
  const host = makeFakeQemuHost(t);
  host.set({ refused: { qmp_capabilities: 'not today' } });
  await t.rejects(boot(host, 'one'), {
    message: 'the VMM did not start: qmp_capabilities: not today',
    details: { stage: 'spawn' },
  });
});

t.test('a VMM that its own seccomp filter kills is reported as such', async (t) => {
  const host = makeFakeQemuHost(t);
  const vm = await boot(host, 'one');
  process.kill(vm.identity.pid, 'SIGSYS');
  t.match(await vm.exited, {
    reason: 'the VMM was killed by SIGSYS, as it made a system call that its filter forbids',
    signal: 'SIGSYS',
  });
});

t.test('an adopted VMM that refuses at first is asked again', async (t) => {
  const host = makeFakeQemuHost(t);
  const vm = await boot(host, 'one');
  vm.detach();
  host.set({ refused: { qmp_capabilities: 'not today' } });
  const adopted = adoptVmm(QEMU, vm.identity, { log: host.log })!;
  while (!host.logLines.some(({ msg }) => /does not answer on its control socket/.test(String(msg))))
    await sleep(10);
  t.equal(await adopted.responds(1000), false);
  host.set({ refused: {} });
  while (!(await adopted.responds(1000))) await sleep(50);
  t.equal(
    host.logLines.filter(({ msg }) => /does not answer/.test(String(msg))).length,
    1,
    'it is said once',
  );
  await adopted.kill();
  t.match(adopted.exit, { reason: 'stopped' });
});

t.test('one that is over is known so by the next daemon, too', async (t) => {
  const host = makeFakeQemuHost(t);
  host.set({ endsIn: 'internal-error', log: KVM_DUMP });
  const vm = await boot(host, 'one');
  vm.detach();
  process.kill(vm.identity.pid, 'SIGUSR1');
  const identity = JSON.parse(JSON.stringify(vm.identity)) as VmmIdentity;
  const adopted = adoptVmm(QEMU, identity, { log: host.log });
  t.match((await adopted!.exited).reason, /emulation failure/);
});

t.test('a VMM is found by its control socket, and one that was left paused goes on', async (t) => {
  const host = makeFakeQemuHost(t);
  const vm = await boot(host, 'one');
  const { paths, pid } = vm.identity;
  t.match(findVmms(QEMU, host.dir), [{ pid, socketDir: paths.socketDir }]);
  t.same(findVmms(QEMU, '/elsewhere'), []);
  vm.detach();
  host.set({ endsIn: 'paused' });
  process.kill(pid, 'SIGUSR1');
  for (const other of [
    { ...vm.identity, bootId: 'another boot' },
    { ...vm.identity, startTicks: vm.identity.startTicks + 1 },
    { ...vm.identity, pid: process.pid },
  ])
    t.equal(adoptVmm(QEMU, other, { log: host.log }), null);
  const isResumed = Promise.withResolvers<void>();
  const adopted = adoptVmm(QEMU, vm.identity, { log: host.log, onResumed: () => isResumed.resolve() })!;
  await isResumed.promise;
  t.equal(host.commands(paths).at(-1), 'cont');
  t.ok(await adopted.responds(20_000));
  await adopted.kill();
  t.match(adopted.exit, { reason: 'stopped' });
  t.same(readdirSync(paths.socketDir), []);
});

t.test('a guest that is paused because the host’s disk is full is reported to waiting callers', async (t) => {
  const host = makeFakeQemuHost(t);
  host.set({ endsIn: 'io-error', reason: 'No space left on device' });
  const causes: string[] = [];
  const options = {
    ...host.bootOptions(host.makePaths('one')),
    onIoPause: (why: string) => causes.push(why),
  };
  const vm = await bootQemu(options, host.setup);
  host.set({ held: ['cont'] });
  process.kill(vm.identity.pid, 'SIGUSR1');
  while (causes.length === 0) await sleep(10);
  t.same(causes, ["the host's disk does not take the guest's writes (no space left on device)"]);
  t.match(vm.ioPauseReason, /it is paused until it does/);
  t.equal(vm.exit, undefined, 'it is not over');
  host.set({ held: [] });
  while (vm.ioPauseReason !== undefined) await sleep(10);
  await vm.kill();
});

/** A VM whose memory is where it is saved to, and how often its pauses began and ended. */
async function savable(host: FakeQemuHost, name: string) {
  const dir = join(host.dir, `saved-${name}`);
  mkdirSync(dir);
  const vm = await boot(host, name, join(dir, 'memory'));
  const guest = new Guest({ source: vm, incarnation: name, log: host.log });
  await guest.connect(soon());
  const calls: string[] = [];
  const options: SaveOptions = {
    dir,
    memoryBytes: MEMORY_BYTES,
    beforePause: async () => void calls.push('before'),
    whilePaused: async () => void calls.push('while'),
    afterPause: () => void calls.push('after'),
  };
  return { vm, guest, calls, options, end: () => vm.kill() };
}

async function goesOn(t: Test, guest: Guest): Promise<void> {
  t.ok((await guest.ping()) >= 0, 'it answers');
}

t.test('a save that fails anywhere lets the guest go on', async (t) => {
  const host = makeFakeQemuHost(t);
  const one = await savable(host, 'one');
  for (const command of ['stop', 'xen-save-devices-state']) {
    host.set({ refused: { [command]: `${command} is refused` } });
    await t.rejects(one.vm.save(one.options), {
      message: `cannot save the VM: ${command}: ${command} is refused`,
    });
    t.equal(
      host.commands(one.vm.identity.paths).at(-1),
      'cont',
      `${command}: a stop may have come all the same`,
    );
    await goesOn(t, one.guest);
  }
  host.set({ refused: { 'xen-save-devices-state': 'write: No space left on device' } });
  await t.rejects(one.vm.save(one.options), { code: 'exhausted' });
  host.set({ refused: {} });
  const whilePaused = () => Promise.reject(new Error('a fault of the test'));
  await t.rejects(one.vm.save({ ...one.options, whilePaused }), { message: /a fault of the test/ });
  await goesOn(t, one.guest);
  one.calls.length = 0;
  t.match(await one.vm.save(one.options), { statePath: String });
  t.same(one.calls, ['before', 'while', 'after']);
  await goesOn(t, one.guest);
  await one.end();
});

t.test('a VMM that says it has saved, and has not, is not believed, and its guest goes on', async (t) => {
  const host = makeFakeQemuHost(t);
  const one = await savable(host, 'one');
  for (const [saved, why] of [
    ['nothing', /ENOENT/],
    ['no-bytes', /the VMM has saved no state of its devices/],
    ['link', /ELOOP/],
    ['pipe', /is not a regular file/],
    ['directory', /EISDIR|is not a regular file/],
    ['endless', /is longer than/],
  ] as const) {
    host.set({ saved });
    await t.rejects(one.vm.save(one.options), { message: why }, saved);
    await goesOn(t, one.guest);
  }
  host.set({ saved: 'state' });
  t.match(await one.vm.save(one.options), { statePath: String });
  await one.end();
});

t.test('nothing of a save that failed works on behind it', async (t) => {
  const host = makeFakeQemuHost(t);
  const one = await savable(host, 'one');
  host.set({ refused: { 'xen-save-devices-state': 'no' } });
  let isDone = false;
  const whilePaused = async (): Promise<void> => {
    await sleep(300);
    isDone = true;
  };
  await t.rejects(one.vm.save({ ...one.options, whilePaused }));
  t.equal(isDone, true);
  await one.end();
});

t.test('a guest that cannot go on after a save is over, and says why', async (t) => {
  const host = makeFakeQemuHost(t);
  const one = await savable(host, 'one');
  host.set({ refused: { cont: 'Failed to get "write" lock' } });
  await t.rejects(one.vm.save(one.options), { message: /^cannot save the VM: cont: Failed to get/ });
  t.match((await one.vm.exited).reason, /^it could not be resumed after it was saved: .*"write" lock/);
  host.set({ refused: {} });
  const other = await savable(host, 'other');
  const whilePaused = async (): Promise<void> => {
    process.kill(other.vm.identity.pid, 'SIGUSR1');
    while (!host.commands(other.vm.identity.paths).includes('stop')) await sleep(5);
    await sleep(200);
  };
  await t.rejects(other.vm.save({ ...other.options, whilePaused }), { message: /cannot save the VM/ });
  t.match(
    (await other.vm.exited).reason,
    /^the guest cannot run any further/,
    'its state says more than the refusal',
  );
});
