// Exponential backoff, and a token bucket.
import t from 'tap';
import { backOffMs } from '../../../../host-agent/src/lib/back-off.ts';
import { TokenBucket } from '../../../../host-agent/src/lib/token-bucket.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

t.test('waits double up to their bound, and spread where that is wanted', (t) => {
  const waits = [0, 1, 2, 3, 4, 5].map((failures) => backOffMs(failures, { firstMs: 100, mostMs: 900 }));
  t.same(waits, [0, 100, 200, 400, 800, 900]);
  t.equal(backOffMs(5000, { firstMs: 1 }), 2 ** 20, 'and never beyond what a timer holds');
  const spread = Array.from({ length: 200 }, () => backOffMs(2, { firstMs: 50, jitter: 0.25 }));
  t.ok(spread.every((waitMs) => waitMs >= 75 && waitMs <= 125));
  t.ok(new Set(spread).size > 100);
  t.end();
});

t.test('a bucket gives what it holds, then at its pace, and never holds more than at first', async (t) => {
  const timers = new FakeClock(t);
  const bucket = new TokenBucket(2, 3);
  const take = () => Array.from({ length: 5 }, () => bucket.take()).filter(Boolean).length;
  t.equal(take(), 3);
  await timers.pass(400);
  t.equal(take(), 0);
  await timers.pass(100);
  t.equal(take(), 1);
  await timers.pass(60_000);
  t.equal(take(), 3);
  timers.restore();
});
