// QMP commands to a VMM, and the handling of its events.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { bootingQemu, QEMU } from '../../../../../host-agent/src/engines/qemu/control.ts';
import { makeControl } from '../../../../support/made-qemu.ts';
import { serve } from '../../../../support/made-socket.ts';
import { until } from '../../../../support/until.ts';

const soon = (): AbortSignal => AbortSignal.timeout(20_000);

t.test('there is one connection, and it is kept', async (t) => {
  const { control, qemu, seen, connect } = await makeControl(t);
  const none = { code: 'internal', message: 'the VM has no control connection' };
  await t.rejects(control.ping(1000), none);
  await t.rejects(control.resume(), none);
  await control.watch();
  t.equal(seen.checks, 0);
  t.equal(await connect(), true);
  await control.watch();
  t.equal(seen.checks, 1);
  t.equal(await connect(), true);
  await until(() => qemu.sockets.size === 1, 'the end of the one before');
  await until(() => seen.polls === 1, 'that it was noticed');
  t.same(qemu.names, [], 'nothing but the handshake');
  await control.ping(1000);
  t.equal(qemu.count('query-status'), 1);
  await control.resume();
  await control.resizeDisk(1, 4096);
  t.same(qemu.commands.slice(-2), [
    { execute: 'cont', arguments: {} },
    { execute: 'block_resize', arguments: { 'node-name': 'disk1', size: 4096 } },
  ]);
  qemu.hangUp();
  await until(() => seen.polls === 2, 'that it was noticed');
  t.same(seen.verdicts, []);
  qemu.close();
  t.equal(await connect(), false, 'nobody listens');
});

t.test('a VMM that waits for its kernel’s command line gets it once', async (t) => {
  const { control, qemu, connect } = await makeControl(t, { kind: bootingQemu('quiet mine=1') });
  t.equal(bootingQemu('').name, 'qemu');
  await connect();
  t.same(qemu.commands.slice(1), [
    { execute: 'qom-set', arguments: { path: '/machine', property: 'append', value: 'quiet mine=1' } },
    { execute: 'x-exit-preconfig', arguments: {} },
  ]);
  await connect();
  t.equal(qemu.names.length, 2);
  control.close();
  await until(() => qemu.sockets.size === 0, 'its end');
  await connect();
  await until(() => qemu.sockets.size === 0, 'the end of what came too late');
});

t.test('a VMM that waits in accept gets another connection, and the first one is kept', async (t) => {
  const { qemu, connect, seen } = await makeControl(t, { kind: bootingQemu('quiet') });
  const { greeting } = qemu;
  qemu.greeting = '';
  const connecting = connect();
  await until(() => qemu.sockets.size === 1, 'the first connection');
  const [first] = qemu.sockets;
  await until(() => qemu.connections === 2, 'another connection');
  first?.write(greeting);
  t.equal(await connecting, true);
  await until(() => qemu.sockets.size === 1, 'the end of the other one');
  t.equal(qemu.sockets.has(first!), true);
  t.same(qemu.names, ['qom-set', 'x-exit-preconfig']);
  t.same(seen, { ...seen, verdicts: [], polls: 0 });
});

