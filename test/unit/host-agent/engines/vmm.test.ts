// One VM from its start to its end: the requests to its VMM, and the reported reason of its end.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EndedVm } from '../../../../host-agent/src/engines/adoption.ts';
import { VmmRefusal } from '../../../../host-agent/src/engines/control.ts';
import type { SaveOptions } from '../../../../host-agent/src/engines/engine.ts';
import {
  explainExitCode,
  readBlockedTask,
  readLastWords,
  Vmm,
} from '../../../../host-agent/src/engines/vmm.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { type MadeHost, MadeProcess, makeHost } from '../../../support/made-vmm.ts';
import { until } from '../../../support/until.ts';

const PANIC = 'line\n[ 1.0] Kernel panic - not syncing: Oh No\nlast\n';

function start(t: Test, extra: Parameters<typeof makeHost>[1] = {}) {
  const host = makeHost(t, extra);
  const process = new MadeProcess();
  const vm = new Vmm(host.kind, host.identity, process, { log: host.log, isAdopted: false });
  t.teardown(() => process.end(0));
  return { host, process, vm, control: host.controls[0]! };
}

/** The reported reason if it ends by itself. */
async function reasonOf(
  t: Test,
  exitCode: number | null,
  prepare: (host: MadeHost) => void,
  signal?: string,
) {
  const { host, process, vm } = start(t);
  prepare(host);
  process.end(exitCode, signal);
  const exit = await vm.exited;
  t.same(vm.exit, exit);
  t.match(exit, { exitCode, signal: signal ?? null });
  return exit.reason;
}
const console = (text: string) => (host: MadeHost) => writeFileSync(host.files.consolePath, text);
const told = (text: string) => (host: MadeHost) => {
  host.controls[0]!.on.explainExit = () => text;
};

t.test('the cause of an end: the guest’s last lines, the VMM’s log, its exit code', async (t) => {
  const reason = (...args: [number | null, (host: MadeHost) => void, string?]) => reasonOf(t, ...args);
  t.equal(await reason(0, console(PANIC)), 'the guest panicked (kernel panic - not syncing: oh no)');
  t.equal(
    await reason(0, console('sandbox-init: no /sbin/x\n')),
    'the guest could not start (sandbox-init: no /sbin/x)',
  );
  t.equal(await reason(0, told('the guest powered off')), 'the guest powered off');
  t.equal(await reason(1, () => undefined), 'the VMM exited with code 1');
  t.equal(
    await reason(null, () => undefined),
    'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it',
  );
  t.equal(await reason(null, told('the guest powered off')), 'the guest powered off');
  t.equal(await reason(null, console(PANIC), 'SIGSEGV'), 'the VMM was killed by SIGSEGV');
  t.equal(
    await reason(null, () => undefined, 'SIGSYS'),
    'the VMM was killed by SIGSYS, as it made a system call that its filter forbids',
  );
});

t.test('at its end nothing is left of it', async (t) => {
  const { host, process, vm, control } = start(t);
  writeFileSync(join(host.paths.socketDir, 'another'), '');
  t.equal(vm.isOver, false);
  t.equal(vm.endedByItself, false);
  t.equal(vm.exit, undefined);
  process.end(3);
  await vm.exited;
  t.equal(vm.isOver, true);
  t.equal(vm.endedByItself, true);
  t.same(readdirSync(host.paths.socketDir), ['another']);
  t.ok(control.calls.includes('close') && control.calls.includes('explainExit 3'));
  t.match(vm.ended.reason, { code: 'internal', message: 'the VM ended: the VMM exited with code 3' });
  control.calls.length = 0;
  const refused = { code: 'internal', message: /^the VM ended: the VMM exited with code 3$/ };
  await t.rejects(vm.save({} as SaveOptions), refused);
  await t.rejects(vm.resizeDisk(1, 2), refused);
  t.equal(await vm.isEnding(), true);
  t.equal(await vm.responds(1), false);
  await vm.terminate('whatever');
  t.same(control.calls, [], 'it is asked for nothing');
  t.same(process.signals, []);
  await vm.kill();
  t.equal(vm.endedByItself, true, 'nobody killed it');
});

t.test('a socket that cannot be removed keeps no end from being known', async (t) => {
  const { host, process, vm } = start(t);
  const { controlSocketPath } = host.files;
  rmSync(controlSocketPath);
  mkdirSync(controlSocketPath);
  process.end(0);
  t.match(await vm.exited, { reason: 'the VMM exited with code 0' });
  t.same(host.lines, []);
});

