// VMMs of an earlier daemon: found, watched, and adopted once they answer.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, linkSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { adoptVmm, explainLostEnd } from '../../../../host-agent/src/engines/adoption.ts';
import type { VmmIdentity } from '../../../../host-agent/src/engines/engine.ts';
import { startVmm } from '../../../../host-agent/src/engines/start.ts';
import {
  findVmms,
  layOut,
  type ProcessEnd,
  vmmRecordPath,
  watchVmm,
} from '../../../../host-agent/src/engines/vmm-process.ts';
import { readStartTicks, readUids } from '../../../../host-agent/src/lib/proc.ts';
import { writeProcessRecord } from '../../../../host-agent/src/lib/process-record.ts';
import { type MadeControl, type MadeHost, makeHost, nameOf } from '../../../support/made-vmm.ts';
import { STRANGER } from '../../../support/stranger.ts';
import { until } from '../../../support/until.ts';

type Child = { readonly child: ChildProcess; readonly pid: number; readonly startTicks: number };

async function startChild(t: Test, argv0?: string): Promise<Child> {
  const child = spawn('/usr/bin/sleep', ['600'], argv0 === undefined ? {} : { argv0 });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  return { child, pid: child.pid ?? 0, startTicks: readStartTicks(child.pid ?? 0) ?? -1 };
}

async function left(t: Test, prepare: (control: MadeControl, host: MadeHost) => void = () => undefined) {
  const host = makeHost(t);
  host.prepare = (control) => prepare(control, host);
  const { controlSocketPath } = host.files;
  const { child, pid, startTicks } = await startChild(t, nameOf(controlSocketPath));
  const identity: VmmIdentity = { ...host.identity, pid, startTicks };
  return { host, child, identity, control: () => host.controls[0]! };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test('what a program finds under each number', async (t) => {
  t.same(layOut(9, [], []), ['ignore', 9, 9]);
  t.same(layOut(9, [7, 8], []), ['ignore', 9, 9, 7, 8]);
  t.same(layOut(9, [], [4]), ['ignore', 9, 9, 'ignore', 9], 'what was left open is the log once more');
  t.same(layOut(9, [7], [3, 5]), ['ignore', 9, 9, 7, 'ignore', 9], 'and never in place of what it is given');
});

t.test('a process of another is watched for its end, closely once that is expected', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const ends: ProcessEnd[] = [];
  const watch = async (act: (vmm: NonNullable<ReturnType<typeof watchVmm>>) => unknown, pauses: number[]) => {
    const { child, pid, startTicks } = await startChild(t);
    const vmm = watchVmm(pid, startTicks)!;
    t.match(vmm, { pid, startTicks });
    ends.length = 0;
    void vmm.ended.then((end) => ends.push(end));
    await act(vmm);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const seen: number[] = [];
    for (const ms of pauses) {
      mock.timers.tick(ms);
      await turn();
      seen.push(ends.length);
    }
    return seen;
  };
  t.same(await watch(() => undefined, [249, 1]), [0, 1]);
  t.same(ends, [{ exitCode: null, signal: null }]);
  t.same(await watch((vmm) => vmm.poll(), [4, 1]), [0, 1]);
  t.same(await watch((vmm) => vmm.signal('SIGCONT'), [4, 1]), [0, 1]);
  t.same(await watch((vmm) => vmm.detach(), [1000, 1000]), [0, 0], 'nobody looks any more');
  const { child, pid, startTicks } = await startChild(t);
  t.equal(watchVmm(pid, startTicks + 1), null, 'another process of that number');
  const vmm = watchVmm(pid, startTicks)!;
  t.equal(vmm.signal('SIGKILL'), true);
  await once(child, 'exit');
  t.equal(vmm.signal('SIGKILL'), false);
  await vmm.ended;
  t.equal(watchVmm(pid, startTicks), null);
});

t.test('a VMM that answers is watched from before that on, and left as it is', async (t) => {
  const { host, identity, control } = await left(t);
  let answers = 0;
  const onAnswer = async () => void answers++;
  const vm = adoptVmm(host.kind, identity, { log: host.log, onAnswer, onResumed: () => t.fail('it ran') })!;
  await until(() => answers === 1, 'its answer');
  t.same(control().calls, ['watch', 'connect', 'readState']);
  t.equal(control().options.isAdopted, true);
  t.equal(vm.identity, identity);
  t.match(host.lines, []);
  await vm.kill();
  t.match(vm.exit, { reason: 'stopped', exitCode: null, signal: null });
});

