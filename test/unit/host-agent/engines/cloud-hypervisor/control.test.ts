// The control of a VMM whose guest runs, with a fake API.
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { VmmApi } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import {
  cloudHypervisor,
  connectGuest,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/control.ts';
import { EventTail, readEvents } from '../../../../../host-agent/src/engines/cloud-hypervisor/events.ts';
import { vmmFiles } from '../../../../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { serve } from '../../../../support/made-socket.ts';
import { serveVmm } from '../../../../support/made-vmm-api.ts';
import { until } from '../../../../support/until.ts';

const log = pino({ level: 'silent' });
const CALL = { timeoutMs: 60_000 };

/** The reasons of terminated VMs, and a control. */
async function makeControl(t: Test, { isOver = false } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'control-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const paths = { dir: join(dir, 'own'), socketDir: join(dir, 'sockets') };
  for (const path of Object.values(paths)) mkdirSync(path);
  const files = vmmFiles(paths);
  const lost: string[] = [];
  const end = new AbortController();
  const kind = cloudHypervisor('/bin/true');
  const vm = {
    identity: { pid: process.pid, startTicks: 0, paths, memory: { kind: 'anonymous' } },
    isOver,
    ended: end.signal,
    terminate: async (reason: string) => void lost.push(reason),
  };
  const control = kind.control(vm as never, { log, isAdopted: false });
  t.teardown(() => control.close());
  const tell = (source: string, event: string): void =>
    appendFileSync(files.eventsPath, `${JSON.stringify({ source, event }, null, 2)}\n\n`);
  return { dir, kind, control, files, vm, lost, end, tell };
}

t.test('a VMM is reached when it answers as the process that was started', async (t) => {
  const { control, files, kind } = await makeControl(t);
  const signal = new AbortController().signal;
  t.equal(await control.connect(signal), false, 'nobody listens yet');
  const vmm = await serveVmm(t, files.controlSocketPath);
  t.equal(await control.connect(signal), true);
  t.equal(control.ioPauseReason, undefined);
  t.match(await control.ping(60_000), { pid: process.pid });
  vmm.answers['vmm.ping'] = () => ({ version: '53', pid: 7 });
  await t.rejects(control.connect(signal), {
    message: `process 7 answers on the control socket of process ${process.pid}`,
  });
  t.match(kind, { name: 'cloud-hypervisor', unbatched: 'all-threads', answerTimeoutMs: 600_000 });
});

t.test('requests have a body or none, and answers are objects', async (t) => {
  const { files } = await makeControl(t);
  const vmm = await serveVmm(t, files.controlSocketPath);
  const api = new VmmApi(files.controlSocketPath);
  vmm.answers['vmm.ping'] = () => ({ version: 53, pid: '7' });
  vmm.answers['vm.info'] = () => ({ state: 'Running', more: 1 });
  t.same(await api.ping(CALL), { version: '53', pid: 7 });
  t.same(await api.info(CALL), { state: 'Running' });
  await api.put('vm.boot', undefined, CALL);
  await api.put('vm.snapshot', { destination_url: 'x'.repeat(51_178) }, CALL);
  await t.rejects(api.put('vm.snapshot', { destination_url: 'x'.repeat(51_179) }, CALL), {
    code: 'invalid_argument',
    message: 'vm.snapshot would have 51201 bytes, and the VMM takes 51200; shorten the boot arguments',
  });
  t.same(
    vmm.asked.map(({ endpoint, body }) => [endpoint, body === undefined]),
    [
      ['vm.info', true],
      ['vm.boot', true],
      ['vm.snapshot', false],
    ],
  );
  const raw = join(files.dir, 'raw');
  const seen: string[] = [];
  let answer = '';
  await serve(t, raw, (socket) =>
    socket.on('data', (bytes) => {
      seen.push(bytes.toString('latin1'));
      socket.write(answer);
    }),
  );
  const of = (status: number, body: string): string =>
    `HTTP/1.1 ${status} x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const other = new VmmApi(raw);
  for (const [body, shown] of [
    ['null', 'null'],
    ['7', '7'],
    ['"x"', '"x"'],
    ['no', 'no'],
    [`"${'y'.repeat(300)}"`, `"${'y'.repeat(199)}`],
  ] as const) {
    answer = of(200, body);
    await t.rejects(other.info(CALL), {
      message: new RegExp(`^vm\\.info: the answer is not an object: ${shown}$`),
    });
    await t.rejects(other.ping(CALL), {
      message: new RegExp(`^vmm\\.ping: the answer is not an object: ${shown}$`),
    });
  }
  for (const status of [200, 204, 299]) {
    answer = status === 204 ? 'HTTP/1.1 204 x\r\n\r\n' : of(status, '');
    await other.put('vm.pause', undefined, CALL);
  }
  for (const status of [300, 404, 500]) {
    answer = of(status, '["no"]');
    await t.rejects(other.put('vm.pause', undefined, CALL), { name: 'ApiError', status, reasons: ['no'] });
  }
  answer = of(200, `{"state":"${'x'.repeat(512 * 1024)}"}`);
  await t.rejects(other.info(CALL), { code: 'UND_ERR_RES_EXCEEDED_MAX_SIZE' });
  answer = of(200, `{"state":"${'x'.repeat(512 * 1024 - 12)}"}`);
  t.equal((await other.info(CALL)).state.length, 512 * 1024 - 12);
  answer = of(200, '{}');
  await other.put('vm.resize-disk', { id: 'disk1', desired_size: 5 }, CALL);

  t.match(seen[0], /^GET \/api\/v1\/vm\.info HTTP\/1\.1\r\n/);
  t.match(seen[0], /\r\naccept: application\/json\r\n/i);
  t.notMatch(seen[0], /content-type|content-length: [1-9]/i);
  t.match(seen.join(''), /content-type: application\/json\r\ncontent-length: 31\r\n/i);
  const controller = new AbortController();
  answer = '';
  const waiting = other.info({ ...CALL, signal: controller.signal });
  const before = seen.length;
  await until(() => seen.length > before);
  controller.abort(new Error('enough'));
  await t.rejects(waiting, { message: 'enough' });
  await t.rejects(other.info({ timeoutMs: 1 }), {
    code: 'internal',
    message: /did not answer vm\.info within \d+ ms/,
  });
});

