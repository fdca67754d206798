// The engine choice: cached while machine and programs are unchanged, and replaced if it starts no guest.
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type EngineChoice, FirstStartError } from '../../../../host-agent/src/engines/choice.ts';
import type { Try } from '../../../../host-agent/src/engines/select.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { makePlace } from '../../../support/choice-place.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { MadeEngine, works } from '../../../support/made-engines.ts';
import { until } from '../../../support/until.ts';

const never = new AbortController().signal;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const broken = { isUsable: false, reason: 'out of order' } as const;

const tryOf = (name: string, verdict: string, accelerator = 'kvm'): Try => ({
  name,
  accelerator,
  verdict,
  ms: 1,
});
const fault = (stage: string) => new AppError('internal', `it died\nregisters`, { stage });
const failing = (choice: EngineChoice, error: Error) => () =>
  choice.bootOrReplaceEngine(() => Promise.reject(error), never);

t.test('a cached choice is found by name and accelerator, and passed to the engine', async (t) => {
  const { cache, cacheDir } = makePlace(t);
  const [other, engine] = [new MadeEngine('q', { accelerator: 'tcg' }), new MadeEngine('q')];
  const both = [other.asEngine, engine.asEngine];
  const kept = await cache([other, engine]);
  t.equal(await kept.find(both), undefined, 'nothing was');
  await kept.put({ engine: engine.asEngine, probe: works, tried: [tryOf('q', 'works')] });
  const [name = ''] = readdirSync(cacheDir);
  t.match(name, /^[0-9a-f]{16}\.json$/);
  const text = readFileSync(join(cacheDir, name), 'utf8');
  t.match(text, /^\{\n {2}"formatVersion": 1,[\s\S]*\}\n$/);
  t.equal(statSync(cacheDir).mode & 0o777, 0o700);
  t.equal(statSync(join(cacheDir, name)).mode & 0o777, 0o600);
  const found = await kept.find(both);
  t.equal(found?.engine, engine.asEngine);
  t.strictSame(found?.probe, works);
  t.notOk(Object.hasOwn(found?.probe ?? {}, 'memo'));
  t.same(found?.tried, [tryOf('q', 'works')]);
  t.strictSame(engine.recalled, works);
  t.equal(other.recalled, undefined);
  const probe = { ...works, memo: 'of the probe' };
  await kept.put({ engine: engine.asEngine, probe, tried: [] });
  t.strictSame((await kept.find(both))?.probe, probe);
  t.strictSame(engine.recalled, probe);

  t.equal(await kept.find([other.asEngine]), undefined, 'of another accelerator');
  t.equal(await kept.find([new MadeEngine('p').asEngine]), undefined, 'of another name');
  for (const wrong of [text.replace('"formatVersion": 1', '"formatVersion": 2'), '{', '']) {
    writeFileSync(join(cacheDir, name), wrong);
    t.equal(await kept.find(both), undefined);
  }
  await kept.drop();
  t.same(readdirSync(cacheDir), []);
  await kept.drop();
});

t.test('one behind which a better one failed is kept for an hour, and none of the future', async (t) => {
  const { cache } = makePlace(t);
  const clock = new FakeClock(t);
  const engine = new MadeEngine('mine');
  const kept = await cache([engine]);
  const ageOf = async (tried: readonly Try[], ageMs: number) => {
    await kept.put({ engine: engine.asEngine, probe: works, tried });
    clock.nowMs += ageMs;
    return (await kept.find([engine.asEngine])) !== undefined;
  };
  const mine = tryOf('mine', 'works');
  const failed = tryOf('better', 'out of order');
  t.equal(await ageOf([mine], 365 * DAY_MS), true);
  t.equal(await ageOf([failed, mine], HOUR_MS + 1), false);
  t.equal(await ageOf([failed, mine], HOUR_MS - 5000), true);
  t.equal(await ageOf([mine, failed], 2 * HOUR_MS), true, 'what came behind it is no reason');
  t.equal(await ageOf([mine, failed, tryOf('other', 'works')], 2 * HOUR_MS), true);
  t.equal(await ageOf([tryOf('mine', 'out of order', 'tcg'), mine], 2 * HOUR_MS), false, 'of the same name');
  t.equal(await ageOf([tryOf('other', 'out of order'), mine], 2 * HOUR_MS), false, 'of the same accelerator');
  t.equal(await ageOf([tryOf('other', 'works'), mine], 2 * HOUR_MS), true);
  t.equal(await ageOf([mine], -1), false);
  await kept.put({ engine: engine.asEngine, probe: works, tried: [failed, mine] });
  t.ok(await kept.find([engine.asEngine]), 'it is as old as it is now');
});

