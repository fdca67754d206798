// Bytes on their way to a client, at its pace: straight to its connection or as a web stream, and what ends them.
import { IncomingMessage, ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { pino } from 'pino';
import t from 'tap';
import type { HttpContext, HttpEnv } from '../../../../../host-agent/src/http/context.ts';
import { ImageLines } from '../../../../../host-agent/src/http/routes/images.ts';
import {
  answerDirectly,
  answerPullStream,
  sendKeepalive,
  writePullStream,
} from '../../../../../host-agent/src/http/server/responses.ts';
import { type Sample, StatsStream } from '../../../../../host-agent/src/http/stats-stream.ts';
import type { Chunk, PullStream } from '../../../../../host-agent/src/lib/byte-queue.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';

/** Pieces as a test gives them, an Error to break off, undefined to end; what is released and cancelled. */
function source() {
  const seen = { released: 0, cancels: 0, pokes: 0, asked: 0 };
  const given: (string | Error | undefined)[] = [];
  let wake: () => void = () => undefined;
  const flow: PullStream = {
    async next(): Promise<Chunk | undefined> {
      seen.asked += 1;
      if (given.length === 0)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      const piece = given.shift();
      if (piece instanceof Error) throw piece;
      if (piece === undefined) return undefined;
      return { bytes: Buffer.from(piece), release: () => void seen.released++ };
    },
    cancel: () => {
      seen.cancels += 1;
      wake();
    },
    keepalive: () => void seen.pokes++,
  };
  const give = (...pieces: (string | Error | undefined)[]) => {
    given.push(...pieces);
    wake();
  };
  return { flow, seen, give };
}

/** A connection that takes a write when the test says so. */
function sink(highWaterMark = 4) {
  const taken: string[] = [];
  const waiting: (() => void)[] = [];
  const target = new Writable({
    highWaterMark,
    write: (chunk, _, done) => {
      taken.push(String(chunk));
      waiting.push(done);
    },
  });
  target.on('error', () => undefined);
  const take = () => {
    for (const done of waiting.splice(0)) done();
  };
  return { target, taken, take };
}

t.test('chunks are written in order, and wait for the connection', async (t) => {
  const { flow, seen, give } = source();
  const { target, taken, take } = sink();
  const writing = writePullStream(target, flow);
  give('one');
  await settle();
  t.same(taken, ['one']);
  t.equal(seen.asked, 2, 'there is room for more');
  t.equal(seen.released, 0);
  give('twothree');
  await settle();
  t.equal(seen.asked, 2, 'there is none');
  take();
  await settle();
  t.equal(seen.released, 1);
  take();
  await settle();
  t.same([seen.asked, seen.released, taken], [3, 2, ['one', 'twothree']]);
  sendKeepalive(target);
  t.equal(seen.pokes, 1);
  give(undefined);
  await writing;
  t.equal(target.listenerCount('close') + target.listenerCount('drain'), 0);
  sendKeepalive(target);
  t.same([seen.pokes, seen.cancels], [1, 0], 'it is over');
});

t.test('a closed connection cancels its stream, in every state', async (t) => {
  const gone = source();
  const { target } = sink();
  target.destroy();
  await writePullStream(target, gone.flow);
  t.same(gone.seen, { released: 0, cancels: 1, pokes: 0, asked: 0 });
  const waiting = source();
  const open = sink();
  const writing = writePullStream(open.target, waiting.flow);
  await settle();
  open.target.destroy();
  await writing;
  t.equal(waiting.seen.cancels, 1);
  const full = source();
  const slow = sink();
  const held = writePullStream(slow.target, full.flow);
  full.give('a long one');
  await settle();
  slow.target.destroy();
  full.give(undefined);
  await held;
  t.equal(full.seen.cancels, 1);
  t.equal(slow.target.listenerCount('close') + slow.target.listenerCount('drain'), 0);
  const late = source();
  const closed = sink();
  const last = writePullStream(closed.target, { ...late.flow, cancel: () => void late.seen.cancels++ });
  await settle();
  closed.target.destroy();
  late.give('x');
  await last;
  t.match(late.seen, { released: 1, cancels: 1 });
  t.same(closed.taken, []);
  const broken = source();
  const whole = sink();
  broken.give(new Error('lost'));
  await t.rejects(writePullStream(whole.target, broken.flow), { message: 'lost' });
  t.equal(whole.target.listenerCount('close'), 0);
});

t.test('what follows at once goes with it', async (t) => {
  const writes: number[] = [];
  const target = new Writable({
    writev: (chunks, done) => {
      writes.push(chunks.length);
      done();
    },
  });
  const { flow, give } = source();
  give('a', 'b', undefined);
  await writePullStream(target, flow);
  target.end();
  await settle();
  t.same(writes, [2]);
  t.equal(target.writableCorked, 0);
});

t.test('as a web stream where no connection is known, else left for the server', async (t) => {
  const { flow, seen, give } = source();
  const app = new Hono<HttpEnv>();
  app.get('/', (c) => answerPullStream(c as unknown as HttpContext, flow, { 'X-A': 'b' }));
  const left = source();
  app.get('/left', (c) => answerPullStream(c as unknown as HttpContext, left.flow, {}));
  const response = await app.request('/');
  t.match([response.status, response.headers.get('x-a')], [200, 'b']);
  await settle();
  t.equal(seen.asked, 0, 'nobody reads yet');
  give('one', undefined);
  t.equal(await response.text(), 'one');
  t.same([seen.released, seen.cancels], [1, 0]);
  await (await app.request('/left')).body?.cancel();
  t.equal(left.seen.cancels, 1);
  const direct: { stream?: PullStream } = {};
  const kept = await app.request('/', {}, { direct });
  t.equal(direct.stream, flow);
  t.match([kept.status, kept.headers.get('x-a'), kept.body], [200, 'b', null]);
});

/** An answer of the app as the server sends it. */
async function answered(flow: PullStream | undefined) {
  const lines: object[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const app = new Hono<HttpEnv>();
  const bindings: (object | undefined)[] = [];
  app.get('/', (c) => {
    bindings.push(c.env);
    c.header('X-Request-Id', 'req_1');
    return flow === undefined
      ? c.text('plain')
      : answerPullStream(c as unknown as HttpContext, flow, { 'X-A': 'b' });
  });
  const socket = new FakeSocket();
  const incoming = Object.assign(new IncomingMessage(socket), {
    method: 'GET',
    httpVersion: '1.1',
    httpVersionMajor: 1,
    httpVersionMinor: 1,
  });
  const outgoing = new ServerResponse(incoming);
  outgoing.assignSocket(socket);
  const ending = new AbortController().signal;
  const respond = answerDirectly({ app, log, ending });
  const env = { incoming, outgoing };
  const response = await respond(new Request('http://x/'), env);
  return { response, respond, outgoing, socket, lines, bindings, ending };
}

t.test('a server’s answer of bytes is sent by itself, its head soon', async (t) => {
  const timers = new FakeClock(t);
  const { flow, give } = source();
  const { response, socket, outgoing, lines, bindings, ending } = await answered(flow);
  t.equal(response, RESPONSE_ALREADY_SENT);
  t.match(bindings, [{ ending, outgoing }]);
  await timers.pass(4);
  t.equal(socket.said, '');
  await timers.pass(1);
  t.match(socket.said, /^HTTP\/1.1 200 OK\r\n(?=.*x-request-id: req_1\r\n).*x-a: b\r\n.*\r\n\r\n$/is);
  give('hello', undefined);
  await settle();
  t.match(socket.said, /\r\n5\r\nhello\r\n0\r\n\r\n$/);
  t.ok(outgoing.writableEnded);
  t.equal(timers.count, 0);
  t.same(lines, []);
  const quick = source();
  quick.give('x', undefined);
  await answered(quick.flow);
  await settle();
  t.equal(timers.count, 0);
  timers.restore();
});

t.test('a stream that fails closes the connection without the last chunk', async (t) => {
  for (const [error, level, told] of [
    [new AppError('guest_unreachable', 'lost'), 40, { reason: 'lost' }],
    [new Error('a fault'), 50, { err: { message: 'a fault' } }],
  ] as const) {
    const { flow, give } = source();
    const { socket, outgoing, lines } = await answered(flow);
    give('some', error);
    await settle();
    t.ok(socket.destroyed);
    t.notOk(outgoing.writableEnded);
    t.notMatch(socket.said, /0\r\n\r\n$/);
    t.match(lines, [{ level, requestId: 'req_1', msg: 'response aborted', ...told }]);
  }
});

t.test('an answer of the app’s own, or on another connection, is the app’s', async (t) => {
  const { response, respond, bindings, ending } = await answered(undefined);
  t.equal(await response.text(), 'plain');
  const other = await respond(new Request('http://x/'), { outgoing: {}, incoming: {} } as never);
  t.equal(await other.text(), 'plain');
  t.match(bindings[1], { ending });
  t.notOk('direct' in (bindings[1] ?? {}));
});

const text = async (flow: PullStream): Promise<string | undefined> => (await flow.next())?.bytes.toString();

t.test('a pull as lines: what there is at once, the newest kept, then how it ended', async (t) => {
  let left = 0;
  const lines = new ImageLines(() => void left++);
  const waiting = text(lines);
  lines.progress('begins');
  t.equal(await waiting, '{"progress":"begins"}\n');
  lines.progress('layer', { layer: 'sha256:a', bytes: 0, totalBytes: 7 });
  lines.progress('more');
  t.equal(
    await text(lines),
    '{"progress":"layer","layer":"sha256:a","bytes":0,"total_bytes":7}\n{"progress":"more"}\n',
  );
  for (let count = 0; count < 1001; count++) lines.progress(String(count));
  lines.succeed({ digest: 'x' });
  const all = (await text(lines))?.trim().split('\n') ?? [];
  t.same(
    [all.length, all[0], all[999], all[1000]],
    [1001, '{"progress":"1"}', '{"progress":"1000"}', '{"image":{"digest":"x"}}'],
  );
  t.equal(await text(lines), undefined);
  const failing = new ImageLines(() => undefined);
  failing.fail(new AppError('not_found', 'no such image'), 'req_1');
  t.equal(await text(failing), '{"error":"no such image","code":"not_found","status":404}\n');
  t.equal(await text(failing), undefined);
  const given = new ImageLines(() => void left++);
  const never = text(given);
  given.cancel();
  t.equal(await never, undefined);
  t.equal(left, 1);
  t.equal(await text(given), undefined);
});

function stats(signals: readonly (AbortSignal | undefined)[] = []) {
  const seen = { ends: 0 };
  const readings: (Sample | Error)[] = [];
  const stream = new StatsStream(
    () => {
      const reading = readings.shift();
      if (reading === undefined || reading instanceof Error) throw reading ?? new Error('gone');
      return reading;
    },
    (reading) => JSON.stringify(reading),
    signals,
    () => void seen.ends++,
  );
  return { stream, readings, seen };
}
const at = (second: number, cpu_us: number): Sample => ({
  cpu_us,
  read_at: new Date(second * 1000).toISOString(),
});

t.test('a reading each second, with the share of a CPU since the last', async (t) => {
  const timers = new FakeClock(t);
  const { stream, readings, seen } = stats([undefined]);
  readings.push(at(1, 0), at(2, 12_340), at(2, 20_000), at(4, 10_000));
  const shares: unknown[] = [];
  for (let each = 0; each < 4; each++) {
    shares.push(JSON.parse((await text(stream)) ?? '').cpu_percent);
    await timers.pass(1000);
  }
  t.same(shares, [undefined, 1.2, undefined, 0]);
  t.equal(seen.ends, 0);
  t.equal(await text(stream), undefined, 'there is nothing to read any more');
  t.equal(seen.ends, 1);
  timers.restore();
});

t.test('the next one is waited for, and whatever ends it ends the waiting', async (t) => {
  const timers = new FakeClock(t);
  const stop = new AbortController();
  const { stream, readings, seen } = stats([stop.signal]);
  readings.push(at(1, 0), at(2, 0));
  await text(stream);
  let isGiven = false;
  const next = text(stream).then((given) => {
    isGiven = true;
    return given;
  });
  await settle();
  t.notOk(isGiven);
  stop.abort();
  t.equal(await next, undefined);
  t.equal(seen.ends, 1);
  t.equal(readings.length, 1, 'it was not read');
  const late = stats([stop.signal]);
  t.equal(late.seen.ends, 1);
  t.equal(await text(late.stream), undefined);
  timers.restore();
});
