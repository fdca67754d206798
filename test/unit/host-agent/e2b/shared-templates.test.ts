// Templates of two hosts with one bucket: what each finds of the other, whatever fails between them.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SharedTemplates, TemplateRecords } from '../../../../host-agent/src/e2b/index.ts';
import type { TemplateBuild } from '../../../../host-agent/src/e2b/templates/template.ts';
import type { Principal } from '../../../../host-agent/src/keys/index.ts';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import type { LifecycleEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import type { SnapshotFacts } from '../../../../host-agent/src/sandboxes/stored/snapshot-facts.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

const key = (tenant: string) =>
  ({ kind: 'key', id: '0'.repeat(16), key: `of ${tenant}`, tenant }) as Principal;
const ACME = key('acme');
const OTHER = key('other');

async function prepare(t: Test) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const home = async () => {
    const dir = await mkdtemp(join(tmpdir(), 'templates-'));
    t.teardown(() => rm(dir, { recursive: true, force: true }));
    return dir;
  };
  /** `storage`: of all snapshots, until it is changed. */
  const host = async (dir: string, storage: SnapshotFacts['storage'] = 'stored', isAway = false) => {
    const registry = await Store.open(join(dir, 'state.lmdb'));
    const { store } = openTestStore(t, settings);
    const visibleTo = (principal: Principal) => (owner?: { readonly tenant?: string }) =>
      owner?.tenant === (principal as { readonly tenant?: string }).tenant;
    const records = new TemplateRecords(registry, visibleTo as never);
    const facts = { storage };
    const removed: string[] = [];
    const listeners: ((event: LifecycleEvent) => void)[] = [];
    const shared = new SharedTemplates({
      ...{ records, store: store.templates, maxAgeMs: 0, maxTemplates: 2, log: pino({ level: 'silent' }) },
      factsOf: () => facts,
      isDeleted: (id, signal) => store.isDeleted(id, signal),
      events: {
        subscribe: (listener: (event: LifecycleEvent) => void) => void listeners.push(listener),
      } as never,
    });
    let isOver = false;
    const stop = async () => {
      if (isOver) return;
      isOver = true;
      await shared.stop();
      await registry.close();
    };
    t.teardown(stop);
    const superseded: string[] = [];
    shared.start({
      removeSnapshots: async (ids) => void removed.push(...ids),
      removeSuperseded: async (template) => {
        for (const { snapshotId } of records.superseded(template))
          if (!shared.isNamed(template, snapshotId)) superseded.push(snapshotId);
      },
    });
    const hasRead = () => {
      try {
        shared.assertRead('');
        return true;
      } catch {
        return false;
      }
    };
    // A busy machine takes longer than a request waits.
    do await shared.refresh();
    while (!isAway && !hasRead());
    const emit = (event: object) => {
      for (const listen of listeners) listen(event as LifecycleEvent);
    };
    return { records, shared, facts, removed, superseded, emit, see: () => shared.refresh(), stop };
  };
  return { s3, settings, home, host };
}

t.setTimeout(scaled(120_000));
let count = 0;
const build = (tags: string[], createdAtMs = Date.now()): TemplateBuild => ({
  ...{ id: `build-${count++}`, snapshotId: newId('snap'), createdAtMs, tags },
  ...{ vcpus: 1, memoryMib: 128, diskBytes: 1, defaults: { env: { A: 'b' }, user: 'me' } },
});

