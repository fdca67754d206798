// Detached commands of the agent, on real processes of this machine over a real socket.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CommandStatus, FLOW } from '@sandboxd/proto';
import t from 'tap';
import { until } from '../../../support/until.ts';
import {
  Attached,
  ask,
  attach,
  call,
  detach,
  isAlive,
  list,
  PATH,
  TAKE,
  WRITE,
  waitFor,
} from '../support/detached.ts';
import { run, startLocalAgent } from '../support/local-agent.ts';

if (process.getuid?.() !== 0) t.bailout('the agent runs as root: run these tests as root');

t.test('a detached command outlives its connection, and gives its output to whoever asks', async (t) => {
  const agent = startLocalAgent(t);
  const first = await agent.connect('one');
  const dir = t.testdir();
  const script = `echo one; echo two >&2; until [ -e ${dir}/go ]; do sleep 0.05; done; echo three; exit 5`;
  const command = await detach(first, script);
  t.match(command, { detached: true, stdin: false });
  t.ok(command.pid > 1 && command.startedUnixMs > 0);
  const before = attach(first, command);
  await until(() => before.text.includes('one') && before.text.includes('two'), 'its output');
  await agent.connect('one');
  await agent.connect('a fork');
  agent.sockets[0]?.destroy();
  await t.rejects(before.end.promise, /lost/);
  const second = await agent.connect('one');
  t.match(await list(second), [{ id: command.id, pid: command.pid }]);
  const nextSeq = (before.seqs.at(-1) ?? 0) + 1;
  const after = attach(second, command, { fromSeq: nextSeq });
  const all = attach(second, command);
  const result = waitFor(second, command);
  writeFileSync(join(dir, 'go'), '');
  t.match(await result, { result: { exitCode: 5, usage: {} }, output: { firstSeq: 0 } });
  const end = await after.end.promise;
  t.equal(after.text, 'three\n');
  t.match(end, { status: { result: { exitCode: 5 } } });
  await all.end.promise;
  t.same(
    all.records.flatMap((each) => (each.kind === 'output' ? [`${each.stream} ${each.data}`] : [])).sort(),
    ['stderr two\n', 'stdout one\n', 'stdout three\n'],
  );
  const late = attach(second, command, { follow: false });
  await late.end.promise;
  t.equal(late.text, all.text, 'also after its end');
  t.same(agent.faults, []);
});

t.test('output is whole, in order, and has no gap for readers that come and go', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const command = await detach(channel, 'i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done', {
    outputBufferBytes: 4_000_000,
  });
  let from = 0;
  let text = '';
  for (let n = 0; n < 20; n++) {
    const part = attach(channel, command, { fromSeq: from, follow: false });
    const { nextSeq } = await part.end.promise;
    t.same(
      part.seqs,
      part.seqs.map((_, index) => from + index),
    );
    from = nextSeq;
    text += part.text;
  }
  const rest = attach(channel, command, { fromSeq: from });
  await rest.end.promise;
  const lines = Array.from({ length: 3000 }, (_, n) => `line ${n}\n`).join('');
  t.equal(text + rest.text, lines);
  const future = attach(channel, command, { fromSeq: 2 ** 50 });
  t.equal((await future.end.promise).nextSeq, from + rest.seqs.length, 'beyond the end is the end');
});

t.test('what a ring has dropped is counted', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const command = await detach(channel, 'head -c 3000000 /dev/zero', { outputBufferBytes: 100_000 });
  await waitFor(channel, command);
  const { records, end } = attach(channel, command);
  await end.promise;
  const gap = records.find((record) => record.kind === 'gap');
  const bytes = records.reduce((sum, each) => sum + (each.kind === 'output' ? each.data.length : 0), 0);
  t.equal(gap?.kind === 'gap' ? gap.bytes + bytes : 0, 3_000_000);
});

t.test('input stays open between clients, one of which writes at a time', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const command = await detach(channel, 'cat', { stdin: true });
  t.equal(command.stdin, true);
  const put = (text: string, closesInput = false): Attached => {
    const input = new Attached(channel, { id: command.id, noOutput: true, input: WRITE, closesInput });
    input.write(text, true);
    return input;
  };
  await put('a').end.promise;
  const writer = attach(channel, command, { input: WRITE });
  await until(() => writer.text === 'a', 'what came before it');
  writer.write('b');
  await until(() => writer.text === 'ab', 'its own');
  const reader = attach(channel, command);
  await t.rejects(put('x').end.promise, { code: 'conflict' });
  const taker = attach(channel, command, { input: TAKE });
  taker.write('c');
  await until(() => reader.text === 'abc', 'the new writer’s');
  writer.write('lost');
  writer.stream.cancel();
  taker.stream.cancel();
  await Promise.all([writer.end.promise, taker.end.promise]);
  await put('d', true).end.promise;
  await reader.end.promise;
  t.equal(reader.text, 'abcd', 'the input of who lost its right is discarded');
  t.match(await waitFor(channel, command), { stdin: false, result: { exitCode: 0 } });
  await t.rejects(put('x').end.promise, { code: 'conflict' });
  t.same(agent.faults, []);
});