t.test('other circumstances have files of their own, and those that are over go', async (t) => {
  const { cache, cacheDir, kernel } = makePlace(t);
  const engine = new MadeEngine('mine');
  const put = async (engines: readonly MadeEngine[], digest?: string) =>
    (await cache(engines, digest)).put({ engine: engine.asEngine, probe: works, tried: [] });
  const files = async (change: () => unknown): Promise<number> => {
    await change();
    return readdirSync(cacheDir).length;
  };
  t.equal(await files(() => put([engine])), 1);
  t.equal(await files(() => put([engine])), 1, 'the same');
  t.equal(await files(() => put([engine], 'another digest')), 2);
  t.equal(await files(() => put([engine, new MadeEngine('other')])), 3);
  t.equal(await files(() => put([new MadeEngine('mine', { accelerator: 'tcg' })])), 4);
  engine.program = 'another';
  t.equal(await files(() => put([engine])), 5);
  utimesSync(kernel.initramfsPath, 1, 1);
  t.equal(await files(() => put([engine])), 6);
  writeFileSync(kernel.vmlinuxPath, 'longer than it was before');
  utimesSync(kernel.vmlinuxPath, 1, 1);
  t.equal(await files(() => put([engine])), 7);
  writeFileSync(kernel.vmlinuxPath, 'shorter');
  utimesSync(kernel.vmlinuxPath, 1, 1);
  t.equal(await files(() => put([engine])), 8);

  const [old, lately] = readdirSync(cacheDir).map((name) => join(cacheDir, name));
  const ago = (ms: number): number => (Date.now() - ms) / 1000;
  utimesSync(old!, ago(0), ago(30 * DAY_MS + 60_000));
  utimesSync(lately!, ago(0), ago(30 * DAY_MS - 60_000));
  await put([engine], 'one more');
  const left = readdirSync(cacheDir).map((name) => join(cacheDir, name));
  t.equal(left.length, 8);
  t.notOk(left.includes(old!));
  t.ok(left.includes(lately!));
});

t.test('what is chosen is kept with why, and nothing is probed while that is known', async (t) => {
  const { choose, cacheDir, scratchDir } = makePlace(t);
  const [first, slow] = [
    new MadeEngine('first', { answer: broken }),
    new MadeEngine('slow', { answer: works }),
  ];
  let seen: string[] = [];
  const { probe } = slow;
  slow.probe = (signal) => {
    seen = [String(statSync(scratchDir).mode & 0o777)];
    return probe.call(slow, signal);
  };
  const choice = await choose([first, slow]);
  t.equal(choice.current, slow.asEngine);
  t.equal(choice.version, '1');
  t.match(choice.reason, /^slow 1: well; first \(kvm\): out of order, \d+ ms$/);
  t.match(choice.tried, [{ name: 'first' }, { name: 'slow' }]);
  t.same(seen, [String(0o700)], 'there is a directory for it');
  t.throws(() => statSync(scratchDir), { code: 'ENOENT' });
  t.equal(readdirSync(cacheDir).length, 1);
  const again = await choose([first, slow]);
  t.equal(again.current, slow.asEngine);
  t.equal(slow.signals.length, 1);
  t.same(again.tried, choice.tried);
  const alone = await choose([new MadeEngine('alone', { answer: works })]);
  t.equal(alone.reason, 'alone 1: well');
  const [fast, same] = [
    new MadeEngine('same', { answer: broken }),
    new MadeEngine('same', { accelerator: 'tcg', answer: works }),
  ];
  t.match((await choose([fast, same])).reason, /^same 1: well; same \(kvm\): out of order/);
});

