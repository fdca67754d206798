// Who asks: the key that came, how long a wrong one is held back, and what is open with one that is no good any more.
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import {
  Authenticator,
  chooseProtocol,
  OpenRequests,
} from '../../../../host-agent/src/http/authentication.ts';
import { Attempts, OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { FakeClock, settle } from '../../../support/fake-clock.ts';
import { CALLER, keysOf } from './callers.ts';

const ask = (authenticator: Authenticator, authorization?: string, protocols?: string) =>
  authenticator.authenticate({ authorization, protocols, address: '192.0.2.1' });

t.test('a key is read of what carries it', async (t) => {
  const patient = Object.assign(new Attempts(), { failed: () => ({ delayMs: 0, done: () => undefined }) });
  const { keys } = keysOf();
  const authenticator = new Authenticator(keys, pino({ level: 'silent' }), patient);
  for (const header of ['Bearer good', 'bearer   good  ', 'BEARER good'])
    t.equal(await ask(authenticator, header), CALLER);
  for (const protocols of ['bearer.good', 'x, bearer.good', 'bearer.good,bearer.bad'])
    t.equal(await ask(authenticator, undefined, protocols), CALLER);
  for (const [header, protocols, message] of [
    [undefined, undefined, /^no key came/],
    [undefined, 'good, x', /^no key came/],
    ['good', 'bearer.good', /^this daemon has no such key/],
    ['Bearer good x', undefined, /^this daemon has no such key/],
    ['Bearergood', undefined, /^this daemon has no such key/],
    ['x Bearer good', undefined, /^this daemon has no such key/],
    [undefined, 'bearer.bad, bearer.good', /^this daemon has no such key/],
  ] as const)
    await t.rejects(ask(authenticator, header, protocols), { code: 'unauthenticated', message });
  const aged = keysOf({ old: { state: 'expired', atMs: 0 }, bad: { state: 'revoked', atMs: 1000 } });
  const other = new Authenticator(aged.keys, pino({ level: 'silent' }));
  await t.rejects(ask(other, 'Bearer old'), { message: /^the key expired at 1970-01-01T00:00:00.000Z; ask/ });
  await t.rejects(ask(other, 'Bearer bad'), {
    message: /^the key was revoked at 1970-01-01T00:00:01.000Z; ask/,
  });
  const open = new Authenticator({ ...keys, isClosed: false }, pino({ level: 'silent' }));
  t.equal(await ask(open), OPERATOR, 'a daemon without keys');
  for (const [offered, chosen] of [
    [['bearer.k', 'x', 'y'], 'x'],
    [['bearer.k'], 'bearer.k'],
    [['y'], 'y'],
    [[], false],
  ] as const)
    t.equal(chooseProtocol(new Set(offered)), chosen);
});

t.test('responses to wrong keys are delayed, up to a number at a time', async (t) => {
  const { keys } = keysOf();
  let done = 0;
  let delayMs = 0;
  const attempts = Object.assign(new Attempts(), {
    failed: (address: string) => {
      t.equal(address, '192.0.2.1');
      return { delayMs, done: () => void done++ };
    },
  });
  const authenticator = new Authenticator(keys, pino({ level: 'silent' }), attempts);
  await t.rejects(ask(authenticator, 'Bearer bad'));
  t.equal(done, 1);
  delayMs = 2 ** 30;
  let answered = 0;
  const asked = Array.from({ length: 258 }, () =>
    ask(authenticator, 'Bearer bad').catch(() => {
      answered += 1;
    }),
  );
  await settle();
  t.equal(answered, 2, 'beyond 256 nobody waits');
  t.equal(done, 3);
  t.equal(asked.length, 258);
});

t.test('an elapsed delay frees its place, and a use that cannot be recorded is logged', async (t) => {
  const lines: object[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  // Those who are held back keep no process.
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  const { keys } = keysOf();
  let delayMs = 1;
  const attempts = Object.assign(new Attempts(), { failed: () => ({ delayMs, done: () => undefined }) });
  const authenticator = new Authenticator(
    { ...keys, noteUse: () => Promise.reject(new Error('disk full')) },
    log,
    attempts,
  );
  for (let round = 0; round < 2; round++)
    await Promise.all(
      Array.from({ length: 256 }, () => ask(authenticator, 'Bearer bad').catch(() => undefined)),
    );
  delayMs = 2 ** 30;
  let isAnswered = false;
  void ask(authenticator, 'Bearer bad').catch(() => {
    isAnswered = true;
  });
  await settle();
  t.notOk(isAnswered, 'it is held back, too');
  t.equal(await ask(authenticator, 'Bearer good'), CALLER);
  await settle();
  t.match(lines, [{ level: 40, err: { message: 'disk full' } }]);
});

t.test('admission before the app sees the request checks the operation of the route', async (t) => {
  const { keys, uses } = keysOf({
    good: { state: 'valid', principal: { kind: 'key', id: 'k', key: 'r', policy: { operations: ['read'] } } },
  });
  const authenticator = new Authenticator(keys, pino({ level: 'silent' }));
  const admit = (method: string | undefined, url: string, headers = {}) =>
    authenticator.admit({ method, url, headers, socket: {} } as IncomingMessage);
  const good = { authorization: 'Bearer good' };
  await admit('GET', '/healthz');
  await admit('GET', 'http://x/healthz?a');
  await t.rejects(admit('GET', '/sandboxes'), { code: 'unauthenticated' });
  await t.rejects(admit(undefined, '/healthz'), { code: 'unauthenticated' });
  await admit('GET', '/sandboxes', good);
  await admit('GET', '/whoami', good);
  await admit('GET', '/nothing', { 'sec-websocket-protocol': 'bearer.good' });
  await t.rejects(admit('POST', '/sandboxes', good), { code: 'forbidden' });
  t.match(uses.at(-1), [{ key: 'r' }, 'local']);
});

t.test('requests of an invalid key lose their connection, and are checked until they end', async (t) => {
  const timers = new FakeClock(t);
  const valid = new Set(['k1', 'k2']);
  const asked: string[] = [];
  const open = new OpenRequests(({ id }) => {
    asked.push(id);
    return valid.has(id);
  });
  const add = (id: string) => {
    const socket = new PassThrough();
    const whole = new EventEmitter();
    open.add({ kind: 'key', id, key: id }, socket, whole);
    return { socket, whole };
  };
  const [first, second, third] = [add('k1'), add('k1'), add('k2')];
  t.equal(timers.count, 1);
  t.equal(timers.keeping, 0, 'it keeps no daemon running');
  await timers.pass(2000);
  t.same(asked, ['k1', 'k2'], 'once for all of a key');
  valid.delete('k1');
  first.whole.emit('close');
  await timers.pass(2000);
  t.same(
    [first, second, third].map(({ socket }) => socket.destroyed),
    [false, true, false],
  );
  for (const { whole } of [second, third]) whole.emit('close');
  t.equal(timers.count, 1);
  await timers.pass(2000);
  t.equal(timers.count, 0);
  const principal = { kind: 'key' as const, id: 'k2', key: 'k2' };
  open.add(principal, new PassThrough().destroy(), new EventEmitter());
  open.add(principal, new PassThrough(), new PassThrough().destroy());
  t.equal(timers.count, 0, 'nothing waits for the end of a client that has left already');
  add('k2');
  t.equal(timers.count, 1, 'until there are some again');
  timers.restore();
});