t.test('what a host has built, tagged and deleted another one finds, for the same tenant', async (t) => {
  const { home, host } = await prepare(t);
  const [a, b, c] = [await host(await home()), await host(await home()), await host(await home(), 'remote')];
  const { id } = a.records.plan(ACME, 'app');
  const first = build(['default', 'v1']);
  await a.records.addBuild(id, first, true);
  await b.see();
  t.match(b.records.findBuild(ACME, 'app:v1'), { ...first, tags: ['default', 'v1'] });
  t.equal(b.records.findBuild(OTHER, 'app'), undefined);
  t.equal(b.records.find(OTHER, id), undefined);
  t.equal(b.records.plan(ACME, 'app').id, id, 'a further build is of the same template');
  t.not(b.records.plan(OTHER, 'app').id, id);

  const second = build(['default']);
  await b.records.addBuild(id, second, true);
  t.same(b.records.superseded(), [], 'the first has a tag');
  await b.records.removeTags(id, ['v1'], true);
  t.same(b.records.superseded(id), [{ template: id, snapshotId: first.snapshotId }]);
  t.notOk(b.shared.isNamed(id, first.snapshotId));
  await a.see();
  t.match(a.records.list(ACME), [{ id, builds: [{ id: second.id, tags: ['default'] }] }]);
  await c.see();
  t.equal(c.records.list(ACME).length, 1);
  await a.records.delete(id);
  for (const { see, records } of [b, c]) {
    await see();
    t.same(records.list(ACME), []);
  }
  t.same([b.removed, c.removed], [[second.snapshotId], []]);
  t.same(a.records.stored(), [], 'nothing is left of it');
});

t.test('a tag for a build that is gone takes no tag from another one', async (t) => {
  const { home, host } = await prepare(t);
  const { records } = await host(await home());
  const { id } = records.plan(ACME, 'app');
  await records.addBuild(id, build(['default']), true);
  const before = records.get(ACME, id);
  await t.rejects(records.addTags(id, 'gone', ['default'], true), {
    status: 404,
    message: /build was deleted/,
  });
  t.same(records.get(ACME, id), before);
});

t.test('a build is written when the store has its snapshot, not before', async (t) => {
  const { s3, home, host } = await prepare(t);
  const a = await host(await home(), 'uploading');
  const { id } = a.records.plan(ACME, 'app');
  const made = build(['default']);
  await a.records.addBuild(id, made, true);
  t.equal(s3.count('PUT', /templates/), 0);
  a.facts.storage = 'stored';
  a.emit({ kind: 'snapshot-stored', snapshot: made.snapshotId });
  await until(() => s3.count('PUT', /templates/) === 1, 'it is written');
});

t.test('deleted templates hide none of the others', async (t) => {
  const { settings, home, host } = await prepare(t);
  const { store } = openTestStore(t, settings);
  const id = (n: number) => `tpl${String(n).padStart(24, '0')}`;
  for (const n of [1, 2, 3])
    await store.templates.write(
      { id: id(n), name: 'gone', createdAtMs: 1, builds: [], deletedAtMs: 2 },
      undefined,
    );
  for (const n of [4, 5, 6]) {
    const owner = { key: 'one', tenant: 'acme' };
    const there = { id: id(n), name: `app${n}`, owner, createdAtMs: 1, builds: [build(['default'])] };
    await store.templates.write(there, undefined);
  }
  const { records, see } = await host(await home());
  t.equal(records.list(ACME).length, 2, 'as many as are read');
  await see();
  t.equal(records.list(ACME).length, 2);
  await records.delete(id(4));
  await see();
  t.same(
    records.list(ACME).map((each) => each.id),
    [id(5), id(6)],
  );
});

t.test('what a build takes the place of stays while other hosts can only find that', async (t) => {
  const { s3, home, host } = await prepare(t);
  const dir = await home();
  const a = await host(dir);
  const { id } = a.records.plan(ACME, 'app');
  const [first, second, third] = [build(['default']), build(['default']), build(['default'])];
  await a.records.addBuild(id, first, true);
  a.facts.storage = 'uploading';
  await a.records.addBuild(id, second, true);
  t.ok(a.shared.isNamed(id, first.snapshotId), 'it was not uploaded');
  t.same(a.superseded, []);
  a.facts.storage = 'stored';
  await a.shared.share(id);
  t.same(a.superseded, [first.snapshotId]);
  await a.records.forgetSuperseded(first.snapshotId);
  s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  await a.records.addBuild(id, third, true);
  t.ok(a.shared.isNamed(id, second.snapshotId), 'it was not published');
  await a.stop();
  s3.fault = () => undefined;
  const again = await host(dir);
  await until(() => again.superseded.includes(second.snapshotId), 'the next daemon goes on');
});

