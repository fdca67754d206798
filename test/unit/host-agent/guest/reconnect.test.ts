// When an unreachable guest is retried, and how long callers wait for it, with a fake clock.
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import sleeping from 'node:timers/promises';
import { CLOCK, FREEZE, GuestConnection, MAX_STREAMS, type Request, type Stream } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { FakeClock, settle } from '../../../support/fake-clock.ts';
import { loopLinks } from '../../../support/memory-host/link.ts';

type Answer = (stream: Stream, request: Request) => void;

/** A guest that sends a hello, or nothing while `way.isSilent`; `attempts` has the time of each connection. */
function openWay(t: Test, onRequest: Answer = () => undefined, capabilities: string[] = []) {
  const time = new FakeClock(t, { withPromises: true });
  const way = { isSilent: false, attempts: [] as number[], lines: [] as string[] };
  const links: ReturnType<typeof loopLinks>[] = [];
  const agent = new GuestConnection({ describe: () => ({ capabilities }), onRequest });
  const openChannel = async () => {
    way.attempts.push(time.nowMs);
    const made = loopLinks();
    links.push(made);
    if (!way.isSilent) agent.attach(made.guest);
    return { link: made.host, needsResync: false };
  };
  const log = pino({}, { write: (line: string) => void way.lines.push(JSON.parse(line).msg) });
  const guest = new Guest({ source: { openChannel }, incarnation: 'one', log });
  t.teardown(() => guest.close(new Error('over')));
  const cut = async () => {
    links.at(-1)?.host.destroy(new Error('cut'));
    await settle();
  };
  return { guest, way, time, links, cut };
}

t.test('a guest that breaks its connections is reached for more and more seldom', async (t) => {
  const { guest, way, time, cut } = openWay(t);
  await guest.connect();
  await cut();
  await time.pass(1);
  t.equal(way.attempts.length, 2);
  t.same(way.lines, ['the connection to the guest agent broke', 'connected to the guest agent again']);
  for (const pauseMs of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
    const { length } = way.attempts;
    await cut();
    t.notOk(guest.isConnected);
    await time.pass(1000);
    await time.pass(pauseMs - 1);
    t.equal(way.attempts.length, length, `not yet after ${pauseMs} ms`);
    await time.pass(1);
    t.equal(way.attempts.length, length + 1, `after ${pauseMs} ms`);
    t.ok(guest.isConnected);
  }
  // A connection that lasted a minute resets the backoff.
  await time.pass(59_999);
  await cut();
  await time.pass(1);
  t.notOk(guest.isConnected);
  await time.pass(59_999);
  t.ok(guest.isConnected);
  await time.pass(60_000);
  await cut();
  await time.pass(1);
  t.ok(guest.isConnected);
});

t.test(
  'one that does not answer is given up, and tried again a moment later until it is closed',
  async (t) => {
    const { guest, way, time, links, cut } = openWay(t);
    await guest.connect();
    way.isSilent = true;
    await cut();
    await time.pass(1);
    await time.pass(9999);
    t.notOk(links[1]?.host.isClosed);
    await time.pass(1);
    t.ok(links[1]?.host.isClosed);
    await t.rejects(guest.stats(), {
      code: 'guest_unreachable',
      message: /: the guest agent does not answer$/,
    });
    await time.pass(999);
    t.equal(way.attempts.length, 2);
    await time.pass(1);
    await time.pass(1);
    t.equal(way.attempts.length, 3);
    await time.pass(10_000);
    guest.close(new Error('it was deleted'));
    for (let seconds = 0; seconds < 5; seconds++) await time.pass(1000);
    t.equal(way.attempts.length, 3);
    t.equal(way.lines.length, 1);
  },
);

t.test('an adoption that takes too long is tried on', async (t) => {
  const { guest, way, time } = openWay(t);
  way.isSilent = true;
  const adopting = guest.adopt(300);
  await time.pass(299);
  way.isSilent = false;
  t.equal(way.attempts.length, 1);
  await time.pass(1);
  t.equal(await adopting, false);
  await t.rejects(guest.stats(), { message: /: the guest agent did not answer within 300 ms$/ });
  await time.pass(1);
  t.ok(guest.isConnected);
  t.same(way.lines, ['the connection to the guest agent broke', 'connected to the guest agent again']);
});

