// Messages to a guest before and after a save: its commands are frozen first, and thawed before anything else is sent.
import { CLOCK, FREEZE, GuestConnection, type Request, SLEEP, type Stream } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { loopLinks } from '../../../support/memory-host/link.ts';

type Calls = (stream: Stream, request: Request) => void;

/** A guest whose agent records its calls, and answers as `answer` returns. */
async function openGuest(t: Test, capabilities: string[], answer: Calls) {
  const calls: string[] = [];
  const onRequest: Calls = (stream, request) => {
    calls.push(request.freeze ? `freeze ${request.freeze.isFrozen === true}` : (request.call ?? 'none'));
    answer(stream, request);
  };
  const agent = new GuestConnection({ describe: () => ({ capabilities }), onRequest });
  const openChannel = async () => {
    const links = loopLinks();
    agent.attach(links.guest);
    return { link: links.host, needsResync: false };
  };
  const guest = new Guest({ source: { openChannel }, incarnation: 'one', log: pino({ level: 'silent' }) });
  await guest.connect();
  t.teardown(() => guest.close(new Error('over')));
  return { guest, calls };
}

const obey: Calls = (stream, { freeze }) => stream.finish(freeze ? { freeze: {} } : { stats: {} });

t.test('commands are frozen before a save, and resume before held calls', async (t) => {
  const { guest, calls } = await openGuest(t, [FREEZE], obey);
  t.equal(await guest.hold(), true);
  const stats = guest.stats();
  t.same(calls, ['freeze true']);
  guest.release();
  await stats;
  t.same(calls, ['freeze true', 'freeze false', 'stats']);
});

t.test('an older agent is not asked', async (t) => {
  const { guest, calls } = await openGuest(t, [], obey);
  t.equal(await guest.hold(), true);
  guest.release();
  await guest.stats();
  t.same(calls, ['stats']);
});

t.test('a guest that does not freeze its commands is not saved, and gets another thaw', async (t) => {
  const time = new FakeClock(t, { withPromises: true });
  let refusals = 0;
  const { guest, calls } = await openGuest(t, [FREEZE], (stream, request) => {
    if (request.freeze && refusals++ < 2) {
      stream.finish({ error: { code: 'internal', message: 'cannot' } });
    } else obey(stream, request);
  });
  await t.rejects(guest.hold(), { message: /cannot/ });
  guest.release();
  await guest.stats();
  await time.pass(1000);
  t.same(calls, ['freeze true', 'freeze false', 'stats', 'freeze false']);
});

t.test('a guest that cannot be reached is not saved', async (t) => {
  const { guest } = await openGuest(t, [FREEZE], obey);
  guest.close(new Error('it is gone'));
  await t.rejects(guest.hold(), { code: 'guest_unreachable', message: /it is gone/ });
  guest.release();
});

t.test('a guest whose disk alone is kept writes it out, and an older agent cannot', async (t) => {
  const seen: Request[] = [];
  const { guest } = await openGuest(t, [FREEZE, SLEEP], (stream, request) => {
    seen.push(request);
    obey(stream, request);
  });
  await guest.hold({ sync: true });
  guest.release();
  t.match(seen[0], { freeze: { isFrozen: true, sync: true } });
  const { guest: older, calls } = await openGuest(t, [FREEZE], obey);
  await t.rejects(older.hold({ sync: true }), { code: 'unsupported', message: /keep its memory, too/ });
  t.same(calls, []);
});

t.test('a guest that wakes up gets entropy and the time, an older one a thaw and the time', async (t) => {
  const entropy = Buffer.alloc(64, 7);
  const seen: Request[] = [];
  const answer: Calls = (stream, request) => {
    seen.push(request);
    if (request.wake) stream.finish({ wake: { unixTimeUs: Date.now() * 1000 } });
    else if (request.setClock) stream.finish({ setClock: { unixTimeUs: Date.now() * 1000 } });
    else obey(stream, request);
  };
  const { guest } = await openGuest(t, [CLOCK, SLEEP], answer);
  await guest.wake({ entropy });
  t.same(Buffer.from(seen[0]?.wake?.entropy ?? []), entropy);
  t.ok(Math.abs(Number(seen[0]?.wake?.unixTimeUs) / 1000 - Date.now()) < 60_000);
  seen.length = 0;
  const { guest: older } = await openGuest(t, [CLOCK, FREEZE], answer);
  await older.wake({ entropy });
  t.match(seen[0], { freeze: { isFrozen: false } });
});

t.test('before a snapshot a guest writes its disk out, and need not', async (t) => {
  const asked: Request['freeze'][] = [];
  const record: Calls = (stream, request) => {
    asked.push(request.freeze);
    obey(stream, request);
  };
  const { guest } = await openGuest(t, [FREEZE, SLEEP], record);
  await guest.writeOut();
  t.match(asked, [{ isFrozen: false, sync: true }]);
  const refusing = await openGuest(t, [FREEZE, SLEEP], (stream) =>
    stream.finish({ error: { code: 'internal', message: 'cannot' } }),
  );
  await refusing.guest.writeOut();
  const old = await openGuest(t, [FREEZE], obey);
  await old.guest.writeOut();
  t.same(old.calls, []);
});

t.test('a guest that does not write its disk out in time is not waited for', async (t) => {
  const { guest } = await openGuest(t, [FREEZE, SLEEP], () => undefined);
  const time = new FakeClock(t, { withPromises: true });
  let isOver = false;
  const written = guest.writeOut().then(() => {
    isOver = true;
  });
  for (let s = 0; s < 600 && !isOver; s++) await time.pass(1000);
  await written;
});
