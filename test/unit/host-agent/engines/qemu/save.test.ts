// A save from the VMM's side: how long its guest is paused, and what happens after a failure.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import type { GuestMemory, SaveOptions, WrittenVm } from '../../../../../host-agent/src/engines/engine.ts';
import { PAGE_BYTES } from '../../../../../host-agent/src/engines/mapping.ts';
import { applyPageLog } from '../../../../../host-agent/src/engines/page-log.ts';
import { FakeClock } from '../../../../support/fake-clock.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';
import { makeControl, never } from '../../../../support/made-qemu.ts';
import { Pager } from '../../../../support/pager.ts';
import { until } from '../../../../support/until.ts';

/** A guest whose memory is already in the saved file, and whose VMM writes its state. */
async function savable(t: Test, jail?: { uid: number }) {
  const parts = await makeControl(t, jail && { jail });
  const { dir, qemu, connect } = parts;
  await connect();
  writeFileSync(join(dir, 'memory'), 'memory');
  chmodSync(join(dir, 'memory'), 0o600);
  qemu.on['xen-save-devices-state'] = ({ filename }) => writeFileSync(String(filename), 'state');
  const calls: string[] = [];
  const note = (name: string) => async () => void calls.push(name, ...qemu.names.slice(-1));
  const options: SaveOptions = {
    dir,
    memoryBytes: 6,
    beforePause: note('before'),
    whilePaused: note('while'),
    afterPause: () => void calls.push('after'),
  };
  return { ...parts, calls, options };
}

t.test('a save is a pause as short as can be', async (t) => {
  const { control, qemu, dir, seen, calls, options } = await savable(t);
  const clock = new FakeClock(t);
  qemu.on.stop = () => {
    clock.nowMs += 40;
    qemu.say('STOP');
  };
  const saved = await control.save(options);
  t.strictSame(saved, { memoryPath: join(dir, 'memory'), statePath: join(dir, 'state'), pausedMs: 40 });
  clock.restore();
  t.same(qemu.names, ['stop', 'xen-save-devices-state', 'cont']);
  t.same(qemu.commands.at(-2)?.arguments, { filename: join(dir, 'device-state'), live: false });
  t.same(
    calls.filter((name) => !qemu.names.includes(name)),
    ['before', 'while', 'after'],
  );
  t.equal(calls[1], 'while', 'nothing was stopped before');
  t.equal(readFileSync(saved.statePath, 'utf8'), 'state');
  t.equal(statSync(saved.statePath).mode & 0o777, 0o600);
  t.equal(statSync(saved.memoryPath).mode & 0o777, 0o600);
  t.equal(seen.checks, 0, 'it was stopped on purpose');
  qemu.say('STOP');
  await control.ping(1000);
  t.equal(seen.checks, 1, 'and that is over');

  const { beforePause: _before, afterPause: _after, ...least } = options;
  await control.save({ ...least, staysPaused: true });
  t.equal(qemu.count('cont'), 1);
  const killed = async (): Promise<void> => {
    qemu.on['query-status'] = () => qemu.hangUp();
  };
  const commit = async (): Promise<void> => void t.fail('half of a memory is none');
  await t.rejects(control.save({ ...least, staysPaused: true, whilePaused: killed, commit }), {
    message: 'the VMM closed its control socket',
  });
  const jailed = await savable(t, { uid: 1 });
  await jailed.control.save(jailed.options);
  t.equal(statSync(join(jailed.dir, 'memory')).mode & 0o777, 0o644, 'others read it');
});