t.test('a response is awaited for half a minute, and then the call is cancelled in the guest', async (t) => {
  const told: string[] = [];
  const { guest, time } = openWay(t, (stream) => {
    stream.handlers = { cancel: () => void told.push('cancelled') };
  });
  await guest.connect();
  const asked = guest.stats();
  asked.catch(() => undefined);
  await time.pass(29_999);
  t.same(told, []);
  await time.pass(1);
  t.same(told, ['cancelled']);
  await t.rejects(asked, {
    code: 'guest_unreachable',
    message: 'the guest agent did not answer within 30000 ms',
  });
});

t.test('a guest that is busy is not waited for', async (t) => {
  const deaf = openWay(t);
  await deaf.guest.connect();
  deaf.links[0]!.guest.isDeaf = true;
  const held = deaf.guest.hold();
  let isOver = false;
  void held.then(() => {
    isOver = true;
  });
  await deaf.time.pass(999);
  t.notOk(isOver);
  await deaf.time.pass(1);
  t.equal(await held, false);
});

t.test('a guest that does not stop its commands is not saved', async (t) => {
  const { guest, time } = openWay(t, () => undefined, [FREEZE]);
  await guest.connect();
  let refusal: Error | undefined;
  guest.hold().catch((error: Error) => {
    refusal = error;
  });
  // On a busy host, time counts for less; the call's own timeout comes first.
  await time.pass(9750);
  t.equal(refusal, undefined);
  for (let ticks = 0; refusal === undefined && ticks < 1300; ticks++) await time.pass(250);
  t.match(refusal, {
    code: 'guest_unreachable',
    message: /^the guest agent did not (stop its commands|answer) within \d+ ms$/,
  });
});

t.test('a thaw that fails is repeated, unless another freeze has begun', async (t) => {
  const calls: string[] = [];
  const { guest, time, cut } = openWay(
    t,
    (stream, { freeze }) => {
      calls.push(freeze?.isFrozen ? 'freeze' : 'thaw');
      if (freeze?.isFrozen) stream.finish({ freeze: {} });
      else stream.finish({ error: { code: 'internal', message: 'not now' } });
    },
    [FREEZE],
  );
  await guest.connect();
  const hold = async () => {
    t.equal(await guest.hold(), true);
    guest.release();
    await settle();
  };
  await hold();
  t.same(calls.splice(0), ['freeze', 'thaw']);
  await time.pass(999);
  t.same(calls, []);
  await time.pass(1);
  t.same(calls.splice(0), ['thaw']);
  await time.pass(500);
  await hold();
  t.same(calls.splice(0), ['freeze', 'thaw']);
  await time.pass(500);
  t.same(calls, [], 'the one before is not told any more');
  await time.pass(500);
  t.same(calls.splice(0), ['thaw']);
  await cut();
  await time.pass(1);
  t.ok(guest.isConnected);
  await time.pass(1000);
  t.same(calls, [], 'nor is another connection');
});

t.test('the thaw of a guest with too many calls is repeated later', async (t) => {
  const streams: Stream[] = [];
  const thaws: unknown[] = [];
  const { guest, time } = openWay(
    t,
    (stream, { freeze }) => {
      if (freeze) thaws.push(freeze.isFrozen);
      else streams.push(stream);
    },
    [FREEZE],
  );
  await guest.connect();
  const ends: unknown[] = [];
  const request = { cmd: ['x'], env: {}, timeout_s: 0 };
  for (let n = 0; n < MAX_STREAMS; n++)
    guest.exec(request, { output: () => undefined, exit: (end) => void ends.push(end) });
  t.throws(() => guest.exec(request, { output: () => undefined, exit: () => undefined }), {
    code: 'exhausted',
    message: /try again when some have ended$/,
  });
  await settle();
  const limits = mock.method(globalThis, 'setTimeout');
  await t.rejects(guest.stats(), /more than 4096 calls at once/);
  t.equal(limits.mock.callCount(), 0, 'a call that cannot be sent has no limit');
  limits.mock.restore();
  await t.rejects(guest.hold(), /more than 4096 calls at once/);
  guest.release();
  await settle();
  t.same(thaws, []);
  streams[0]?.finish({ exec: { exitCode: 0 } });
  await settle();
  t.equal(ends.length, 1);
  await time.pass(1000);
  t.same(thaws, [false]);
});