t.test('a killed VMM is reported as stopped, without lines of its console', async (t) => {
  const { host, vm, process } = start(t);
  console(PANIC)(host);
  await vm.kill();
  t.match(vm.exit, { reason: 'stopped', signal: 'SIGKILL' });
  t.equal(vm.endedByItself, false);
  t.equal(vm.isOver, true);
  t.same(process.signals, ['SIGKILL']);
});

t.test('a VM that is given up is killed once, and its verdict is why it ended', async (t) => {
  const { host, vm, process } = start(t);
  writeFileSync(host.files.logPath, 'its log\n');
  process.endsOf = [];
  const both = [vm.terminate('it lies'), vm.terminate('it lies again')];
  await until(() => process.signals.length === 2, 'two signals');
  t.equal(await vm.isEnding(), true);
  t.equal(vm.isOver, false);
  process.end(null, 'SIGKILL');
  await Promise.all(both);
  t.match(vm.exit, { reason: 'it lies', signal: 'SIGKILL' });
  t.equal(vm.endedByItself, true);
  t.match(host.lines, [
    { msg: 'ended a VM', reason: 'it lies', diagnosis: 'console: (empty)\nvmm log:\nits log' },
  ]);
  t.equal(host.lines.length, 1);

  const panicked = start(t);
  console(PANIC)(panicked.host);
  await panicked.vm.terminate('it stands still');
  t.match(panicked.vm.exit?.reason, /^the guest panicked/, 'its own words say more');
  // Killed while it is being terminated: the first reason counts.
  const both2 = start(t);
  const giving = both2.vm.terminate('it lies');
  await both2.vm.kill();
  await giving;
  t.match(both2.vm.exit, { reason: 'it lies' });
});

t.test('a state in which no guest goes on ends the VM', async (t) => {
  const { vm, control, process } = start(t);
  t.same(await vm.checkState(), { kind: 'runs' });
  control.state = { kind: 'paused' };
  t.same(await vm.checkState(), { kind: 'paused' });
  t.same(process.signals, []);
  control.state = { kind: 'over', reason: 'the guest powered off' };
  t.same(await vm.checkState(), control.state);
  t.match(vm.exit, { reason: 'the guest powered off', signal: 'SIGKILL' });
});

t.test('a failed save is reported with its stage, and a full disk as such', async (t) => {
  const { vm, control } = start(t);
  const options = {} as SaveOptions;
  t.same(await vm.save(options), { memoryPath: 'm', statePath: 's', pausedMs: 1 });
  const failure = async (cause: Error) => {
    control.on.save = (given) => {
      t.equal(given, options);
      throw cause;
    };
    return await vm.save(options).catch((error) => error);
  };
  t.match(await failure(new VmmRefusal('write: No space left on device')), {
    name: 'AppError',
    code: 'exhausted',
    message: 'cannot save the VM: write: No space left on device',
    details: { stage: 'save' },
    cause: { name: 'VmmRefusal' },
  });
  t.match(await failure(new VmmRefusal('not now\nregisters')), {
    code: 'internal',
    message: /^cannot save the VM: not now$/,
  });
  t.match(await failure(new Error('No space left on device')), { code: 'internal' });
  t.match(await failure(new AppError('conflict', 'busy')), { code: 'conflict', details: { stage: 'save' } });
  control.ioPauseReason = 'the disk is full';
  t.equal(vm.ioPauseReason, 'the disk is full');
  control.calls.length = 0;
  t.match(await failure(new Error('never')), {
    code: 'exhausted',
    message: 'the VM cannot be saved now: the disk is full',
    details: { stage: 'save' },
  });
  t.same(control.calls, []);
});

t.test('what is asked of the VM is asked of its VMM', async (t) => {
  const { vm, control, process } = start(t);
  await vm.resizeDisk(1, 4096);
  t.equal(await vm.responds(7), true);
  control.on.ping = () => Promise.reject(new Error('silence'));
  t.equal(await vm.responds(8), false);
  t.equal(await vm.isEnding(), false);
  control.on.isEnding = () => true;
  t.equal(await vm.isEnding(), true);
  const signal = AbortSignal.timeout(1000);
  control.on.openChannel = (given) => t.equal(given, signal);
  await t.rejects(vm.openChannel(signal), { message: 'it has no channel' });
  t.same(control.calls, [
    ...['resizeDisk 1 4096', 'ping 7', 'ping 8', 'isEnding', 'isEnding', 'openChannel'],
  ]);
  vm.checkExit();
  t.equal(process.polls, 1);
  t.equal(process.detaches, 0);
});