t.test('what a guest is at is what its VMM says', async (t) => {
  const { control, files, lost } = await makeControl(t);
  const vmm = await serveVmm(t, files.controlSocketPath);
  for (const [state, expected] of [
    ['Running', { kind: 'runs' }],
    ['Paused', { kind: 'paused' }],
    ['Shutdown', { kind: 'over', reason: 'the guest powered off' }],
    ['Created', { kind: 'over', reason: 'the guest powered off' }],
  ] as const) {
    vmm.answers['vm.info'] = () => ({ state });
    t.same(await control.readState(), expected);
  }
  vmm.answers['vm.info'] = () => ({ status: 404, reasons: [] });
  t.same(await control.readState(), { kind: 'over', reason: 'the VMM has no VM any more' });
  vmm.answers['vm.info'] = () => ({ reasons: ['busy'] });
  await t.rejects(control.readState(), { message: 'vm.info: busy' });
  vmm.takeAsked();
  await control.resume();
  await control.resizeDisk(1, 4096);
  t.same(vmm.asked, [
    { endpoint: 'vm.resume', body: undefined },
    { endpoint: 'vm.resize-disk', body: { id: 'disk1', desired_size: 4096 } },
  ]);
  t.same(lost, []);
});

t.test('callers that wait for a VMM that is gone get an error', async (t) => {
  const { control, files, end } = await makeControl(t);
  const vmm = await serveVmm(t, files.controlSocketPath);
  for (const endpoint of ['vm.info', 'vm.resume']) vmm.answers[endpoint] = () => 'silence';
  const waiting: Promise<unknown>[] = [control.readState(), control.resume(), control.openChannel()];
  for (const each of waiting) each.catch(() => undefined);
  await until(() => vmm.asked.length === 2);
  end.abort(new Error('the VM ended'));
  for (const each of waiting) await t.rejects(each as Promise<void>, { message: 'the VM ended' });
});

t.test('a guest that is over is given up, as its events say', async (t) => {
  for (const [event, reason] of [
    [['vm', 'rebooting'], 'the guest reset itself'],
    [['guest', 'panic'], 'the guest panicked'],
  ] as const) {
    const { control, tell, lost } = await makeControl(t);
    tell('vm', 'booted');
    await control.watch();
    t.same(lost, []);
    t.equal(await control.isEnding(), false);
    tell(event[0], event[1]);
    await until(() => lost.length > 0);
    t.equal(lost[0], reason);
    t.equal(await control.isEnding(), false);
  }
  const early = await makeControl(t);
  early.tell('vm', 'rebooting');
  await early.control.watch();
  t.same(early.lost, ['the guest reset itself'], 'what was told before counts');
  const over = await makeControl(t, { isOver: true });
  over.tell('vm', 'rebooting');
  await over.control.watch();
  over.tell('guest', 'panic');
  await over.control.isEnding();
  t.same(over.lost, [], 'nothing more is to be done of one that is over');
});

t.test('a VMM whose guest powered off has a while to end by itself', async (t) => {
  const { control, tell, lost } = await makeControl(t);
  const closed = await makeControl(t);
  for (const each of [closed, { control, tell }]) {
    await each.control.watch();
    each.tell('vm', 'shutdown');
    await each.control.openChannel(AbortSignal.abort(new Error('enough'))).catch(() => undefined);
    t.equal(await each.control.isEnding(), true);
  }
  t.same(lost, []);
  closed.control.close();
  await until(() => lost.length > 0, 'the end of its time', 60_000);
  t.same(lost, ['the guest powered off']);
  t.same(closed.lost, [], 'one that nobody watches is left alone');
});