t.test('a guest that was left paused is resumed, and its clock corrected', async (t) => {
  const { host, identity, control } = await left(t, (control) => {
    control.state = { kind: 'paused' };
  });
  const told: string[] = [];
  const vm = adoptVmm(host.kind, identity, {
    log: host.log,
    onResumed: () => void told.push(control().calls.at(-1) ?? ''),
    onAnswer: async () => void told.push('answer'),
  })!;
  await until(() => told.length === 2, 'its answer');
  t.same(told, ['resume', 'answer']);
  await vm.kill();
  const quiet = await left(t, (control) => {
    control.state = { kind: 'paused' };
  });
  const other = adoptVmm(quiet.host.kind, quiet.identity, { log: quiet.host.log })!;
  await until(() => quiet.control().calls.includes('resume'), 'its going on');
  await turn();
  t.same(
    quiet.host.lines.map(({ msg }) => msg),
    ['resumed a guest that an earlier daemon left paused'],
  );
  await other.kill();
});

t.test('a VMM whose guest has ended is killed, and not reported as answering', async (t) => {
  const { host, identity, control } = await left(t, (control) => {
    control.state = { kind: 'over', reason: 'the guest powered off' };
  });
  const onAnswer = async (): Promise<void> => {
    t.fail('it is over');
  };
  const vm = adoptVmm(host.kind, identity, { log: host.log, onAnswer })!;
  t.match(await vm.exited, { reason: 'the guest powered off' });
  await turn();
  t.notOk(control().calls.includes('resume'));
});

t.test('a VMM that does not answer yet is logged once, and not asked any more after its end', async (t) => {
  for (const answer of [async () => false, () => Promise.reject(new Error('busy'))]) {
    const { host, identity, control } = await left(t, ({ on }) => {
      on.connect = answer;
    });
    const vm = adoptVmm(host.kind, identity, { log: host.log })!;
    await until(() => host.lines.length === 1, 'a word on it');
    t.match(host.lines, [{ level: 40, msg: 'the VMM does not answer on its control socket yet' }]);
    t.notOk(control().calls.includes('readState'));
    vm.detach();
  }
  const { host, identity, control } = await left(t, ({ on, vm }) => {
    on.connect = async (signal: AbortSignal) => {
      await vm.terminate('it lies');
      signal.throwIfAborted();
    };
  });
  const vm = adoptVmm(host.kind, identity, { log: host.log })!;
  t.match(await vm.exited, { reason: 'it lies' });
  await turn();
  t.same(
    host.lines.map(({ msg }) => msg),
    ['ended a VM'],
  );
  t.notOk(control().calls.includes('readState'));
});

t.test('a VMM that does not answer in time is reported', async (t) => {
  const { host, identity, control } = await left(t, ({ on }) => {
    on.readState = () => new Promise(() => undefined);
  });
  const vm = adoptVmm({ ...host.kind, answerTimeoutMs: 30 }, identity, { log: host.log })!;
  await until(() => host.lines.length === 1, 'a word on it');
  t.match(host.lines, [{ err: { message: /^the VMM did not answer within \d+ ms$/ } }]);
  t.ok(control().calls.includes('readState'));
  vm.detach();
});

t.test('one that is started and does not answer in its time is killed', async (t) => {
  const host = makeHost(t);
  host.prepare = ({ on }) => {
    on.connect = () => false;
  };
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const { kind, log, paths, files } = host;
  const spec = { vcpus: 1, memoryMib: 1, kernelPath: '', initramfsPath: '', bootArgs: '', disks: [] };
  let failure: Error | undefined;
  startVmm(
    kind,
    { spec, paths, log },
    {
      program: '/usr/bin/sleep',
      argv0: nameOf(files.controlSocketPath),
      args: ['600'],
      view: { reads: [], writes: [] },
      memory: { kind: 'anonymous' },
    },
  ).catch((error) => {
    failure = error;
  });
  await until(() => {
    mock.timers.tick(10_000);
    return failure !== undefined;
  }, 'the end of its time');
  const answer =
    /^the VMM did not start: .* control socket within \d+ ms \(threads: \S+: state \S, [\d.]+ s\)$/;
  t.match(failure, { code: 'internal', message: answer });
  t.match(host.controls[0]!.vm.ended.aborted, true);
});

