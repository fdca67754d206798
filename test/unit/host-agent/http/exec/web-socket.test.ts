// Exec over a WebSocket as its server sees it: what starts the command, what holds either side back, and each way it ends.
import { EventEmitter, getEventListeners } from 'node:events';
import { PassThrough } from 'node:stream';
import { EXEC_FRAME, type ExecRequest, encodeExecFrame } from '@sandboxd/api';
import { pino } from 'pino';
import t from 'tap';
import type { WebSocket } from 'ws';
import { ExecRun } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { serveWebSocket } from '../../../../../host-agent/src/http/exec/web-socket.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { FakeExec } from '../../../../http/fake-sandboxes.ts';
import { decodeFrames, summarize } from '../../../../http/support.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';

class FakeWebSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  isPaused = false;
  readonly sent: Buffer[] = [];
  readonly unsent: (() => void)[] = [];
  closed: [number, string] | undefined;

  send(bytes: Buffer, options: { binary: boolean }, done: () => void): void {
    if (!options.binary) throw new Error('frames are no text');
    this.sent.push(Buffer.from(bytes));
    this.unsent.push(done);
  }

  close(code: number, reason: string): void {
    this.closed ??= [code, reason];
    this.readyState = 2;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }
}

function serve(changes: { start?: (request: ExecRequest) => void; ending?: AbortSignal } = {}) {
  const lines: object[] = [];
  const socket = new FakeWebSocket();
  const connection = new PassThrough();
  const execs: FakeExec[] = [];
  serveWebSocket(socket as unknown as WebSocket, {
    startRun: ({ request }, onDrain) => {
      changes.start?.(request);
      return new ExecRun({
        start: (events) => {
          const exec = new FakeExec(request, events, true);
          execs.push(exec);
          return exec;
        },
        onDrain,
      });
    },
    log: pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    connection,
    ...(changes.ending !== undefined && { ending: changes.ending }),
  });
  const say = (data: unknown, isBinary = true) => socket.emit('message', data, isBinary);
  return { socket, connection, execs, lines, say };
}
const BODY = Buffer.from('{"cmd":["x"]}');
const stdin = (text: string) => encodeExecFrame(EXEC_FRAME.stdin, Buffer.from(text));

