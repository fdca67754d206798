// The choice between engines by their probe results, and their duration compared with emulation.
import { pino } from 'pino';
import t from 'tap';
import { describeTries, selectEngine, type Try } from '../../../../host-agent/src/engines/select.ts';
import { FakeClock, settle } from '../../../support/fake-clock.ts';
import { MadeEngine, works } from '../../../support/made-engines.ts';
import { until } from '../../../support/until.ts';

const broken = { isUsable: false, reason: 'out of order' } as const;

function makeLog() {
  const lines: Record<string, unknown>[] = [];
  return { lines, log: pino({ base: null }, { write: (text) => void lines.push(JSON.parse(text)) }) };
}
const { log } = makeLog();

const verdicts = (tried: readonly Try[]) => tried.map(({ name, verdict }) => `${name}: ${verdict}`);
const emulation = (answer?: typeof works) =>
  new MadeEngine('slow', { accelerator: 'software', isEmulation: true, ...(answer && { answer }) });

t.test(
  'the first that works is taken, those behind it are not tried, and emulation is given up',
  async (t) => {
    const [first, second, third] = [
      new MadeEngine('first', { answer: broken }),
      new MadeEngine('second', { answer: works }),
      new MadeEngine('third', { answer: works }),
    ];
    const slow = emulation();
    const { lines, log } = makeLog();
    const engines = [slow, first, second, third].map(({ asEngine }) => asEngine);
    const { engine, probe, tried } = await selectEngine(engines, log);
    t.equal(engine, second.asEngine);
    t.equal(probe, works);
    t.same(verdicts(tried), [
      'first: out of order',
      'second: works',
      'slow: not needed: one before it works',
    ]);
    t.match(lines, [...tried], 'and said as it came');
    t.equal(third.signals.length, 0);
    t.match(slow.signals, [{ aborted: true, reason: { message: 'not needed: one before it works' } }]);
  },
);

t.test('without emulation none is measured', async (t) => {
  const [first, second] = [
    new MadeEngine('first', { answer: broken }),
    new MadeEngine('second', { answer: works }),
  ];
  const { engine, tried } = await selectEngine([first.asEngine, second.asEngine], log);
  t.equal(engine, second.asEngine);
  t.same(verdicts(tried), ['first: out of order', 'second: works']);
  await t.rejects(selectEngine([first.asEngine], log), {
    code: 'unsupported',
    message: /^no engine can run guests on this host: first \(kvm\): out of order, \d+ ms$/,
    details: { stage: 'probe' },
  });
});

t.test('emulation is taken where nothing else works', async (t) => {
  const first = new MadeEngine('first', { answer: broken });
  const slow = emulation(works);
  const { engine, probe, tried } = await selectEngine([first.asEngine, slow.asEngine], log);
  t.equal(engine, slow.asEngine);
  t.equal(probe, works);
  t.same(verdicts(tried), ['first: out of order', 'slow: works']);
  const none = new MadeEngine('none', { isEmulation: true, answer: broken });
  await t.rejects(selectEngine([first.asEngine, none.asEngine], log), {
    message: /: first \(kvm\): out of order, \d+ ms; none \(kvm\): out of order, \d+ ms$/,
  });
});

t.test('one is given up when it takes longer than emulation took, each by its own time', async (t) => {
  const time = new FakeClock(t);
  const [first, second] = [new MadeEngine('first'), new MadeEngine('second')];
  const slow = emulation();
  const selecting = selectEngine(
    [first, second, slow].map(({ asEngine }) => asEngine),
    log,
  );
  await settle();
  await time.pass(300);
  first.answer(broken);
  await settle();
  await time.pass(700);
  slow.answer(works);
  await settle();
  // It started 300 ms later, and gets as long as emulation took.
  await time.pass(299);
  t.equal(second.signals[0]?.aborted, false);
  await time.pass(1);
  const { engine, tried } = await selecting;
  t.equal(engine, slow.asEngine);
  t.match(tried, [
    { name: 'first', accelerator: 'kvm', verdict: 'out of order', ms: 300 },
    { name: 'second', verdict: 'slower than emulation, which took 1000 ms', ms: 1000 },
    { name: 'slow', accelerator: 'software', verdict: 'works', ms: 1000 },
  ]);
  t.equal(
    describeTries(tried.slice(0, 2)),
    'first (kvm): out of order, 300 ms; second (kvm): slower than emulation, which took 1000 ms, 1000 ms',
  );
});

t.test(
  'one that was slower already is given up at once, and emulation that fails is no measure',
  async (t) => {
    const time = new FakeClock(t);
    const [first, second] = [new MadeEngine('first'), new MadeEngine('second')];
    const slow = new MadeEngine('slow', { isEmulation: true, answer: broken });
    const selecting = selectEngine([slow.asEngine, first.asEngine], log);
    await settle();
    await time.pass(1_000_000);
    t.equal(first.signals[0]?.aborted, false);
    first.answer(works);
    t.equal((await selecting).engine, first.asEngine);
    const measure = emulation();
    const again = selectEngine([second.asEngine, measure.asEngine], log);
    await settle();
    await time.pass(50);
    measure.answer(works);
    await settle();
    await time.pass(1);
    t.equal((await again).engine, measure.asEngine);
  },
);

t.test('a probe of emulation that is still running delays no choice', async (t) => {
  const count = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const { now } = performance;
  t.teardown(() => {
    performance.now = now;
  });
  let at = 0;
  performance.now = () => at;
  const [first, second, slow] = [new MadeEngine('first'), new MadeEngine('second'), emulation()];
  const before = count();
  const selecting = selectEngine(
    [first, second, slow].map(({ asEngine }) => asEngine),
    log,
  );
  at = 500_000;
  first.answer(broken);
  await turn();
  at = 1_000_000;
  slow.answer(works);
  await turn();
  t.equal(count(), before + 1, 'of the one that is not over');
  second.answer(works);
  t.equal((await selecting).engine, second.asEngine);
  t.ok(count() <= before);
});

t.test('who gives up the choice ends every probe, with their reason', async (t) => {
  const [first, slow] = [new MadeEngine('first'), emulation()];
  const closing = new AbortController();
  const selecting = selectEngine([first.asEngine, slow.asEngine], log, closing.signal);
  selecting.catch(() => undefined);
  await until(() => first.signals.length === 1, 'a probe');
  closing.abort(new Error('the daemon is stopping'));
  await t.rejects(selecting, { message: 'the daemon is stopping' });
  t.ok(first.signals[0]?.aborted && slow.signals[0]?.aborted);
});

t.test('an engine whose probe fails by itself is one that does not work', async (t) => {
  const first = new MadeEngine('first');
  first.probe = () => Promise.reject(new Error('a fault of the test'));
  const { tried } = await selectEngine([first.asEngine, emulation(works).asEngine], log);
  t.same(verdicts(tried), ['first: a fault of the test', 'slow: works']);
});