t.test('a place that takes no choice changes none', async (t) => {
  const place = makePlace(t);
  writeFileSync(join(place.cacheDir, '..', '..', 'cache'), 'no directory');
  const engine = new MadeEngine('mine', { answer: works });
  t.equal((await place.choose([engine])).current, engine.asEngine);
  t.equal((await place.choose([engine])).current, engine.asEngine);
  t.equal(engine.signals.length, 2);
});

t.test('who gives up the first choice gets no engine', async (t) => {
  const { choose, cacheDir, scratchDir } = makePlace(t);
  const engine = new MadeEngine('mine');
  const closing = new AbortController();
  const choosing = choose([engine], closing.signal);
  choosing.catch(() => undefined);
  await until(() => engine.signals.length === 1, 'its probe');
  closing.abort(new Error('enough'));
  await t.rejects(choosing, { message: 'enough' });
  await until(() => !existsSync(scratchDir), 'the end of the trial');
  t.throws(() => statSync(cacheDir), { code: 'ENOENT' });
});

t.test('an engine whose first guest does not start is replaced once for all who found out', async (t) => {
  const { choose } = makePlace(t);
  const [first, second, third] = ['first', 'second', 'third'].map(
    (name) => new MadeEngine(name, { answer: works }),
  ) as [MadeEngine, MadeEngine, MadeEngine];
  const choice = await choose([first, second, third]);
  const begun = choice.current;
  const gate = Promise.withResolvers<never>();
  const late = choice.bootOrReplaceEngine(() => gate.promise, never);
  late.catch(() => undefined);
  const both = [1, 2].map(() => failing(choice, fault('spawn'))());
  for (const one of both)
    await t.rejects(one, { name: 'FirstStartError', isReplaced: true, cause: { message: /^it died/ } });
  t.equal(second.signals.length, 1, 'it is tried once');
  t.equal(choice.current, second.asEngine);
  t.match(choice.tried, [
    { name: 'first', accelerator: 'kvm', verdict: 'the first guest did not start: it died' },
    { name: 'second', verdict: 'works' },
  ]);
  gate.reject(fault('agent'));
  await t.rejects(late, { name: 'FirstStartError', isReplaced: true });
  t.equal(choice.current, second.asEngine, 'whoever began on the one before has no say on this one');
  choice.markProven(second.asEngine);
  await t.rejects(failing(choice, fault('boot'))(), { name: 'AppError', message: /^it died/ });
  t.equal(choice.current, second.asEngine, 'a guest ran on it');
  t.equal(await choice.bootOrReplaceEngine(async () => 'its result', never), 'its result');
  // The next daemon reads the cache and starts with that engine.
  const next = await choose([first, second, third]);
  t.not(next.current, begun);
  t.equal(next.current, second.asEngine);
  t.match(next.tried, [{ verdict: /did not start/ }, { name: 'second' }]);
});

t.test('a failure that is not the engine’s does not replace it', async (t) => {
  const { choose } = makePlace(t);
  const [first, second] = [
    new MadeEngine('first', { answer: works }),
    new MadeEngine('second', { answer: works }),
  ];
  const choice = await choose([first, second]);
  for (const error of [
    new Error('of no stage'),
    new AppError('exhausted', 'the disk is full', { stage: 'boot' }),
    new AppError('internal', 'of another stage', { stage: 'network' }),
    new AppError('internal', 'of no stage'),
    Object.assign(new Error('one that only looks so'), { code: 'internal', details: { stage: 'boot' } }),
  ])
    t.equal(await failing(choice, error)().catch((cause) => cause), error);
  const gone = new AbortController();
  await t.rejects(
    choice.bootOrReplaceEngine(async () => {
      gone.abort(new Error('the client left'));
      throw fault('boot');
    }, gone.signal),
    { message: 'the client left' },
  );
  t.equal(choice.current, first.asEngine);
  t.equal(second.signals.length, 0);
});