t.test(
  'the clock of a guest that may have been paused is corrected as soon as it is reachable',
  async (t) => {
    let asked = 0;
    let identityOffUs = 50_000;
    const { guest, time, cut, way } = openWay(
      t,
      (stream, { setClock, identity }) => {
        const unixTimeUs = time.nowMs * 1000;
        if (setClock) asked += 1;
        if (identity) stream.finish({ identity: { unixTimeUs: unixTimeUs + identityOffUs } });
        else stream.finish({ setClock: { unixTimeUs } });
      },
      [CLOCK],
    );
    await guest.connect();
    await settle();
    t.equal(asked, 0, 'one that was only connected to has its time from another call');
    guest.stepClock();
    await settle();
    t.equal(asked, 1);
    await guest.setIdentity({ unixTimeUs: time.nowMs * 1000 });
    t.equal(asked, 2, 'one that says that it is off is asked for more');
    identityOffUs = 0;
    await guest.setIdentity({ unixTimeUs: time.nowMs * 1000 });
    t.equal(asked, 2, 'one that is right is not');
    await settle();
    way.isSilent = true;
    await cut();
    guest.stepClock();
    await time.pass(1);
    t.equal(asked, 2);
    way.isSilent = false;
    await time.pass(10_000);
    await time.pass(1000);
    await time.pass(1);
    t.ok(guest.isConnected);
    t.equal(asked, 3);
    guest.close(new Error('it was deleted'));
    await time.pass(10 * 60_000);
    t.equal(asked, 3);
  },
);

t.test('the clock of a guest that is adopted is put right', async (t) => {
  let asked = 0;
  const { guest } = openWay(
    t,
    (stream) => {
      asked += 1;
      stream.finish({ setClock: { unixTimeUs: Date.now() * 1000 } });
    },
    [CLOCK],
  );
  t.equal(await guest.adopt(300), true);
  await settle();
  t.equal(asked, 1);
});

t.test('a call that was answered leaves no timer, and hears of nothing more', async (t) => {
  const { guest } = openWay(t, (stream) => stream.finish({ stats: { processes: 1 } }));
  await guest.connect();
  const limits = mock.method(globalThis, 'clearTimeout');
  t.teardown(() => limits.mock.restore());
  const client = new AbortController();
  await guest.stats(client.signal);
  t.equal(limits.mock.callCount(), 1);
  client.abort(new Error('the client left'));
  await settle();
  t.equal(guest.isConnected, true);
});

t.test('who is closed while it is adopted is not missed', async (t) => {
  const { guest, way, time } = openWay(t);
  way.isSilent = true;
  const adopting = guest.adopt(300);
  await settle();
  guest.close(new Error('it was deleted'));
  await time.pass(300);
  t.equal(await adopting, false);
  for (let seconds = 0; seconds < 3; seconds++) await time.pass(1000);
  t.same([way.lines, way.attempts.length], [[], 1]);
});

t.test('a lost guest fails all callers that wait for a response or for idleness', async (t) => {
  const { guest, cut } = openWay(t);
  await guest.connect();
  const asked = guest.stats();
  asked.catch(() => undefined);
  const held = guest.hold();
  await cut();
  await t.rejects(asked, { code: 'guest_unreachable', message: 'the guest agent cannot be reached: cut' });
  t.equal(await held, false);
});

t.test('reaching for a guest keeps no process', async (t) => {
  const waits: unknown[] = [];
  const sleeps = mock.method(
    sleeping,
    'setTimeout',
    async (_ms: number, _value: unknown, options: unknown) => {
      if (waits.push(options) > 2) await new Promise(() => undefined);
    },
  );
  syncBuiltinESMExports();
  t.teardown(() => {
    sleeps.mock.restore();
    syncBuiltinESMExports();
  });
  const openChannel = () => Promise.reject(new Error('nobody is there'));
  const guest = new Guest({ source: { openChannel }, incarnation: 'one', log: pino({ level: 'silent' }) });
  t.equal(await guest.adopt(1000), false);
  await settle();
  guest.close(new Error('over'));
  t.same(waits, [{ ref: false }, { ref: false }, { ref: false }]);
});