t.test(
  'a delete while a host is off is seen at its next start; a change while the bucket is away, later',
  async (t) => {
    const { s3, home, host } = await prepare(t);
    const dirs = [await home(), await home()];
    const a = await host(dirs[0]!);
    const b = await host(dirs[1]!);
    const [one, two] = [a.records.plan(ACME, 'one').id, a.records.plan(ACME, 'two').id];
    const late = build(['late']);
    for (const id of [one, two]) await a.records.addBuild(id, build(['default']), true);
    await b.see();
    await a.stop();
    await b.records.delete(one);
    await b.records.addTags(two, b.records.get(ACME, two).builds[0]!.id, ['more'], true);

    s3.fault = () => ({ status: 403, code: 'AccessDenied' });
    const again = await host(dirs[0]!, 'stored', true);
    t.throws(() => again.shared.assertRead('none'), { status: 502, message: /may have the template none/ });
    t.equal(again.records.list(ACME).length, 2, 'what it knew');
    await again.records.addBuild(one, late, true);
    await again.records.addTags(two, again.records.get(ACME, two).builds[0]!.id, ['own'], true);
    await again.stop();
    s3.fault = () => undefined;
    const last = await host(dirs[0]!);
    last.shared.assertRead('none');
    t.match(last.records.list(ACME), [{ id: two, builds: [{ tags: ['default', 'more', 'own'] }] }]);
    t.ok(last.removed.includes(late.snapshotId), 'what was built of a deleted one goes, too');
    await b.see();
    t.match(b.records.list(ACME), [{ id: two, builds: [{ tags: ['default', 'more', 'own'] }] }]);
  },
);

t.test('two hosts that change one template at the same time lose nothing', async (t) => {
  const { home, host } = await prepare(t);
  const [a, b] = [await host(await home()), await host(await home())];
  const { id } = a.records.plan(ACME, 'app');
  await a.records.addBuild(id, build(['default']), true);
  await b.see();
  const tags = Array.from({ length: 8 }, (_, n) => `t${n}`);
  await Promise.all(tags.map((tag, n) => (n % 2 ? a : b).records.addBuild(id, build([tag]), true)));
  await Promise.all([a.see(), b.see()]);
  for (const { records } of [a, b])
    t.same(
      records
        .get(ACME, id)
        .builds.flatMap((each) => each.tags)
        .sort(),
      ['default', ...tags],
    );
  t.same(a.records.get(ACME, id), b.records.get(ACME, id));
  const c = await host(await home());
  t.same(c.records.get(ACME, id), a.records.get(ACME, id), 'a host without a directory of data');
});

t.test('one that cannot be read is left as it is, and hides no other', async (t) => {
  const { s3, settings, home, host } = await prepare(t);
  const dir = await home();
  const a = await host(dir);
  const [one, two] = [a.records.plan(ACME, 'one').id, a.records.plan(ACME, 'two').id];
  for (const id of [one, two]) await a.records.addBuild(id, build(['default']), true);
  const path = `${settings.prefix}/templates/${one}`;
  const damaged = { ...s3.objects.get(path)!, body: Buffer.from('x') };
  s3.objects.set(path, damaged);
  const b = await host(await home());
  t.match(b.records.list(ACME), [{ id: two }]);
  await a.records.addTags(one, a.records.get(ACME, one).builds[0]!.id, ['more'], true);
  t.equal(s3.objects.get(path)?.body, damaged.body);
  await a.records.addTags(two, a.records.get(ACME, two).builds[0]!.id, ['more'], true);
  await b.see();
  t.match(b.records.list(ACME), [{ id: two, builds: [{ tags: ['default', 'more'] }] }]);
});