t.test(
  'where no other works the first choice is tried again, and forgotten by the next daemon',
  async (t) => {
    const { choose, cacheDir } = makePlace(t);
    const [first, second] = [
      new MadeEngine('first', { answer: works }),
      new MadeEngine('second', { answer: broken }),
    ];
    const choice = await choose([first, second]);
    const died = fault('agent');
    const error = await failing(choice, died)().catch((cause) => cause);
    t.match(error, { name: 'FirstStartError', isReplaced: false });
    t.equal(error.cause, died, 'another could have been allowed');
    t.equal(choice.current, first.asEngine);
    t.match(choice.tried, [{ name: 'first', verdict: 'works' }]);
    t.equal(choice.tried.length, 1);
    t.same(readdirSync(cacheDir), []);
    await t.rejects(failing(choice, died)(), { name: 'FirstStartError', isReplaced: false });
    t.equal(second.signals.length, 2, 'it is asked anew');
    const only = await choose([first]);
    await t.rejects(failing(only, died)(), {
      isReplaced: false,
      cause: {
        name: 'AppError',
        code: 'internal',
        message: /registers; no guest has run on the engine first so far, and --engine allows no other$/,
        details: { stage: 'agent' },
        cause: died,
      },
    });
  },
);

t.test('work is repeated on another engine, at most once for each engine', async (t) => {
  const { choose } = makePlace(t);
  const choice = await choose(['a', 'b'].map((name) => new MadeEngine(name, { answer: works })));
  const runs = async (results: readonly (Error | string)[]) => {
    let run = 0;
    const work = async () => {
      const result = results[run++];
      if (typeof result === 'string') return result;
      throw result;
    };
    return { result: await choice.withReplacement(work).catch((error) => error), run };
  };
  const [replaced, last] = [1, 2].map((n) => new FirstStartError(true, new Error(`cause ${n}`)));
  t.same(await runs(['done']), { result: 'done', run: 1 });
  t.match(await runs([replaced!, 'done']), { result: 'done', run: 2 });
  t.match(await runs([replaced!, last!, 'never']), { result: { message: 'cause 2' }, run: 2 });
  t.match(await runs([new FirstStartError(false, new Error('why')), 'never']), {
    result: { message: 'why' },
    run: 1,
  });
  t.match(await runs([new Error('its own'), 'never']), { result: { message: 'its own' }, run: 1 });
});

t.test('a choice that is under way ends with the daemon, and with who waits for it', async (t) => {
  const { choose } = makePlace(t);
  const [first, second] = [new MadeEngine('first', { answer: works }), new MadeEngine('second')];
  const choice = await choose([first, second]);
  const gone = new AbortController();
  const left = choice.bootOrReplaceEngine(() => Promise.reject(fault('boot')), gone.signal);
  const waiting = failing(choice, fault('boot'))();
  for (const one of [left, waiting]) one.catch(() => undefined);
  await until(() => second.signals.length === 1, 'a probe');
  gone.abort(new Error('the client left'));
  await t.rejects(left, { message: 'the client left' });
  t.equal(second.signals[0]?.aborted, false, 'others wait for it');
  await choice[Symbol.asyncDispose]();
  t.match(second.signals[0]?.reason, { code: 'cancelled', message: 'the daemon is stopping' });
  t.equal(choice.current, first.asEngine, 'it is over when the daemon goes on');
  await t.rejects(waiting, { name: 'FirstStartError', isReplaced: false });
  await choice[Symbol.asyncDispose]();
});