t.test('much input waits for the command, and its credit comes back to whom it is due', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const dir = t.testdir();
  const script = `until [ -e ${dir}/go ]; do sleep 0.05; done; wc -c`;
  const command = await detach(channel, script, { stdin: true });
  const size = 2_000_000;
  const first = attach(channel, command, { input: WRITE });
  let sent = 0;
  first.stream.setSource(FLOW.in, (maxBytes) => {
    const part = Buffer.alloc(Math.min(maxBytes, size - sent), 1);
    sent += part.length;
    return part.length > 0 ? part : null;
  });
  first.stream.ready(FLOW.in);
  await until(() => first.stream.sendCredit < 1000 || sent === size, 'its credit to end');
  const second = attach(channel, command, { input: TAKE });
  second.write('end');
  writeFileSync(join(dir, 'go'), '');
  await until(() => sent === size, 'the rest of the first, which is discarded');
  second.stream.end(FLOW.in);
  t.match(await waitFor(channel, command), { result: { exitCode: 0 } });
  await second.end.promise;
  t.ok(Number(second.text) >= 700_000 && Number(second.text) < size, second.text);
  t.same(agent.faults, []);
});

t.test('a terminal is left and taken up again, with its size', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const script = 'trap "stty size" WINCH; stty size; while :; do read -r line && echo got $line; done';
  const command = await detach(channel, script, { tty: { cols: 80, rows: 24 }, stdin: true });
  const first = attach(channel, command, { input: WRITE });
  await until(() => first.text.includes('24 80'), 'its size');
  first.stream.cancel();
  await first.end.promise;
  const second = attach(channel, command, { input: WRITE });
  second.stream.resize({ cols: 80, rows: 24 });
  await until(() => (second.text.match(/24 80/g) ?? []).length > 1, 'it to be told although nothing changed');
  await call(channel, { id: command.id, resize: { cols: 100, rows: 30 } });
  await until(() => second.text.includes('30 100'), 'a new size');
  t.match(await list(channel), [{ tty: { cols: 100, rows: 30 } }]);
  second.write('hello\n');
  await until(() => second.text.includes('got hello'), 'its input');
  second.stream.end(FLOW.in);
  second.stream.signal('SIGKILL');
  t.match(await second.end.promise, { status: { result: { signal: 'SIGKILL' } } });
});

t.test('a kill is SIGTERM, and SIGKILL to all after the grace', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const polite = await detach(channel, 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done');
  const ready = attach(channel, polite);
  await until(() => ready.text.includes('ready'), 'its trap');
  t.match(await call(channel, { id: polite.id, kill: { graceMs: 60_000 } }), { result: { exitCode: 9 } });
  const deaf = await detach(channel, 'trap "" TERM; echo ready; while :; do sleep 0.05; done');
  const deafReady = attach(channel, deaf);
  await until(() => deafReady.text.includes('ready'), 'its trap');
  t.match(await call(channel, { id: deaf.id, kill: { graceMs: 100 } }), { result: { signal: 'SIGKILL' } });
  t.match(await call(channel, { id: deaf.id, kill: {} }), { result: { signal: 'SIGKILL' } }, 'once more');
  await t.rejects(call(channel, { id: deaf.id, signal: { name: 'SIGINT' } }), { code: 'conflict' });
  await t.rejects(call(channel, { id: 'nobody', wait: {} }), { code: 'not_found' });
  const signalled = await detach(channel, 'exec sleep 600');
  await call(channel, { id: signalled.id, signal: { name: 'SIGUSR1' } });
  t.match(await waitFor(channel, signalled), { result: { signal: 'SIGUSR1' } });
});

t.test('a command that cannot start has a result, too', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const { command } = await ask(channel, { exec: { cmd: ['nope'], env: [PATH], id: 'no', detach: true } });
  t.match(command, { pid: 0, result: { exitCode: -1, error: /not found/ } });
  const { records, end } = attach(channel, command as CommandStatus);
  t.match(await end.promise, { nextSeq: 0 });
  t.match(records, [{ kind: 'ring', seq: 0 }]);
});

t.test('attached commands are listed, can be signalled, and keep their output to themselves', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect('one');
  const running = run(channel, ['sleep', '600'], { id: 'attached' });
  const pid = await running.started;
  t.match(await list(channel), [
    { id: 'attached', pid, detached: false, stdin: false, cmd: ['sleep', '600'] },
  ]);
  await t.rejects(attach(channel, { id: 'attached' } as CommandStatus).end.promise, { code: 'conflict' });
  await call(channel, { id: 'attached', signal: { name: 'SIGTERM' } });
  t.match(await running.done, { exec: { signal: 'SIGTERM' } });
  const lost = run(channel, ['sleep', '601'], { id: 'lost' });
  const lostPid = await lost.started;
  lost.done.catch(() => undefined);
  const again = await agent.connect('one');
  await until(() => !isAlive(lostPid), 'it to end with its client');
  t.match(await waitFor(again, { id: 'lost' } as CommandStatus), { result: { signal: 'SIGKILL' } });
  const [first, second] = await list(again);
  t.match([first?.id, second?.id], ['attached', 'lost']);
});

t.test('descriptors and cgroups are given back', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  for (let n = 0; n < 30; n++)
    await waitFor(channel, await detach(channel, 'echo x', { stdin: n % 2 === 0 }));
  t.equal(agent.cgroups.inUse, 0);
});