t.test('messages of any form begin it and feed it, and a full stdin holds the client back', async (t) => {
  const timers = new FakeClock(t);
  const { socket, execs, say } = serve();
  t.equal(timers.count, 1);
  say([BODY.subarray(0, 4), BODY.subarray(4)], false);
  t.equal(timers.count, 0);
  const [exec] = execs as [FakeExec];
  t.match(exec.request, { cmd: ['x'] });
  say(stdin('a'));
  const bytes = stdin('b');
  say(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  t.equal(exec.stdinText, 'ab');
  t.notOk(socket.isPaused);
  exec.isStdinFull = true;
  say(stdin('c'));
  t.ok(socket.isPaused);
  exec.events.drain?.();
  t.notOk(socket.isPaused);
  t.equal(socket.closed, undefined);
  timers.restore();
});

t.test('frames go out in order, and wait while too much of them is unsent', async (t) => {
  const { socket, execs, say } = serve();
  say(BODY);
  const [exec] = execs as [FakeExec];
  exec.events.started?.(1);
  exec.output('stdout', 'one');
  await settle();
  socket.bufferedAmount = 256 * 1024;
  exec.output('stdout', 'two');
  await settle();
  socket.bufferedAmount += 1;
  exec.output('stdout', 'three');
  await settle();
  exec.output('stdout', 'four');
  await settle();
  t.same(summarize(decodeFrames(Buffer.concat(socket.sent))).stdout, 'onetwothree');
  t.equal(exec.consumedBytes, 0);
  for (const done of socket.unsent.splice(0)) done();
  await settle();
  t.equal(socket.sent.length, 4);
  exec.exit({ exitCode: 3 });
  socket.bufferedAmount = 0;
  for (const done of socket.unsent.splice(0)) done();
  await settle();
  t.match(summarize(decodeFrames(Buffer.concat(socket.sent))), {
    stdout: 'onetwothreefour',
    result: { exit_code: 3 },
  });
  t.equal(exec.consumedBytes, exec.sentBytes);
  t.same(socket.closed, [1000, '']);
});

t.test(
  'an invalid request, or one that cannot start, is closed with as much of the reason as fits',
  async (t) => {
    const text = serve();
    text.socket.isPaused = true;
    text.say('x');
    t.match(text.socket.closed, [1008, /^the body is not valid JSON/]);
    t.notOk(text.socket.isPaused, 'or it would not see the answer to that');
    text.say(BODY);
    t.same(text.execs, [], 'it is closing');
    const refused = serve({
      start: () => {
        throw new AppError('not_found', 'ä'.repeat(100));
      },
    });
    refused.say(BODY);
    t.same(refused.socket.closed, [1011, 'ä'.repeat(61)]);
    t.same(refused.lines, []);
    const broken = serve({
      start: () => {
        throw new Error('secret');
      },
    });
    broken.say(BODY);
    t.same(broken.socket.closed, [1011, 'internal error']);
    t.match(broken.lines, [{ level: 50, err: { message: 'secret' }, msg: 'exec failed' }]);
    const lost = serve();
    lost.say(BODY);
    lost.execs[0]?.exit({ exitCode: -1, isLost: true, error: 'x'.repeat(123) });
    await settle();
    t.same(lost.socket.closed, [1011, 'x'.repeat(123)]);
  },
);

t.test(
  'text behind the first message, or a client that closes or breaks off, ends the command',
  async (t) => {
    const mixed = serve();
    mixed.say(BODY);
    mixed.say(stdin('a'), false);
    t.match(mixed.socket.closed, [1003, /^only binary messages/]);
    t.same([mixed.execs[0]?.isCancelled, mixed.execs[0]?.stdinText], [true, '']);
    const closing = serve();
    closing.say(BODY);
    closing.connection.emit('data', Buffer.from('x'));
    t.equal(closing.execs[0]?.isCancelled, false);
    closing.socket.readyState = 2;
    closing.connection.emit('data', Buffer.from('x'));
    t.equal(closing.execs[0]?.isCancelled, true);
    const early = serve();
    early.socket.readyState = 3;
    early.connection.emit('data', Buffer.from('x'));
    early.socket.emit('close');
    const left = serve();
    left.say(BODY);
    left.socket.emit('error', new Error('reset'));
    left.socket.emit('close');
    t.equal(left.execs[0]?.isCancelled, true);
  },
);

t.test('a stopping daemon closes idle sockets at once, and others after their command', async (t) => {
  const timers = new FakeClock(t);
  const stop = new AbortController();
  const ending = stop.signal;
  const [waiting, running, gone] = [serve({ ending }), serve({ ending }), serve({ ending })];
  gone.socket.emit('close');
  t.equal(getEventListeners(ending, 'abort').length, 2);
  t.equal(timers.count, 2, 'nobody waits for the first message of one that left');
  running.say(BODY);
  stop.abort();
  t.same(waiting.socket.closed, [1001, 'the daemon stops']);
  t.same([running.socket.closed, gone.socket.closed], [undefined, undefined]);
  running.execs[0]?.exit();
  await settle();
  t.same(running.socket.closed, [1001, 'the daemon stops']);
  timers.restore();
});

t.test('a socket without a request for 30 s is closed with the reason', async (t) => {
  const timers = new FakeClock(t);
  const { socket } = serve();
  await timers.pass(29_999);
  t.equal(socket.closed, undefined);
  await timers.pass(1);
  t.match(socket.closed, [1008, /^no exec request came/]);
  const running = serve();
  running.say(BODY);
  await timers.pass(3_600_000);
  t.equal(running.socket.closed, undefined, 'a command may run for longer');
  timers.restore();
});