t.test('a VM that is let go of is another’s', async (t) => {
  const { vm, control, process } = start(t);
  vm.detach();
  t.equal(vm.isOver, true);
  t.equal(process.detaches, 1);
  t.same(control.calls, ['close']);
  await vm.terminate('it lies');
  t.same(process.signals, []);
  t.equal(await vm.isEnding(), false);
});

t.test('what an expert reads is the end of its console and of its VMM’s log', async (t) => {
  const { host, vm } = start(t);
  t.match(await vm.diagnose(), /^console: \(empty\)\nvmm log: \(empty\)\nthreads: /);
  const lines = Array.from({ length: 50 }, (_, at) => `line ${at}`);
  writeFileSync(host.files.consolePath, `${lines.join('\n')}\n`);
  t.match(await vm.diagnose(), `console:\n${lines.slice(10).join('\n')}\nvmm log: (empty)`);

  const earlyConsolePath = join(host.dir, 'early');
  const early = start(t, { earlyConsolePath });
  writeFileSync(earlyConsolePath, 'an early word\n');
  t.match(await early.vm.diagnose(), 'console:\nan early word\nvmm log: (empty)');
  writeFileSync(early.host.files.consolePath, 'a word\n');
  t.match(await early.vm.diagnose(), 'console:\na word\nvmm log: (empty)');
});

t.test('last words are found among others, and are short', async (t) => {
  const { host, vm } = start(t);
  const { consolePath, logPath } = host.files;
  const words = (text: string) => {
    writeFileSync(consolePath, text);
    return readLastWords(consolePath);
  };
  t.equal(await readLastWords(consolePath), undefined);
  t.equal(await words('all is well\n'), undefined);
  t.equal(await words(`sandbox-init: x\n${PANIC}`), 'the guest panicked (kernel panic - not syncing: oh no)');
  t.match(await words(`${PANIC}${'line\n'.repeat(58)}`), /^the guest panicked/);
  t.equal(await words(`${PANIC}${'line\n'.repeat(59)}`), undefined, 'too long ago');
  const long = 'x'.repeat(300);
  t.equal((await words(`Kernel panic - not syncing${long}`))?.length, 200 + 'the guest panicked ()'.length);
  t.equal((await words(`sandbox-init: ${long}`))?.length, 200 + 'the guest could not start ()'.length);

  const blocked = (task: string, s = 120) => `[ 9.1] INFO: task ${task} blocked for more than ${s} seconds.`;
  const found = async (text: string) => {
    writeFileSync(consolePath, text);
    const own = await readBlockedTask(consolePath);
    t.equal(await vm.readBlockedTask(), own);
    return own;
  };
  t.equal(await found('nothing\n'), undefined);
  t.equal(await found(`${blocked('a:1')}\n${blocked('b:2', 9)}\nmore\n`), blocked('b:2', 9), 'the last');
  t.equal(await found(`${blocked('x'.repeat(64))}\n`), blocked('x'.repeat(64)));
  t.equal(await found(`${blocked('x'.repeat(65))}\n`), undefined);
  t.equal(await found(`INFO: task  blocked for more than 1 seconds\n`), undefined);
  t.equal((await found(`${blocked('a')}${long}`))?.length, 200);

  t.equal(await explainExitCode(1, logPath), 'the VMM exited with code 1');
  writeFileSync(logPath, `first\n${long}\n`);
  t.equal(await explainExitCode(0, logPath), 'the VMM exited with code 0');
  t.equal(await explainExitCode(1, logPath), `the VMM exited with code 1 (${'x'.repeat(200)})`);
});

t.test('a VM that ended before anybody looked says so, and no more', async (t) => {
  const { host } = start(t);
  const exit = { reason: 'the guest powered off', exitCode: null, signal: null };
  const vm = new EndedVm(host.identity, exit);
  t.equal(vm.identity, host.identity);
  t.equal(vm.exit, exit);
  t.equal(await vm.exited, exit);
  t.equal(vm.ioPauseReason, undefined);
  const refused = { code: 'internal', message: 'the VM ended: the guest powered off' };
  await t.rejects(vm.openChannel(), refused);
  await t.rejects(vm.save(), refused);
  await t.rejects(vm.resizeDisk(), refused);
  t.equal(await vm.isEnding(), true);
  t.equal(await vm.responds(), false);
  t.equal(await vm.readBlockedTask(), undefined);
  t.equal(await vm.diagnose(), 'the guest powered off');
  await vm.kill();
  vm.detach();
});
