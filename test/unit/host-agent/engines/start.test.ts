// Starts of VMMs: the inputs of the process, and the clean-up after a failure.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { VmmRefusal } from '../../../../host-agent/src/engines/control.ts';
import type { BootOptions, VmmIdentity } from '../../../../host-agent/src/engines/engine.ts';
import type { CellOptions, Jail } from '../../../../host-agent/src/engines/jail/jail.ts';
import { LEASES_DIR } from '../../../../host-agent/src/engines/jail/uid-leases.ts';
import { type Launch, startVmm } from '../../../../host-agent/src/engines/start.ts';
import type { VmmProcess } from '../../../../host-agent/src/engines/vmm-process.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { isRunning, readBootId, readStartTicks } from '../../../../host-agent/src/lib/proc.ts';
import { argumentsOf, type MadeControl, makeHost, nameOf } from '../../../support/made-vmm.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;
/** Not used by another test or a daemon. */
const UID = 1_879_210_000 + randomInt(1_000_000);
const LEASE = join(LEASES_DIR, String(UID));

function setUp(t: Test, prepare: (control: MadeControl) => void = () => undefined) {
  const host = makeHost(t);
  host.prepare = prepare;
  const spawned: VmmIdentity[] = [];
  const disks = ['root', 'layer'].map((name) => join(host.dir, name));
  for (const path of disks) writeFileSync(path, '');
  t.teardown(() => {
    for (const { pid, startTicks } of spawned)
      if (isRunning({ pid, startTicks })) process.kill(pid, 'SIGKILL');
  });
  const options: BootOptions = {
    spec: {
      vcpus: 3,
      memoryMib: 4,
      kernelPath: '/k',
      initramfsPath: '/i',
      bootArgs: '',
      disks: disks.map((path, index) => ({ path, isReadOnly: index === 0 })),
    },
    paths: host.paths,
    log: host.log,
    onSpawn: (identity) => void spawned.push(identity),
  };
  const launch: Launch = {
    program: '/usr/bin/sleep',
    argv0: nameOf(host.files.controlSocketPath),
    args: ['600'],
    view: { reads: [], writes: [] },
    memory: { kind: 'anonymous' },
  };
  const fails = async (more: Partial<Launch> = {}, others: Partial<BootOptions> = {}) =>
    await startVmm(host.kind, { ...options, ...others }, { ...launch, ...more }).then(
      () => t.fail('it started'),
      (error) => error,
    );
  const isGone = (): boolean => spawned.every((identity) => !isRunning(identity));
  return { host, options, launch, spawned, disks, fails, isGone };
}

