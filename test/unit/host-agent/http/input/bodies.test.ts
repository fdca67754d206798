// Bodies on their way: how slowly they may come, what all of them may take together, and what is read of one.
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { MAX_JSON_BYTES, MIN_BODY_BYTES_PER_S } from '@sandboxd/api';
import t from 'tap';
import {
  addressOf,
  clientSignal,
  endingOf,
  endOf,
  type HttpContext,
  headerOf,
} from '../../../../../host-agent/src/http/context.ts';
import { BodyPace, readBody } from '../../../../../host-agent/src/http/input/body-source.ts';
import { BodyMemoryLimit, parseJson, readJson } from '../../../../../host-agent/src/http/input/json-body.ts';
import { checked } from '../../../../../host-agent/src/http/input/request-input.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';

function pace(idleMs: number) {
  const late: Error[] = [];
  return { late, pace: new BodyPace(idleMs, (error) => late.push(error)) };
}

t.test('silence ends a body, but only while its client is waited for', async (t) => {
  const timers = new FakeClock(t);
  const { late, pace: silent } = pace(1000);
  await timers.pass(5000);
  silent.wait();
  await timers.pass(400);
  silent.wait();
  await timers.pass(599);
  t.same(late, []);
  await timers.pass(1);
  t.match(late, [
    { code: 'timeout', message: /^the body stopped for 1000 ms, or came at less than 240 bytes/ },
  ]);
  const { late: none, pace: stopped } = pace(1000);
  stopped.wait();
  await timers.pass(999);
  stopped.stop();
  await timers.pass(5000);
  t.same(none, []);
  t.equal(timers.count, 0);
  stopped.wait();
  await timers.pass(999);
  t.same(none, [], 'bytes did not come meanwhile, but it was not waited for');
  timers.restore();
});

t.test('received bytes restore time at the minimum rate', async (t) => {
  const timers = new FakeClock(t);
  const { late, pace: trickle } = pace(1000);
  trickle.wait();
  await timers.pass(600);
  trickle.received(MIN_BODY_BYTES_PER_S / 10);
  t.equal(timers.count, 0);
  trickle.wait();
  await timers.pass(499);
  t.same(late, []);
  trickle.received(1);
  trickle.wait();
  await timers.pass(5);
  t.same(late, []);
  await timers.pass(1);
  t.equal(late.length, 1, 'what was left is left');
  const { late: none, pace: fast } = pace(1000);
  fast.received(MIN_BODY_BYTES_PER_S * 100);
  fast.wait();
  await timers.pass(999);
  t.same(none, []);
  await timers.pass(1);
  t.equal(none.length, 1, 'no more than the whole of it');
  const { late: overdue, pace: held } = pace(1000);
  held.wait();
  await timers.pass(200);
  held.received(0);
  await timers.pass(3000);
  held.received(0);
  held.wait();
  await timers.pass(799);
  t.same(overdue, [], 'the guest was slow, not the client');
  await timers.pass(1);
  t.equal(overdue.length, 1);
  const { late: never, pace: behind } = pace(100);
  behind.wait();
  const before = performance.now();
  performance.now = () => before + 500;
  behind.received(MIN_BODY_BYTES_PER_S / 100);
  performance.now = () => before;
  behind.wait();
  await timers.pass(9);
  t.same(never, [], 'it owes nothing');
  await timers.pass(1);
  t.equal(never.length, 1);
  timers.restore();
});

t.test('large bodies share the memory, small ones always fit', (t) => {
  const [free, all] = [64 * 1024, 64 * 1024 * 1024];
  const room = new BodyMemoryLimit();
  room.add(free);
  room.add(all);
  const small = new BodyMemoryLimit();
  small.add(free);
  t.throws(() => small.add(1), {
    code: 'exhausted',
    message: /^too many large requests/,
    details: { stage: 'request', retryAfterS: 5 },
  });
  small.add(0);
  t.throws(() => room.add(1));
  room[Symbol.dispose]();
  room[Symbol.dispose]();
  small.add(all);
  t.throws(() => small.add(1));
  t.throws(() => room.add(free + 1), 'what it had is given back once');
  small[Symbol.dispose]();
  room.add(free + all);
  room[Symbol.dispose]();
  const unused = new BodyMemoryLimit();
  unused.add(10);
  unused[Symbol.dispose]();
  const whole = new BodyMemoryLimit();
  whole.add(free + all);
  t.throws(() => whole.add(1));
  whole[Symbol.dispose]();
  t.end();
});

