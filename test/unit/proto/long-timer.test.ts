// Timers with any delay.
import { startTimer } from '@sandboxd/proto';
import t from 'tap';
import { FakeClock } from '../../support/fake-clock.ts';

const LONGEST_MS = 2 ** 31 - 1;

t.test(
  'one ends when it should, and not before; beyond what a timer can hold it takes several',
  async (t) => {
    const timers = new FakeClock(t);
    let ends = 0;
    const end = () => void ends++;
    startTimer(60, end);
    startTimer(2 * LONGEST_MS + 5, end);
    startTimer(20, end)();
    startTimer(-5000, end);
    await timers.pass(0);
    t.equal(ends, 1, 'one that is over ends at once');
    await timers.pass(59);
    t.equal(ends, 1);
    await timers.pass(1);
    t.equal(ends, 2);
    await timers.pass(2 * LONGEST_MS - 60 + 4);
    t.equal(ends, 2);
    await timers.pass(1);
    t.equal(ends, 3);
    timers.restore();
  },
);

t.test('one that is called off in its second part does not end', async (t) => {
  const timers = new FakeClock(t);
  let ends = 0;
  const stop = startTimer(2 * LONGEST_MS, () => void ends++, { isUnref: true });
  t.equal(timers.keeping, 0);
  await timers.pass(LONGEST_MS + 1);
  t.same([timers.count, timers.keeping], [1, 0]);
  stop();
  t.equal(timers.count, 0);
  await timers.pass(LONGEST_MS);
  t.equal(ends, 0);
  timers.restore();
});