t.test('a VMM is spoken to as soon as it answers, and watched once its guest runs', async (t) => {
  let tries = 0;
  const { host, options, launch, spawned } = setUp(t, ({ on }) => {
    on.connect = () => ++tries === 3;
  });
  const resumed: unknown[] = [];
  const onResumed = () => void resumed.push(1);
  const run = async (): Promise<void> => {
    t.same(host.controls[0]!.calls, ['connect', 'connect', 'connect']);
    host.controls[0]!.calls.push('run');
  };
  const vm = await startVmm(host.kind, { ...options, onResumed }, { ...launch, run });
  t.same(host.controls[0]!.calls.slice(3), ['run', 'watch']);
  const { pid, startTicks } = vm.identity;
  t.strictSame(vm.identity, {
    engine: 'made',
    pid,
    startTicks: readStartTicks(pid),
    bootId: readBootId(),
    paths: host.paths,
    memory: { kind: 'anonymous' },
  });
  t.same(spawned, [vm.identity]);
  t.ok(isRunning({ pid, startTicks }));
  t.same(argumentsOf(pid), [launch.argv0, '600']);
  t.equal(readlinkSync(`/proc/${pid}/cwd`), '/');
  t.equal(host.controls[0]!.options.isAdopted, false);
  t.equal(host.controls[0]!.options.onResumed, onResumed);
  // It outlives our terminal, and is the first to be killed when memory is short.
  const [, , , , , session] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(' ');
  t.equal(session, String(pid));
  t.equal(readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1'), '300\n');
  await vm.kill();
  t.match(vm.exit, { reason: 'stopped', signal: 'SIGKILL', exitCode: null });
  t.notOk(isRunning({ pid, startTicks }));
});

t.test('it has what it inherits, and its words are in its log', async (t) => {
  const { host, options, launch } = setUp(t);
  await using zero = await open('/dev/zero', 'r');
  await using full = await open('/dev/full', 'r');
  writeFileSync(host.files.logPath, 'before\n');
  const script = 'echo out; echo err >&2; exec sleep 600';
  const vm = await startVmm(host.kind, options, {
    ...launch,
    program: '/bin/sh',
    args: ['-c', script],
    inheritedFds: [full.fd, zero.fd],
  });
  const { pid } = vm.identity;
  await until(() => readFileSync(host.files.logPath, 'utf8') === 'before\nout\nerr\n', 'its words');
  t.same(
    [0, 1, 2, 3, 4].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`)),
    ['/dev/null', host.files.logPath, host.files.logPath, '/dev/full', '/dev/zero'],
  );
  await vm.kill();
});

t.test('one that is let go of leaves its files to who has it then', async (t) => {
  const { host, options, launch } = setUp(t);
  const vm = await startVmm(host.kind, options, launch);
  const { pid } = vm.identity;
  vm.detach();
  process.kill(pid, 'SIGKILL');
  // Its exit has been reported by then.
  await until(() => !existsSync(`/proc/${pid}`), 'its end');
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.equal(vm.exit, undefined);
  t.ok(host.files.socketPaths.every((path) => existsSync(path)));
});

t.test('without a jail the VMM is in the network namespace of its guest as well', async (t) => {
  const { host, options, launch } = setUp(t);
  const net = { namespace: '/proc/self/ns/net', mac: 'm', tap: 't' };
  const log = await open('/dev/null', 'r');
  await using _log = log;
  const vm = await startVmm(
    host.kind,
    { ...options, spec: { ...options.spec, net } },
    { ...launch, inheritedFds: [log.fd] },
  );
  const { pid } = vm.identity;
  await until(() => argumentsOf(pid)[0] === '/usr/bin/sleep', 'its program');
  t.same(argumentsOf(pid), ['/usr/bin/sleep', '600']);
  t.equal(readlinkSync(`/proc/${pid}/fd/3`), '/dev/null');
  await vm.kill();
});

t.test('one that ends before it answers says how, and with what in between', async (t) => {
  const { host, fails } = setUp(t, ({ on }) => {
    on.connect = () => false;
  });
  const error = await fails({ program: '/bin/sh', args: ['-c', 'echo no such thing >&2; exit 3'] });
  t.match(error, {
    name: 'AppError',
    code: 'internal',
    message: /^the VMM did not start: the VMM exited with code 3 \(no such thing\)$/,
    details: { stage: 'spawn' },
  });
  t.match(host.lines.at(-1), {
    level: 40,
    msg: 'a VMM did not start',
    reason: error.message,
    diagnosis: 'console: (empty)\nvmm log:\nno such thing',
  });
  t.match(await fails({ program: '/nowhere/vmm' }), {
    code: 'internal',
    message: /^cannot start \/nowhere\/vmm: .*ENOENT.*; is it installed\?$/,
    cause: { code: 'ENOENT' },
  });
});

t.test('a connection that breaks may be the first sign of its end, which says more', async (t) => {
  const setUpEnd = (make: () => Error) =>
    setUp(t, ({ vm, on }) => {
      on.connect = () => {
        process.kill(vm.identity.pid, 'SIGTERM');
        throw make();
      };
    });
  t.match(await setUpEnd(() => new Error('the connection broke')).fails(), {
    message: 'the VMM did not start: the VMM was killed by SIGTERM: the connection broke',
    cause: { message: 'the connection broke' },
  });
  const refused = setUp(t, ({ vm, on }) => {
    on.connect = () => {
      setImmediate(() => process.kill(vm.identity.pid, 'SIGTERM'));
      throw new VmmRefusal('not today');
    };
  });
  t.match(await refused.fails(), { message: /^the VMM did not start: not today$/ }, 'it is no sign');
  const afterEnd = (make: () => Error) =>
    setUp(t, ({ vm, on }) => {
      on.connect = async () => {
        process.kill(vm.identity.pid, 'SIGTERM');
        await once(vm.ended, 'abort');
        throw make();
      };
    });
  t.match(await afterEnd(() => new AppError('internal', 'its own words')).fails(), {
    message: /^the VMM did not start: its own words$/,
  });
  t.match(await afterEnd(() => new VmmRefusal('not today')).fails(), {
    message: 'the VMM did not start: the VMM was killed by SIGTERM: not today',
  });
});

t.test('whatever fails on the way, the process goes, and the error says what it was', async (t) => {
  for (const step of ['connect', 'run', 'watch', 'onSpawn'] as const) {
    const fault = () => Promise.reject(new VmmRefusal(`${step} is refused`));
    const { fails, spawned, isGone, options } = setUp(t, ({ on }) => {
      if (step === 'connect' || step === 'watch') on[step] = fault;
    });
    const onSpawn = async (identity: VmmIdentity) => {
      await options.onSpawn?.(identity);
      if (step === 'onSpawn') await fault();
    };
    const error = await fails(step === 'run' ? { run: fault } : {}, { onSpawn });
    t.equal(error.message, `the VMM did not start: ${step} is refused`);
    t.same(error.details, { stage: 'spawn' });
    t.equal(spawned.length, 1);
    t.ok(isGone(), step);
  }
  const { fails } = setUp(t, ({ vm, on }) => {
    on.watch = () => vm.terminate('the guest powered off');
  });
  t.match(await fails(), { message: /^the VMM did not start: the guest powered off$/ });
});

t.test('who gives it up gets the reason, wherever it was', async (t) => {
  const reason = new Error('the client left');
  for (const step of ['connect', 'run', 'watch', 'before'] as const) {
    const left = new AbortController();
    const leave = (): Promise<never> => {
      left.abort(reason);
      return new Promise(() => undefined);
    };
    const { fails, host, spawned, isGone } = setUp(t, ({ on }) => {
      if (step === 'connect')
        on.connect = (signal: AbortSignal) => {
          void leave();
          signal.throwIfAborted();
        };
      if (step === 'watch') on.watch = leave;
    });
    if (step === 'before') left.abort(reason);
    const run = async (): Promise<void> => (step === 'run' ? left.abort(reason) : undefined);
    t.equal(await fails({ run }, { signal: left.signal }), reason, step);
    t.equal(spawned.length, step === 'before' ? 0 : 1);
    t.ok(isGone());
    if (step === 'before') t.same(host.lines, []);
    else t.match(host.lines, [{ level: 30, msg: 'a VMM did not start', reason: 'the client left' }]);
    if (step === 'run') t.notOk(host.controls[0]!.calls.includes('watch'));
  }
  const { host, options, launch } = setUp(t);
  const vm = await startVmm(host.kind, { ...options, signal: new AbortController().signal }, launch);
  await vm.kill();
});

/** A jail that isolates nothing. */
function makeJail(confirm: (vmm: VmmProcess) => void = () => undefined, program = '/usr/bin/sleep') {
  const asked: CellOptions[] = [];
  const confirmed: number[][] = [];
  mkdirSync(LEASES_DIR, { recursive: true, mode: 0o700 });
  writeFileSync(LEASE, '');
  const jail = {
    enter: async (options: CellOptions) => {
      asked.push(options);
      return { uid: UID, program, args: ['600'] };
    },
    confirm: async ({ uid }: { uid: number }, vmm: VmmProcess) => {
      confirmed.push([uid, vmm.pid]);
      confirm(vmm);
    },
  } as Partial<Jail> as Jail;
  return { jail, asked, confirmed };
}

t.test('in a jail it is started as that says, and makes no new file once its guest runs', async (t) => {
  const { host, options, launch, disks } = setUp(t);
  const { jail, asked, confirmed } = makeJail();
  const [own, file] = [join(host.dir, 'made'), join(host.dir, 'file')];
  mkdirSync(own, { mode: 0o700 });
  writeFileSync(file, '');
  chmodSync(file, 0o600);
  truncateSync(disks[0]!, 90 * MIB);
  truncateSync(disks[1]!, 10 * MIB);
  await using zero = await open('/dev/zero', 'r');
  const view = { reads: ['/r'], writes: [join(host.dir, 'missing'), file, own] };
  const net = { namespace: '/n', mac: 'm', tap: 't' };
  const run = async (): Promise<void> => {
    t.equal(statSync(own).mode & 0o777, 0o700, 'until then it may');
  };
  const given = { ...launch, jail, view, inheritedFds: [zero.fd], run };
  const vm = await startVmm(host.kind, { ...options, spec: { ...options.spec, net } }, given);
  const { program, argv0, args } = launch;
  const common = { program, argv0, args, view, vcpus: 3, memoryMib: 4, descriptors: 4 };
  t.strictSame(asked, [{ ...common, namespace: '/n', maxFileBytes: 10 * MIB }]);
  t.strictSame(vm.identity.jail, { uid: UID });
  t.same(confirmed, [[UID, vm.identity.pid]]);
  t.same(argumentsOf(vm.identity.pid), ['/usr/bin/sleep', '600']);
  t.equal(readlinkSync(`/proc/${vm.identity.pid}/fd/3`), '/dev/zero');
  t.equal(statSync(own).mode & 0o777, 0o711);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.ok(existsSync(LEASE));
  await vm.kill();
  t.notOk(existsSync(LEASE), 'its user is another’s');

  // The largest file is its memory, or the maximum size of its disk.
  const { inheritedFds: _fds, run: _run, ...plain } = given;
  truncateSync(disks[1]!, 1);
  await (await startVmm(host.kind, options, plain)).kill();
  await (await startVmm(host.kind, { ...options, diskBytes: 20 * MIB }, plain)).kill();
  t.match(asked.slice(1), [
    { maxFileBytes: 4 * MIB, descriptors: 3, namespace: undefined },
    { maxFileBytes: 20 * MIB },
  ]);
  const open700 = join(host.dir, 'open');
  mkdirSync(open700, { mode: 0o700 });
  const { jail: _jail, ...free } = plain;
  await (await startVmm(host.kind, options, { ...free, view: { reads: [], writes: [open700] } })).kill();
  t.equal(statSync(open700).mode & 0o777, 0o700, 'without a jail nobody takes it back');
});

t.test('a jail whose VMM does not start is left', async (t) => {
  const pids: number[] = [];
  const { fails } = setUp(t);
  const { jail } = makeJail((vmm) => {
    pids.push(vmm.pid);
    throw new Error('no lease');
  });
  t.match(await fails({ jail }), { message: 'no lease' });
  t.equal(readStartTicks(pids[0]!), undefined, 'it is gone');
  t.notOk(existsSync(LEASE));
  const other = makeJail(undefined, '/nowhere/jail');
  t.match(await fails({ jail: other.jail }), { message: /^cannot start \/nowhere\/jail/ });
  t.notOk(existsSync(LEASE));
  t.same(other.confirmed, []);
});
