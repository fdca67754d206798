// Profiles that are baked by the first who wants them; the bake itself is a stand-in here.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { RootfsFinder } from '../../../../host-agent/src/images/index.ts';
import { Bakery, type BakeryOptions, Profiles } from '../../../../host-agent/src/images/profiles.ts';
import { BuilderError, type BuilderErrorCode } from '../../../../rootfs-builder/src/errors.ts';

type Bake = NonNullable<BakeryOptions['bake']>;

async function makeProfiles(t: Test, bake: Bake) {
  const dataDir = await mkdtemp(join(tmpdir(), 'bakery-'));
  t.teardown(() => rm(dataDir, { recursive: true }));
  const options = { dataDir, agentDir: '/agent', npmDir: '/npm', log: pino({ level: 'silent' }), bake };
  const bakery = new Bakery(options);
  return { bakery, profiles: new Profiles(dataDir, bakery), bare: new Profiles(dataDir) };
}

t.test('several who want a profile wait for one bake, which goes on without them', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const names: string[] = [];
  const { bakery } = await makeProfiles(t, async ({ recipe, signal }) => {
    names.push(recipe.name);
    await promise;
    t.notOk(signal?.aborted, 'nobody who left ended it');
    return {} as Awaited<ReturnType<Bake>>;
  });
  const leaving = new AbortController();
  const left = bakery.make('base', leaving.signal);
  const waiting = bakery.make('base');
  leaving.abort(new Error('gone'));
  await t.rejects(left, { message: 'gone' });
  resolve();
  await waiting;
  t.same(names, ['base']);
});

t.test('a stop ends a bake, and waits for its end', async (t) => {
  let isOver = false;
  const begun = Promise.withResolvers<void>();
  const { bakery } = await makeProfiles(t, async ({ signal }) => {
    begun.resolve();
    await new Promise((resolve) => signal?.addEventListener('abort', resolve));
    await new Promise(setImmediate);
    isOver = true;
    throw new Error('ended');
  });
  const made = t.rejects(bakery.make('base'), { code: 'cancelled' });
  await begun.promise;
  await bakery.stop();
  await made;
  t.ok(isOver);
});

t.test('a failure is reported to the client, with what to do', async (t) => {
  const cases: [BuilderErrorCode | undefined, string][] = [
    ['command_failed', 'upstream'],
    ['host_disk_full', 'exhausted'],
    ['apt_sources_missing', 'unsupported'],
    [undefined, 'internal'],
  ];
  for (const [code, expected] of cases) {
    const error = code === undefined ? new Error('why') : new BuilderError(code, 'why\nsecond line');
    const { profiles } = await makeProfiles(t, () => Promise.reject(error));
    await t.rejects(profiles.obtain('base'), {
      code: expected,
      message: /^profile base is not baked yet, and cannot be: why; run `sandboxd profiles bake base`/,
    });
  }
});

t.test('only a built-in profile that is not here is to be baked, and only for who pulls', async (t) => {
  const { profiles, bare } = await makeProfiles(t, () => Promise.reject(new BuilderError('layer_size', 'x')));
  t.ok(await profiles.isToBeBaked('base'));
  t.same(await profiles.listUnbaked(), ['base', 'python-3.11', 'node', 'e2b-base', 'code']);
  t.same(await bare.listUnbaked(), []);
  for (const name of ['nope', '../base', '']) t.notOk(await profiles.isToBeBaked(name), name);
  t.notOk(await bare.isToBeBaked('base'), 'without a bakery');
  await t.rejects(profiles.obtain('nope'), { code: 'invalid_argument' });
  const finder = new RootfsFinder({ profiles, agentPath: async () => '/agent' });
  t.match(await finder.find({ kind: 'profile', name: 'base' }, 'never', {}), { rootfs: { digest: '' } });
  await t.rejects(finder.find({ kind: 'profile', name: 'base' }, 'missing', {}), { code: 'unsupported' });
});