t.test('only that process is taken for it, and one that hides is ended', async (t) => {
  const { host, identity } = await left(t);
  for (const other of [
    { ...identity, jail: { uid: 5000 } },
    { ...identity, bootId: 'another boot' },
    { ...identity, startTicks: identity.startTicks + 1 },
  ])
    t.equal(adoptVmm(host.kind, other, { log: host.log }), null);
  t.equal(host.controls.length, 0);
  const { pid, startTicks } = await startChild(t, nameOf('/elsewhere/control'));
  const hidden = adoptVmm(host.kind, { ...identity, pid, startTicks }, { log: host.log })!;
  t.match(await hidden.exited, { reason: 'it hides what it was started as, as no VMM does' });
  t.same(host.controls[0]!.calls.includes('connect'), false);
});

t.test('VMMs are found by what a daemon has written down, and never by their words', async (t) => {
  const { host, identity, child } = await left(t);
  const { pid, startTicks, paths } = identity;
  t.same(findVmms(host.kind, host.dir), [], 'anybody can have its arguments');
  const record = vmmRecordPath(paths);
  writeProcessRecord(record, { what: host.kind.name, process: { pid, startTicks } });
  const { pid: silent, startTicks: since } = await startChild(t);
  const trial = { dir: '', socketDir: join(host.dir, 'probe/abc/s') };
  mkdirSync(join(host.dir, 'probe/abc'), { recursive: true });
  writeProcessRecord(vmmRecordPath(trial), {
    what: host.kind.name,
    process: { pid: silent, startTicks: since },
  });
  const found = () => findVmms(host.kind, host.dir).sort((a, b) => a.socketDir.length - b.socketDir.length);
  t.same(found(), [
    { pid, startTicks, socketDir: paths.socketDir },
    { pid: silent, startTicks: since, socketDir: trial.socketDir },
  ]);
  t.same(findVmms({ ...host.kind, name: 'other' }, host.dir), [], 'of another engine');
  t.same(findVmms(host.kind, paths.socketDir), [], 'of another run directory');
  writeProcessRecord(vmmRecordPath(trial), {
    what: host.kind.name,
    process: { pid: silent, startTicks: since - 1 },
  });
  t.equal(found().length, 1, 'another process of that number');
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.same(found(), []);
  t.notOk(existsSync(record), 'nothing is left to be found');
});

t.test('what a VMM puts into its own directory is no word of a daemon', async (t) => {
  const { host, identity } = await left(t);
  const { pid, startTicks, paths } = identity;
  const record = join(paths.socketDir, 'other.vmm');
  writeProcessRecord(record, { what: host.kind.name, process: { pid, startTicks } });
  t.equal(findVmms(host.kind, host.dir).length, 1);
  chownSync(record, STRANGER, STRANGER);
  t.same(findVmms(host.kind, host.dir), []);
  const real = join(host.dir, 'real');
  writeProcessRecord(real, { what: host.kind.name, process: { pid, startTicks } });
  for (const make of [symlinkSync, linkSync]) {
    rmSync(record, { force: true });
    make(real, record);
    t.same(findVmms(host.kind, host.dir), []);
  }
});

t.test('one whose daemon was killed as it started it is known by its user', async (t) => {
  const { host, identity } = await left(t);
  const uid = 1_999_900_000 + Math.floor(Math.random() * 10_000);
  const record = vmmRecordPath(identity.paths);
  writeProcessRecord(record, { what: host.kind.name, uid });
  t.same(findVmms(host.kind, host.dir), []);
  t.notOk(existsSync(record), 'it was never started');
  writeProcessRecord(record, { what: host.kind.name, uid });
  const child = spawn('/usr/bin/sleep', ['600'], { uid, gid: uid });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  t.match(findVmms(host.kind, host.dir), [{ pid: child.pid, socketDir: identity.paths.socketDir }]);
  // All of its user ids must match.
  const effective = spawn('/usr/bin/setpriv', ['--euid', String(uid), '/usr/bin/sleep', '600']);
  t.teardown(() => effective.kill('SIGKILL'));
  await until(() => readUids(effective.pid ?? 0)?.[1] === uid, 'its user');
  t.equal(findVmms(host.kind, host.dir).length, 1);
});

t.test('the cause of an unobserved end comes from the console, else from the VMM’s log', async (t) => {
  const { files } = makeHost(t);
  t.equal(await explainLostEnd(files), 'the VMM ended while no daemon ran');
  t.equal(await explainLostEnd(files, async () => undefined), 'the VMM ended while no daemon ran');
  t.equal(await explainLostEnd(files, async () => 'the guest reset itself'), 'the guest reset itself');
  writeFileSync(files.consolePath, 'Kernel panic - not syncing: x\n');
  t.match(await explainLostEnd(files, async () => 'the guest reset itself'), /^the guest panicked/);
});