/** A request as a route has it. */
function context(body: Readable | Buffer | string | null, more: { headers?: object; env?: object } = {}) {
  const headers = (more.headers ?? {}) as Record<string, string>;
  const stream = body instanceof Readable ? body : undefined;
  const text = body instanceof Readable ? null : body;
  return {
    env: stream === undefined ? more.env : { incoming: Object.assign(stream, { headers }), ...more.env },
    req: {
      header: (name: string) => headers[name],
      raw: new Request('http://x/', { method: 'POST', ...(text !== null && { body: String(text) }) }),
    },
  } as unknown as HttpContext;
}

const nothing = (): Readable => new Readable({ read: () => undefined });

t.test('a JSON body is read whole, wherever it comes from', async (t) => {
  t.same(await readJson(context('{"a":"ä"}')), { a: 'ä' });
  t.same(await readJson(context(Readable.from([Buffer.from('{"a":'), Buffer.from('1}')]))), { a: 1 });
  const takeover = context(nothing(), { env: { takeover: {} } });
  Object.assign(takeover.req, { raw: new Request('http://x/', { method: 'POST', body: '[7]' }) });
  t.same(await readJson(takeover), [7], 'what was read already');
  for (const empty of [null, '', ' \n']) t.equal(await readJson(context(empty)), undefined);
  t.same(await readJson(context('1', { headers: { 'content-encoding': 'Identity' } })), 1);
  await t.rejects(readJson(context('1', { headers: { 'content-encoding': 'gzip' } })), {
    code: 'unsupported_media',
    message: /^content-encoding "gzip" is not known here/,
  });
  t.throws(() => parseJson(Buffer.of(0x22, 0xff, 0x22)), {
    code: 'invalid_argument',
    message: /not valid UTF-8/,
  });
  t.throws(() => parseJson(Buffer.from('{"a":\n x}')), {
    code: 'invalid_argument',
    message: 'the body is not valid JSON: unexpected "x" at line 2, column 2',
  });
});

t.test('a body that is too large, stalled or aborted is refused, and the rest is discarded', async (t) => {
  const full = `"${'x'.repeat(MAX_JSON_BYTES - 2)}"`;
  t.equal(String(await readJson(context(Readable.from([Buffer.from(full)])))).length, MAX_JSON_BYTES - 2);
  const over = Readable.from([Buffer.from(full), Buffer.from(' ')]);
  await t.rejects(readJson(context(over)), { code: 'too_large', message: /over \d+ bytes; a JSON body may/ });
  t.ok(over.destroyed);
  const length = (bytes: number) => ({ headers: { 'content-length': String(bytes) } });
  t.equal(await readJson(context('1', length(MAX_JSON_BYTES))), 1);
  const unread = nothing();
  await t.rejects(readJson(context(unread, length(MAX_JSON_BYTES + 1))), { code: 'too_large' });
  t.notOk(unread.destroyed, 'nothing of it was asked for');
  const silent = nothing();
  silent.push('{');
  await t.rejects(readJson(context(silent), 20), { code: 'timeout' });
  t.ok(silent.destroyed);
  const left = nothing();
  const reading = readJson(context(left));
  left.push('{');
  await settle();
  left.destroy(new Error('reset'));
  await t.rejects(reading, {
    code: 'cancelled',
    message: 'the client left within its upload',
    cause: { message: 'reset' },
  });
});

t.test('a slowly read body pauses the connection, and resumes it below the low-water mark', async (t) => {
  const stream = nothing();
  const body = readBody(context(stream));
  const push = async (count: number, bytes: number) => {
    for (let each = 0; each < count; each++) stream.push(Buffer.alloc(bytes));
    await settle();
  };
  await push(3, 65_536);
  t.notOk(stream.isPaused());
  await push(1, 65_536);
  t.ok(stream.isPaused(), '256 KiB wait');
  for (let each = 0; each < 2; each++) await body.read();
  t.ok(stream.isPaused(), 'more than a quarter is there');
  await body.read();
  t.notOk(stream.isPaused());
  await body.read();
  await push(1023, 1);
  t.notOk(stream.isPaused());
  await push(1, 1);
  t.ok(stream.isPaused(), 'or 1024 pieces');
  for (let each = 0; each < 767; each++) await body.read();
  t.ok(stream.isPaused());
  await body.read();
  t.notOk(stream.isPaused());
  stream.push(null);
  for (let each = 0; each < 256; each++) t.equal((await body.read())?.length, 1);
  t.equal(await body.read(), undefined);
  t.equal(await body.read(), undefined);
});

