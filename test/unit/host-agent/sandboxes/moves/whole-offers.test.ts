// Sandboxes that no host has claimed are offered whole: how many at a time.
import t from 'tap';
import { newId } from '../../../../../host-agent/src/lib/ids.ts';
import type { DepartureRecord } from '../../../../../host-agent/src/sandboxes/moves/departure-record.ts';
import { WholeOffers } from '../../../../../host-agent/src/sandboxes/moves/whole-offers.ts';
import type { Sandbox } from '../../../../../host-agent/src/sandboxes/sandbox.ts';

const record: DepartureRecord = {
  ...{
    departure: '0'.repeat(32),
    token: 'own',
    phase: 'offered',
    wasRunning: true,
    atMs: 0,
    hasChanges: true,
  },
};

function prepare(afterMs?: number) {
  const begun: PromiseWithResolvers<void>[] = [];
  const deps = {
    afterMs,
    track: () => {
      const work = Promise.withResolvers<void>();
      begun.push(work);
      return work.promise;
    },
    log: { warn: () => undefined, info: () => undefined },
  } as unknown as ConstructorParameters<typeof WholeOffers>[0];
  return { whole: new WholeOffers(deps), begun };
}

const makeSandbox = () => ({ id: newId('sbx') }) as unknown as Sandbox;

t.test('a host that is drained sends few at a time, and then the others', async (t) => {
  const { whole, begun } = prepare(0);
  const all = [1, 2, 3, 4, 5].map(makeSandbox);
  const look = () => {
    for (const each of all) whole.look(each, record);
  };
  look();
  look();
  t.equal(begun.length, 2);
  begun[0]?.reject(new Error('no bucket'));
  await begun[0]?.promise.catch(() => undefined);
  await new Promise(setImmediate);
  t.equal(begun.length, 3, 'the next one, not the same again');
  look();
  t.equal(begun.length, 3);
  // One that waits ends at once.
  await whole.end(all[3]?.id ?? '');
  begun[1]?.resolve();
  begun[2]?.resolve();
  await new Promise(setImmediate);
  t.equal(begun.length, 5);
  for (const work of begun) work.resolve();
  await whole.stop();
});

t.test('what has no changes, or is young by the monotonic clock, is not sent again', (t) => {
  const { hasChanges: _, ...plain } = record;
  const plainly = prepare(0);
  plainly.whole.look(makeSandbox(), plain);
  t.same(plainly.begun, []);
  const { whole, begun } = prepare();
  // Offered an hour ago, by a clock that was ahead then.
  whole.look(makeSandbox(), { ...record, atMs: Date.now() - 3_600_000 });
  t.same(begun, []);
  t.end();
});
