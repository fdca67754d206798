// The engines are tried behind the daemon's start: who waits, what it says meanwhile, and how it ends.
import { statSync } from 'node:fs';
import { pino } from 'pino';
import t from 'tap';
import { makePlace } from '../../../support/choice-place.ts';
import { MadeEngine, works } from '../../../support/made-engines.ts';
import { until } from '../../../support/until.ts';

const never = new AbortController().signal;
const broken = { isUsable: false, reason: 'out of order' } as const;

t.test('the engines are tried behind the start, and whoever needs one waits', async (t) => {
  const { open, scratchDir } = makePlace(t);
  const [engine, other] = [new MadeEngine('mine'), new MadeEngine('other', { answer: broken })];
  const choice = await open([engine, other]);
  t.equal(engine.signals.length, 0, 'it has begun nothing yet');
  const told: string[] = [];
  choice.onceChosen(() => told.push('chosen'));
  const both = [1, 2].map(() => choice.chosen(never));
  await until(() => engine.signals.length === 1, 'a probe');
  t.match(choice, { state: 'trying', ifChosen: undefined, version: '', tried: [] });
  t.equal(choice.reason, 'trying mine (kvm), other (kvm), each with a guest; creates wait for the result');
  t.throws(() => choice.current, { code: 'unsupported', message: /are still tried/ });
  const gone = new AbortController();
  const left = choice.chosen(gone.signal);
  gone.abort(new Error('the client left'));
  await t.rejects(left, { message: 'the client left' });
  t.equal(engine.signals[0]?.aborted, false, 'others wait for it');
  t.same(told, []);
  engine.answer(works);
  t.same(await Promise.all(both), [engine.asEngine, engine.asEngine]);
  t.same([told, choice.state, choice.ifChosen], [['chosen'], 'chosen', engine.asEngine]);
  choice.onceChosen(() => told.push('at once'));
  t.same(told, ['chosen', 'at once']);
  t.equal(engine.signals.length, 1);
  t.throws(() => statSync(scratchDir), { code: 'ENOENT' });
});

t.test('a stop ends a trial at once, and leaves nothing of it', async (t) => {
  const { open, cacheDir, scratchDir } = makePlace(t);
  const [engine, stopping] = [new MadeEngine('mine'), new AbortController()];
  const choice = await open([engine], stopping.signal);
  const waiting = choice.chosen(never);
  waiting.catch(() => undefined);
  await until(() => engine.signals.length === 1, 'its probe');
  stopping.abort(new Error('the daemon stops'));
  await t.rejects(waiting, { message: 'the daemon stops' });
  await choice[Symbol.asyncDispose]();
  for (const dir of [scratchDir, cacheDir]) t.throws(() => statSync(dir), { code: 'ENOENT' });
});

t.test('where no engine can work by what is seen without a guest, there is no choice', async (t) => {
  const { open } = makePlace(t);
  const absent = (name: string) =>
    Object.assign(new MadeEngine(name), { obstacle: async () => 'it is not installed' });
  await t.rejects(open([absent('a'), absent('b')]), {
    code: 'unsupported',
    message:
      'no engine can run guests on this host: a (kvm): it is not installed; b (kvm): it is not installed',
  });
  t.match(await open([absent('a'), new MadeEngine('b')]), { state: 'trying' });
});

t.test('where no engine works, that is the answer, and it is found out again later', async (t) => {
  const { open, cacheDir } = makePlace(t);
  const lines: string[] = [];
  const keep = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const engine = new MadeEngine('mine', { answer: broken });
  const choice = await open([engine], never, keep);
  const failure = {
    code: 'unsupported',
    message: /^no engine can run guests on this host: mine .*out of order/,
  };
  await t.rejects(choice.chosen(never), failure);
  t.equal(choice.state, 'failed');
  t.match(choice.reason, failure.message);
  t.throws(() => choice.current, failure);
  t.match(lines, [/^no engine works: creates and forks fail/]);
  t.throws(() => statSync(cacheDir), { code: 'ENOENT' });
  await t.rejects(choice.chosen(never), failure);
  t.equal(engine.signals.length, 1, 'at once');
  const now = performance.now.bind(performance);
  t.intercept(performance, 'now', { value: () => now() + 60_000 });
  engine.probe = async () => works;
  t.equal(await choice.chosen(never), engine.asEngine);
  t.equal(choice.state, 'chosen');
});

t.test('a host on which guests start slowly is used, and says so', async (t) => {
  const { open, cache } = makePlace(t);
  const lines: string[] = [];
  const keep = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const engine = new MadeEngine('mine', { answer: works });
  const remembered = await cache([engine]);
  for (const ms of [29_999, 64_400]) {
    const tried = [{ name: 'mine', accelerator: 'kvm', verdict: 'works', ms }];
    await remembered.put({ engine: engine.asEngine, probe: works, tried });
    const choice = await open([engine], never, keep);
    const isSlow = ms > 30_000;
    t.equal(choice.isSlow, isSlow);
    t.equal(
      choice.reason,
      isSlow ? 'mine 1: well; slow: one was booted, saved and copied in 64 s' : 'mine 1: well',
    );
    t.match(lines, isSlow ? [/^guests start slowly on this host: .* in 64 s$/] : []);
  }
});