t.test('a VMM that breaks the rules is ended, whenever it does', async (t) => {
  const early = await makeControl(t);
  early.qemu.greeting = 'x'.repeat(300_000);
  await t.rejects(early.connect(), { name: 'QmpViolation' });
  t.match(early.seen.verdicts, [/without a line's end$/]);
  const late = await makeControl(t);
  await late.connect();
  late.qemu.write('x'.repeat(300_000));
  await until(() => late.seen.verdicts.length > 0, 'its verdict');
  t.match(late.seen.verdicts, [/without a line's end$/]);
  t.equal(late.seen.polls, 0);
  const refused = await makeControl(t);
  refused.qemu.on.qmp_capabilities = () => {
    throw new Error('not today');
  };
  await t.rejects(refused.connect(), { name: 'QmpError', message: 'qmp_capabilities: not today' });
  t.same(refused.seen.verdicts, []);
});

t.test('states of a guest are distinguished', async (t) => {
  const { control, qemu, connect, dir, seen } = await makeControl(t);
  await connect();
  const state = (status: unknown) => {
    qemu.on['query-status'] = () => ({ status });
    return control.readState();
  };
  for (const status of ['running', 'inmigrate', 'suspended', 5])
    t.same(await state(status), { kind: 'runs' });
  for (const status of ['paused', 'save-vm', 'prelaunch']) t.same(await state(status), { kind: 'paused' });
  t.equal(control.ioPauseReason, undefined);
  t.same(await state('guest-panicked'), { kind: 'over', reason: 'the guest panicked' });
  t.same(await state('shutdown'), { kind: 'over', reason: 'the guest powered off' });
  const broken = 'the guest cannot run any further on this host: internal error of the VMM';
  t.same(await state('internal-error'), { kind: 'over', reason: broken });
  const detail = async (log: string): Promise<unknown> => {
    writeFileSync(join(dir, 'vmm.log'), log);
    return ((await state('internal-error')) as { reason: string }).reason.slice(broken.length);
  };
  t.equal(
    await detail('other\nKVM: entry failed, hardware error 0x7\nRAX=0\n'),
    ' (KVM: entry failed, hardware error 0x7)',
  );
  t.equal(
    await detail('KVM internal error. Suberror: 1.\nemulation failure\nEAX'),
    ' (KVM internal error. Suberror: 1, emulation failure)',
  );
  t.equal(
    await detail('KVM: unknown exit, hardware reason 31\n'),
    ' (KVM: unknown exit, hardware reason 31)',
  );
  t.equal(await detail('error: kvm run failed Bad address\n'), ' (error: kvm run failed Bad address)');
  t.equal(await detail('x KVM internal error.\n'), '');
  t.equal(((await detail(`KVM: entry failed${'x'.repeat(300)}\n`)) as string).length, 160 + ' ()'.length);
  t.equal(await detail(`KVM: entry failed\n${'line\n'.repeat(1999)}`), ' (KVM: entry failed)');
  t.equal(await detail(`KVM: entry failed\n${'line\n'.repeat(2000)}`), '', 'too long ago');
  t.equal(await detail(`KVM: entry failed\n${'x'.repeat(200_000)}\n`), ' (KVM: entry failed)');
  t.same(
    await state('shutdown'),
    { kind: 'over', reason: 'the guest powered off' },
    'whatever is in the log',
  );
  qemu.say('SHUTDOWN', { reason: 'guest-reset' });
  await control.ping(1000);
  t.same(
    await state('shutdown'),
    { kind: 'over', reason: 'the guest reset itself' },
    'what it said says more',
  );
  t.same(await state('io-error'), { kind: 'runs' });
  t.match(control.ioPauseReason, /\(an input\/output error\); it is paused until it does$/);
  t.match(seen.causes, [/\(an input\/output error\)$/]);
  seen.isOver = true;
});

t.test('the cause of a VMM’s end is the last event of its guest', async (t) => {
  for (const [event, data, reason] of [
    ['SHUTDOWN', { reason: 'guest-panic' }, 'the guest panicked'],
    ['GUEST_PANICKED', {}, 'the guest panicked'],
    ['SHUTDOWN', { reason: 'guest-shutdown' }, 'the guest powered off'],
    ['SHUTDOWN', { reason: 'guest-reset' }, 'the guest reset itself'],
    ['SHUTDOWN', { reason: 'host-signal' }, undefined],
    ['SHUTDOWN', {}, undefined],
  ] as const) {
    const { control, qemu, connect } = await makeControl(t);
    await connect();
    qemu.say('NIC_RX_FILTER_CHANGED', { reason: 'guest-panic' });
    await control.ping(1000);
    t.equal(await control.isEnding(), false);
    t.equal(await control.explainExit(null), undefined);
    qemu.say(event, data);
    await control.ping(1000);
    t.equal(await control.isEnding(), true);
    t.equal(await control.explainExit(0), reason);
  }
});

t.test('a write that fails because the host’s disk is full pauses the guest', async (t) => {
  const { control, qemu, connect, seen } = await makeControl(t);
  await connect();
  qemu.say('BLOCK_IO_ERROR', { action: 'report', reason: 'No space left on device' });
  qemu.say('OTHER', { action: 'stop', reason: 'No space left on device' });
  await control.ping(1000);
  t.equal(control.ioPauseReason, undefined);
  qemu.say('BLOCK_IO_ERROR', { action: 'stop', reason: 'X'.repeat(300) });
  await control.ping(1000);
  t.match(seen.causes, [/\(x{200}\)$/]);
  qemu.status = 'io-error';
  qemu.on.cont = () => {
    qemu.status = 'running';
  };
  await until(() => control.ioPauseReason === undefined, 'its going on');
  t.equal(qemu.count('cont'), 1);
  t.equal(seen.resumed, 1);
  qemu.say('BLOCK_IO_ERROR', { action: 'stop' });
  await control.ping(1000);
  t.match(seen.causes[1], /\(an input\/output error\)$/);
  seen.isOver = true;
});

t.test('a guest that was stopped is asked about, but not for each word of it', async (t) => {
  const { control, qemu, connect, seen, vm } = await makeControl(t);
  await connect();
  const gates: { resolve: () => void; reject: (cause: Error) => void }[] = [];
  vm.checkState = async () => {
    seen.checks += 1;
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
    return { kind: 'runs' };
  };
  qemu.say('RESUME');
  await control.ping(1000);
  t.equal(seen.checks, 0);
  for (let n = 0; n < 5; n++) qemu.say('STOP');
  await control.ping(1000);
  t.equal(seen.checks, 2);
  gates[0]!.reject(new Error('it does not answer'));
  gates[1]!.resolve();
  await control.ping(1000);
  qemu.say('STOP');
  await control.ping(1000);
  t.equal(seen.checks, 3);
});

t.test('only the first connection of all to the agent finds nothing of another in the port', async (t) => {
  for (const isAdopted of [false, true]) {
    const { control, dir } = await makeControl(t, { isAdopted });
    await t.rejects(control.openChannel(soon()));
    await serve(t, join(dir, 'agent.sock'), () => undefined);
    const needs: boolean[] = [];
    for (let n = 0; n < 2; n++) {
      const { link, needsResync } = await control.openChannel(soon());
      needs.push(needsResync);
      link.start({ data: () => undefined, drain: () => undefined, close: () => undefined });
      link.destroy();
    }
    t.same(needs, [isAdopted, true]);
  }
});

t.test('a guest without waiting callers is paused and resumed as well', async (t) => {
  const { vm, qemu, seen } = await makeControl(t);
  const control = QEMU.control(vm, { log: pino({ level: 'silent' }), isAdopted: true });
  t.teardown(() => control.close());
  await control.connect(soon());
  qemu.status = 'io-error';
  t.same(await control.readState(), { kind: 'runs' });
  t.match(control.ioPauseReason, /it is paused until it does$/);
  qemu.status = 'running';
  await until(() => control.ioPauseReason === undefined, 'its going on');
  t.same(seen.causes, []);
});