t.test('after a failed save the guest is resumed before the error is returned', async (t) => {
  const { control, qemu, calls, options, seen } = await savable(t);
  const refusal = (name: string) => () => {
    throw new Error(`${name} is refused`);
  };
  qemu.on.stop = refusal('stop');
  await t.rejects(control.save(options), { message: 'stop: stop is refused' });
  t.same(qemu.names, ['stop', 'cont']);
  t.same(calls, ['before', 'after']);
  qemu.on.stop = () => undefined;
  const gate = Promise.withResolvers<void>();
  const { on } = qemu;
  const { 'xen-save-devices-state': save } = on;
  on['xen-save-devices-state'] = refusal('save');
  let isOver = false;
  const saving = control.save({ ...options, whilePaused: () => gate.promise }).finally(() => {
    isOver = true;
  });
  saving.catch(() => undefined);
  await until(() => qemu.names.at(-1) === 'xen-save-devices-state', 'its request');
  await control.ping(1000);
  t.equal(isOver, false);
  gate.resolve();
  await t.rejects(saving, { message: 'xen-save-devices-state: save is refused' });
  t.equal(qemu.names.at(-1), 'cont');
  on['xen-save-devices-state'] = ({ filename }) => writeFileSync(String(filename), '');
  await t.rejects(control.save(options), { message: 'the VMM has saved no state of its devices' });
  on['xen-save-devices-state'] = save;
  await t.rejects(control.save({ ...options, beforePause: () => Promise.reject(new Error('not now')) }), {
    message: 'not now',
  });
  t.equal(calls.at(-1), 'after');
  on.cont = refusal('cont');
  await t.rejects(control.save(options), { message: 'cont: cont is refused' });
  t.same(seen.verdicts, ['it could not be resumed after it was saved: cont: cont is refused']);
  t.equal(seen.checks, 1, 'its state may say more');
  on.cont = () => qemu.hangUp();
  await t.rejects(control.save(options), { message: 'the VMM closed its control socket' });
  t.match(seen.verdicts[1], /^it could not be resumed after it was saved: the VMM closed/);
  t.equal(seen.checks, 1, 'who hung up is not asked');
});

t.test('a guest that has not answered yet whether it goes on is not given up', async (t) => {
  const { control, qemu, options, seen } = await savable(t);
  qemu.on.cont = never;
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const saving = control.save(options);
  let isOver = false;
  saving
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  await until(() => qemu.count('cont') === 1, 'its request');
  await until(() => {
    mock.timers.tick(10_000);
    return isOver;
  }, 'its patience to end');
  await t.rejects(saving, { message: /^the VMM did not answer cont within/ });
  t.same(seen.verdicts, []);
});

t.test('of a VMM with an earlier copy of its memory, only what has changed since is written', async (t) => {
  const files = mkdtempSync(join(tmpdir(), 'since-'));
  t.teardown(() => rmSync(files, { recursive: true }));
  const memoryBytes = 300 * PAGE_BYTES;
  const [source, copy] = [join(files, 'source'), join(files, 'copy')];
  const content = Buffer.alloc(memoryBytes, 'memory');
  writeFileSync(source, content);
  writeFileSync(copy, Buffer.from(content).fill('old', 7 * PAGE_BYTES, 8 * PAGE_BYTES));
  const save = async (process: { pid: number; memory: GuestMemory }) => {
    const { control, dir, qemu, connect } = await makeControl(t, { process });
    await connect();
    qemu.on['xen-save-devices-state'] = ({ filename }) => writeFileSync(String(filename), 'state');
    let written: WrittenVm | undefined;
    const commit = async (vm: WrittenVm): Promise<void> => {
      written = vm;
    };
    const whilePaused = async (): Promise<void> => undefined;
    await control.save({ dir, memoryBytes, since: copy, whilePaused, staysPaused: true, commit });
    t.match(written, { memoryPath: copy, changesPath: join(dir, 'changes') });
    return written?.changesPath ?? '';
  };

  // As QEMU holds the memory of a guest that was booted.
  const shared = spawn(HELPERS.memfd, ['memory-backend-memfd', source]);
  t.teardown(async () => {
    shared.stdin.end();
    await once(shared, 'exit');
  });
  await once(shared.stdout, 'data');
  const ofShared = await save({ pid: shared.pid ?? 0, memory: { kind: 'anonymous' } });
  t.same(await applyPageLog(ofShared, copy), [{ offset: 7 * PAGE_BYTES, length: PAGE_BYTES }]);
  t.ok(readFileSync(copy).equals(content));

  const pager = await Pager.start(await Pager.compile(files), source, memoryBytes, 'one');
  t.teardown(() => pager.end());
  await pager.write(200 * PAGE_BYTES + 5, 3, 1);
  await pager.write(9 * PAGE_BYTES, 1, content[9 * PAGE_BYTES] ?? 0);
  content.fill(1, 200 * PAGE_BYTES + 5, 200 * PAGE_BYTES + 8);
  const mapped = { kind: 'copy-on-write', path: source } as const;
  const ofMapped = await save({ pid: pager.pid, memory: mapped });
  t.same(await applyPageLog(ofMapped, copy), [{ offset: 200 * PAGE_BYTES, length: PAGE_BYTES }]);
  t.ok(readFileSync(copy).equals(content));
});