t.test('a discarded body is drained from a connection, and destroyed elsewhere', async (t) => {
  const incoming = new IncomingMessage(new Socket());
  incoming._read = () => undefined;
  const body = readBody(context(incoming));
  incoming.push('one');
  await settle();
  incoming.pause();
  body.discard();
  incoming.push('two');
  await settle();
  t.equal(incoming.readableLength, 0);
  t.notOk(incoming.destroyed, 'its answer is still to be sent');
  incoming.push(null);
  await settle();
  t.equal(await body.read(), undefined, 'nothing of it is left');
  const other = nothing();
  const theirs = readBody(context(other));
  theirs.discard();
  t.ok(other.destroyed);
  readBody(context(null)).discard();
  t.equal(await readBody(context(null)).read(), undefined);
});

t.test('a waiting reader gets data, the end, and one timeout', async (t) => {
  const stream = nothing();
  const body = readBody(context(stream), 20);
  const first = body.read();
  stream.push('one');
  t.equal(String(await first), 'one');
  const late = body.read();
  await t.rejects(late, { code: 'timeout' });
  stream.destroy(new Error('reset'));
  await settle();
  await t.rejects(body.read(), { code: 'timeout' }, 'the first reason counts');
  const whole = nothing();
  const last = readBody(context(whole)).read();
  whole.push(null);
  t.equal(await last, undefined);
});

t.test('a client that leaves, or has left, cancels its request', async (t) => {
  for (const isEarly of [false, true]) {
    const left = new AbortController();
    if (isEarly) left.abort();
    const signal = clientSignal({
      get: () => undefined,
      req: { raw: { signal: left.signal } },
    } as unknown as HttpContext);
    t.equal(signal.aborted, isEarly);
    left.abort();
    t.match(signal.reason, { code: 'cancelled', message: 'the client left before the answer' });
  }
});

t.test('what there is of a connection, and nothing without one', async (t) => {
  const none = { req: { header: (name: string) => `own ${name}` } } as HttpContext;
  t.equal(headerOf(none, 'a'), 'own a');
  t.same([endingOf(none), addressOf(none), endOf(none)], [undefined, 'local', undefined]);
  const incoming = { headers: { a: 'one', b: ['x', 'y'] }, socket: { remoteAddress: '::1' } };
  const outgoing = {};
  const ending = new AbortController().signal;
  const c = { env: { incoming, outgoing, ending } } as unknown as HttpContext;
  t.same([headerOf(c, 'a'), headerOf(c, 'b'), headerOf(c, 'c')], ['one', 'x, y', undefined]);
  t.equal(addressOf(c), '::1');
  t.equal(endingOf(c), ending);
  t.equal(endOf(c), outgoing);
  const socket = {};
  t.equal(endOf({ env: { outgoing, takeover: { socket } } } as unknown as HttpContext), socket);
  t.equal(addressOf({ env: { incoming: { socket: {} } } } as unknown as HttpContext), 'local');
  t.equal(addressOf({ env: {} } as unknown as HttpContext), 'local');
  t.match(checked({ isValid: true, value: 7, warnings: ['w'] }), { value: 7, warnings: ['w'] });
  t.throws(() => checked({ isValid: false, problem: 'no' }), { code: 'invalid_argument', message: 'no' });
});

const CHUNK_BYTES = 65_536;
const CHUNKS = 64;

t.test('a client that is faster', async (t) => {
  let given = 0;
  let pauses = 0;
  const incoming = new Readable({
    highWaterMark: CHUNK_BYTES,
    read() {
      given += 1;
      this.push(given > CHUNKS ? null : Buffer.alloc(CHUNK_BYTES, given));
    },
  });
  const pause = incoming.pause.bind(incoming);
  incoming.pause = () => {
    pauses += 1;
    return pause();
  };
  const body = readBody({ env: { incoming } } as unknown as HttpContext);
  let most = 0;
  let taken = 0;
  for (let bytes = await body.read(); bytes !== undefined; bytes = await body.read()) {
    taken += 1;
    t.equal(bytes[0], taken, 'every chunk, in order');
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, given - taken);
  }
  t.equal(taken, CHUNKS);
  t.ok(most <= 6, `${most} chunks at most were on their way, 4 and what a stream holds were expected`);
  t.ok(pauses >= 2 && pauses <= CHUNKS / 2, `the client was stopped ${pauses} times`);
});