t.test('why a VMM ended is in its events, or in how it ended', async (t) => {
  const { control, tell } = await makeControl(t);
  t.equal(await control.explainExit(1), undefined);
  t.equal(await control.explainExit(null), undefined);
  t.equal(await control.explainExit(0), 'the guest powered off');
  tell('vmm', 'shutdown');
  t.equal(await control.explainExit(1), 'the guest powered off');
  tell('vm', 'rebooting');
  t.equal(await control.explainExit(0), 'the guest reset itself');
});

t.test('a channel is a connection to the agent, tried until it is there', async (t) => {
  const { control, files, tell, lost } = await makeControl(t);
  const asked: string[] = [];
  const answers = ['', 'NO\n', 'OK 7', 'OK x\n', 'xOK 7\n', 'OK 7\n'];
  const opening = control.openChannel(new AbortController().signal);
  await serve(t, files.vsockPath, (socket) =>
    socket.on('data', (bytes) => {
      asked.push(bytes.toString());
      const answer = answers.shift() ?? '';
      if (answer.endsWith('\n')) socket.write(answer);
      else socket.end(answer);
    }),
  );
  const { link, needsResync } = await opening;
  t.equal(needsResync, false);
  link.destroy();
  t.same(asked, Array(6).fill(`CONNECT ${AGENT_VSOCK_PORT}\n`));
  const given = AbortSignal.abort(new Error('enough'));
  await t.rejects(control.openChannel(given), { message: 'enough' });
  await t.rejects(connectGuest(files.vsockPath, 7, given), { message: 'enough' });
  tell('guest', 'panic');
  answers.push('OK 7\n');
  (await control.openChannel()).link.destroy();
  t.same(lost, ['the guest panicked'], 'events are looked at first');
});

t.test('events are followed from one reading to the next', async (t) => {
  const { files, tell } = await makeControl(t);
  const { eventsPath: path } = files;
  using events = new EventTail(path);
  t.same(await events.read(), [], 'there is no file yet');
  t.same(await readEvents(path), []);
  tell('vm', 'shutdown');
  tell('vm', 'booted');
  t.same(await events.read(), [{ source: 'vm', event: 'shutdown' }]);
  t.equal((await readEvents(path)).length, 2);
  // An event that is split between two reads is parsed as a whole.
  const text = JSON.stringify({ source: 'guest', event: 'panic' });
  appendFileSync(path, text.slice(0, 10));
  t.equal((await events.read()).length, 1);
  appendFileSync(path, `${text.slice(10)}\n\n`);
  t.match(await events.read(), [{}, { source: 'guest', event: 'panic' }]);
  tell('x', 'restoring');
  tell('vm', 'x');
  t.equal((await events.read()).length, 2);
  tell('vm', 'restoring');
  t.same(await events.read(), [], 'what a restore that failed left does not count');
  for (let round = 0; round < 6; round++) tell('vm', 'deleted');
  t.equal((await events.read()).length, 4);
  const [one, two] = [events.read(), events.read()];
  t.same(await one, await two);
  // Only the end of what was added since the last read is read.
  tell('vm', 'restoring');
  t.same(await events.read(), []);
  tell('vm', 'rebooting');
  appendFileSync(path, '{}\n\n'.repeat(64 * 1024));
  t.same(await events.read(), []);
  appendFileSync(path, `{}\n\n${'{}\n\n'.repeat(20 * 1024)}`);
  tell('vmm', 'shutdown');
  t.same(await events.read(), [{ source: 'vmm', event: 'shutdown' }], 'in several pieces');
  appendFileSync(path, 'x'.repeat(70_000));
  await events.read();
  tell('vm', 'rebooting');
  appendFileSync(path, '\n\n');
  tell('vm', 'deleted');
  t.match(await events.read(), [{}, { event: 'deleted' }], 'and one without end harms no other');
});

t.test('events are delivered until the control is closed', async (t) => {
  const { files, tell } = await makeControl(t);
  const { eventsPath: path } = files;
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  using events = new EventTail(path);
  const seen = { first: 0, second: 0 };
  events.watch(() => void seen.first++);
  await until(() => seen.first > 0, 'a file that is not there yet is looked at from time to time');
  writeFileSync(path, '');
  events.watch(() => void seen.second++);
  tell('vm', 'booted');
  await until(() => seen.second > 0);
  const before = { ...seen };
  tell('vm', 'booted');
  await until(() => seen.second > before.second);
  t.equal(seen.first, before.first, 'who watched before is told no more');
  events[Symbol.dispose]();
  const after = { ...seen };
  using other = new EventTail(path);
  let count = 0;
  other.watch(() => void count++);
  tell('vm', 'booted');
  await until(() => count > 0);
  t.same(seen, after);
});
