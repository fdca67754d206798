// What is sent and fetched ahead waits for sandboxes that are paused, and not for good.
import t from 'tap';
import { RightOfWay } from '../../../../host-agent/src/sandboxes/moves/right-of-way.ts';

const NEVER = new AbortController().signal;

t.test('without one that is paused, nothing waits', async () => {
  await new RightOfWay(3_600_000).give(NEVER);
});

t.test('the last one that is paused lets the others go on', async (t) => {
  const way = new RightOfWay(3_600_000);
  const [a, b] = [way.begin(), way.begin()];
  let gone = 0;
  const waiting = [1, 2].map(async () => {
    await way.give(NEVER);
    gone += 1;
  });
  a[Symbol.dispose]();
  // It ends once, however often it is said.
  a[Symbol.dispose]();
  await new Promise(setImmediate);
  t.equal(gone, 0);
  b[Symbol.dispose]();
  await Promise.all(waiting);
  t.equal(gone, 2);
  await way.give(NEVER);
});

t.test('one after another is paused', async (t) => {
  const way = new RightOfWay(3_600_000);
  const first = await way.take(NEVER);
  const order: string[] = [];
  const others = ['second', 'third'].map(async (name) => {
    const own = await way.take(NEVER);
    order.push(name);
    return own;
  });
  await new Promise(setImmediate);
  t.same(order, []);
  first[Symbol.dispose]();
  const second = await others[0];
  await new Promise(setImmediate);
  t.same(order, ['second'], 'the third one runs on');
  const end = new AbortController();
  const cancelled = way.take(end.signal);
  end.abort(new Error('it stays'));
  await t.rejects(cancelled, { message: 'it stays' });
  second?.[Symbol.dispose]();
  (await others[1])?.[Symbol.dispose]();
  await way.give(NEVER);
});

t.test('one that is paused for long does not keep others from their pause', async () => {
  const way = new RightOfWay(1);
  using _paused = way.begin();
  using _other = await way.take(NEVER);
});

t.test('one that is paused for long does not hold the others', async () => {
  const way = new RightOfWay(1);
  using _paused = way.begin();
  await way.give(NEVER);
});

t.test('work that ends does not wait: one that is paused may wait for its end', async () => {
  const way = new RightOfWay(3_600_000);
  using _paused = way.begin();
  const end = new AbortController();
  const waiting = way.give(end.signal);
  end.abort();
  await waiting;
  await way.give(end.signal);
});
