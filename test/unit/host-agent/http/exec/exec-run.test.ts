// An exec between a client and a guest: what frames come of it, what is given back of its credit, and each of its ends.

import { PassThrough } from 'node:stream';
import {
  EXEC_FRAME,
  type ExecRequest,
  encodeExecFrame,
  execFrameHeader,
  MAX_EXEC_PAYLOAD_BYTES,
} from '@sandboxd/api';
import t from 'tap';
import { ExecRun } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { feedFromSocket, sendToSocket } from '../../../../../host-agent/src/http/routes/exec.ts';
import { FakeExec } from '../../../../http/fake-sandboxes.ts';
import { decodeFrames, summarize } from '../../../../http/support.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';
import { drain, start } from './started-run.ts';

/** Whether it has come to an end, one way or the other, by now. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  let state = 'open';
  promise.then(
    () => {
      state = 'done';
    },
    (error: Error) => {
      state = error.message;
    },
  );
  await settle();
  return state;
}

t.test(
  'output becomes frames of the most that one may have, in order, and the result is the last',
  async (t) => {
    const { run, exec, seen } = start();
    t.equal(await stateOf(run.opened), 'open');
    const long = Buffer.alloc(2 * MAX_EXEC_PAYLOAD_BYTES + 1, 'x');
    exec.output('stdout', long);
    t.equal(await stateOf(run.opened), 'done', 'output is a sign of life');
    exec.output('stderr', 'oh');
    exec.exit({ exitCode: 3 });
    t.same(seen.outcomes, [], 'the client first');
    const frames = decodeFrames(await drain(run));
    await settle();
    t.same(frames.map(({ type, payload }) => [type, payload.length]).slice(0, 4), [
      [1, MAX_EXEC_PAYLOAD_BYTES],
      [1, MAX_EXEC_PAYLOAD_BYTES],
      [1, 1],
      [2, 2],
    ]);
    t.match(summarize(frames), {
      stdout: String(long),
      stderr: 'oh',
      result: { exit_code: 3, duration_ms: 1 },
    });
    t.equal(frames.length, 5);
    t.equal(exec.consumedBytes, long.length + 2, 'headers are no credit');
    t.match(seen, { outcomes: [{ exitCode: 3 }], drains: 1 });
    exec.output('stdout', 'late');
    t.equal(exec.consumedBytes, exec.sentBytes, 'nobody wants it');
    t.equal(await run.next(), undefined);
    t.equal(await stateOf(run.opened), 'done');
  },
);

t.test('output of exactly one frame is one frame, no output is no frame, at any write size', async (t) => {
  let exec!: FakeExec;
  const run = new ExecRun({
    start: (events) => {
      exec = new FakeExec({} as ExecRequest, events, false);
      return exec;
    },
  });
  exec.output('stdout', Buffer.alloc(MAX_EXEC_PAYLOAD_BYTES));
  exec.output('stdout', '');
  exec.events.drain?.();
  exec.exit();
  const frames = decodeFrames(await drain(run));
  t.same(
    frames.map(({ type }) => type),
    [EXEC_FRAME.stdout, EXEC_FRAME.exit],
  );
});

t.test('credit goes back as pieces are released, and comes out even', async (t) => {
  const { run, exec } = start();
  exec.output('stdout', Buffer.alloc(100));
  const first = await run.next();
  t.equal(exec.consumedBytes, 0);
  exec.output('stdout', Buffer.alloc(50));
  first?.release();
  t.equal(exec.consumedBytes, 108, 'as many as the piece has, headers too, as long as others wait');
  const second = await run.next();
  exec.output('stdout', Buffer.alloc(10));
  const third = await run.next();
  t.same(
    [first, second, third].map((chunk) => chunk?.bytes.length),
    [108, 58, 18],
  );
  third?.release();
  t.equal(exec.consumedBytes, 126, 'one is still lent');
  second?.release();
  t.equal(exec.consumedBytes, 160);
  const waiting = run.next();
  t.equal(await stateOf(waiting), 'open');
  exec.output('stderr', 'x');
  t.equal(String((await waiting)?.bytes.subarray(8)), 'x');
});

t.test('after the client has left it gets nothing more, and the guest gets its credit', async (t) => {
  const { run, exec } = start();
  const waiting = run.next();
  exec.output('stdout', 'lent');
  const chunk = await waiting;
  exec.output('stdout', 'queued');
  t.equal(await stateOf(run.opened), 'done');
  run.cancel();
  run.cancel();
  t.same(exec.calls, ['cancel']);
  t.equal(exec.consumedBytes, 10, 'once');
  chunk?.release();
  t.equal(exec.consumedBytes, 10);
  exec.output('stdout', 'late');
  t.equal(exec.consumedBytes, 14);
  run.kill();
  run.keepalive();
  t.ok(run.push(encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('x'))));
  t.same([exec.calls, exec.stdin], [['cancel'], []]);
  t.equal(await run.next(), undefined);
  const other = start();
  other.exec.on('consumed', () => t.fail('there is nothing to give back'));
  const open = other.run.next();
  t.equal(await stateOf(open), 'open');
  other.run.cancel();
  t.equal(await open, undefined, 'and does not wait');
  const over = start();
  over.exec.exit();
  over.run.cancel();
  t.same(over.exec.calls, [], 'it is over');
});

t.test('a killed command reports how it ended; one that has ended reports it at once', async (t) => {
  const killed = start();
  killed.run.kill();
  t.same(killed.exec.calls, ['cancel']);
  t.equal(await stateOf(killed.run.opened), 'open');
  killed.exec.exit({ exitCode: -1, signal: 'SIGKILL' });
  t.equal(await stateOf(killed.run.opened), 'done');
  t.match(summarize(decodeFrames(await drain(killed.run))), { result: { signal: 'SIGKILL' } });
  const timers = new FakeClock(t);
  const ended = start();
  const waiting = ended.run.next();
  await timers.pass(5);
  ended.run.end('the daemon stopped', 'cancelled');
  t.equal(await stateOf(ended.run.opened), 'done');
  t.same(ended.exec.calls, ['cancel']);
  const { result } = summarize(decodeFrames((await waiting)?.bytes ?? Buffer.alloc(0)));
  t.match(result, { exit_code: -1, error: 'the daemon stopped', duration_ms: 5 });
  timers.restore();
  ended.exec.exit({ exitCode: 7 });
  await settle();
  t.match(ended.seen.outcomes, [{ exitCode: 7 }], 'what came of it is known all the same');
  t.equal(await ended.run.next(), undefined);
});

t.test('a guest that is lost before its command was seen refuses it, and later ends it', async (t) => {
  const early = start();
  early.exec.exit({ exitCode: -1, isLost: true, error: 'the guest hung up' });
  t.equal(await stateOf(early.run.opened), 'the guest hung up');
  await t.rejects(early.run.opened, { code: 'guest_unreachable' });
  const silent = start();
  silent.exec.exit({ exitCode: -1, isLost: true });
  t.equal(await stateOf(silent.run.opened), 'the guest was lost');
  const late = start();
  late.exec.events.started?.(7);
  late.exec.exit({ exitCode: -1, isLost: true, error: 'the guest hung up' });
  t.equal(await stateOf(late.run.opened), 'done');
  t.match(summarize(decodeFrames(await drain(late.run))), { result: { error: 'the guest hung up' } });
});

t.test('a client that breaks the framing ends its command', async (t) => {
  const { run, exec } = start();
  const header = execFrameHeader(EXEC_FRAME.stdin, 0);
  header.writeUInt32BE(MAX_EXEC_PAYLOAD_BYTES + 1, 4);
  t.ok(run.push(header));
  t.same(exec.calls, ['cancel']);
  t.match(summarize(decodeFrames(await drain(run))).result, {
    exit_code: -1,
    error: /^the client sent a frame of 65537 bytes/,
  });
  const other = start();
  other.exec.write = () => {
    throw new TypeError('a fault');
  };
  t.throws(() => other.run.push(encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('x'))), TypeError);
});

t.test('a poke is a frame of nothing, where nothing else is there to send', async (t) => {
  const { run, exec } = start();
  const waiting = run.next();
  run.keepalive();
  const chunk = await waiting;
  t.same(chunk?.bytes, execFrameHeader(EXEC_FRAME.stdout, 0));
  chunk?.release();
  t.equal(exec.consumedBytes, 0);
  exec.output('stdout', 'x');
  run.keepalive();
  t.equal((await run.next())?.bytes.length, 9);
});

t.test('on a connection of its own: bytes that came early, a full stdin, the client’s end', async (t) => {
  const { run, exec } = start();
  const socket = new PassThrough({ autoDestroy: false });
  const stdin = encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('head'));
  exec.isStdinFull = true;
  feedFromSocket(socket, stdin, run);
  t.equal(exec.stdinText, 'head');
  t.ok(socket.isPaused());
  socket.resume();
  socket.write(encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('!')));
  await settle();
  t.equal(exec.stdinText, 'head!');
  t.ok(socket.isPaused());
  exec.isStdinFull = false;
  socket.resume();
  socket.end();
  await settle();
  t.same(exec.calls, ['cancel']);
  const left = start();
  const other = new PassThrough();
  feedFromSocket(other, Buffer.alloc(0), left.run);
  t.notOk(other.isPaused());
  other.destroy(new Error('reset'));
  await settle();
  t.same(left.exec.calls, ['cancel']);
  t.equal(await left.run.next(), undefined);
  await sendToSocket(other, left.run, 0);
});

t.test('it is answered by a fixed reply, the frames, and an end that is not waited for long', async (t) => {
  const timers = new FakeClock(t);
  const { run, exec } = start();
  exec.output('stdout', 'hello');
  exec.exit();
  const socket = new FakeSocket();
  await sendToSocket(socket, run, 50);
  await settle();
  const [head = '', frames = ''] = socket.said.split('\r\n\r\n');
  t.equal(head, 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream');
  t.match(summarize(decodeFrames(Buffer.from(frames, 'latin1'))), {
    stdout: 'hello',
    result: { exit_code: 0 },
  });
  t.ok(socket.isEnded);
  await timers.pass(49);
  t.notOk(socket.destroyed);
  await timers.pass(1);
  t.ok(socket.destroyed);
  const left = start();
  const gone = new FakeSocket();
  const sending = sendToSocket(gone, left.run, 50);
  await settle();
  gone.destroy();
  await sending;
  t.same(left.exec.calls, ['cancel']);
  t.notOk(gone.isEnded);
  timers.restore();
});
