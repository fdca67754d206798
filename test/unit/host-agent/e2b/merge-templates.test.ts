// Templates that two hosts have changed: both come to the same, whatever each of them heard first.
import t from 'tap';
import {
  areEqual,
  byNewestBuild,
  mergeTemplates,
  toShareable,
  toTagTimes,
} from '../../../../host-agent/src/e2b/templates/merge-templates.ts';
import type { Template, TemplateBuild } from '../../../../host-agent/src/e2b/templates/template.ts';

const build = (id: string, createdAtMs: number, tags: string[]): TemplateBuild => ({
  ...{ id, snapshotId: `snap_${id}`, createdAtMs, tags },
  ...{ vcpus: 1, memoryMib: 128, diskBytes: 1, defaults: { env: {} } },
});
const template = (builds: TemplateBuild[], tagTimes?: Record<string, number>): Template => ({
  ...{ id: 'tpl0', name: 'app', createdAtMs: 1, builds, ...(tagTimes && { tagTimes }) },
});
const shown = ({ builds }: Template) => builds.map(({ id, tags }) => [id, tags]);

t.test('the order does not count, and nothing changes a second time', (t) => {
  const all = [
    template([build('a', 10, ['default', 'v1'])]),
    template([build('b', 20, ['default'])]),
    template([build('a', 10, ['v1', 'best'])], { best: 30, default: 15 }),
    template([build('c', 20, ['default', 'v1'])], { v1: 40 }),
  ];
  const orders = [
    [0, 1, 2, 3],
    [3, 2, 1, 0],
    [2, 0, 3, 1],
    [1, 3, 0, 2],
  ];
  const merged = orders.map((order) => order.map((at) => all[at]!).reduce(mergeTemplates));
  for (const each of merged) t.ok(areEqual(each, merged[0]), JSON.stringify(each));
  t.same(shown(merged[0]!), [
    ['a', ['best']],
    ['c', ['default', 'v1']],
  ]);
  for (const each of all) t.ok(areEqual(mergeTemplates(merged[0]!, each), merged[0]), 'it is known');
  t.end();
});

t.test('the build that got a tag last has it, and one that lost all of its tags is gone', (t) => {
  const old = template([build('a', 10, ['default'])]);
  const next = [build('b', 20, ['default'])];
  const changed = { ...old, builds: next, tagTimes: toTagTimes(old, next, 20) };
  t.same(shown(mergeTemplates(old, changed)), [['b', ['default']]]);
  // The clock of that host is behind.
  const late = [build('c', 5, ['default'])];
  const later = { ...changed, builds: late, tagTimes: toTagTimes(changed, late, 5) };
  t.same(shown(mergeTemplates(changed, later)), [['c', ['default']]]);
  t.end();
});

t.test('a build whose snapshot was deleted takes no tag from a later one', (t) => {
  const old = template([build('a', 10, ['default'])]);
  const without = { ...old, builds: [], tagTimes: toTagTimes(old, [], 0) };
  t.same(shown(mergeTemplates(old, without)), []);
  const newer = template([build('b', 20, ['default'])]);
  t.same(shown(mergeTemplates(newer, without)), [['b', ['default']]]);
  t.end();
});

t.test('tags that no build has any more are few', (t) => {
  let now = template([]);
  for (let n = 0; n < 300; n++) {
    const tagged = [build('a', 1, ['default', `t${n}`])];
    now = { ...now, builds: tagged, tagTimes: toTagTimes(now, tagged, n) };
  }
  t.equal(Object.keys(now.tagTimes ?? {}).length, 102);
  t.ok(areEqual(mergeTemplates(now, now), now));
  for (const tag of ['__proto__', 'constructor', 'toString']) {
    const odd = mergeTemplates(template([build('a', 1, [tag])]), template([]));
    t.same(shown(odd), [['a', [tag]]]);
  }
  t.end();
});

t.test('others see no build whose snapshot they cannot have', (t) => {
  const own = template([build('a', 10, ['v1']), build('b', 20, ['default'])], { default: 20, v1: 10 });
  const there = template([build('a', 10, ['default', 'v1'])]);
  const shared = toShareable(own, ({ id }) => id === 'a');
  t.same(shown(mergeTemplates(there, shared)), [['a', ['default', 'v1']]]);
  t.end();
});

t.test('of two with one name all hosts choose the same', (t) => {
  const a = { ...template([build('a', 10, ['v1']), build('b', 30, ['v2'])]), id: 'tpl1' };
  const b = { ...template([build('c', 20, ['v1'])]), id: 'tpl2', createdAtMs: 99 };
  t.equal([a, b].sort(byNewestBuild)[0], a);
  t.equal([b, a].sort(byNewestBuild)[0], a);
  t.end();
});
