// Templates of clients of E2B in the bucket: what hosts write at the same time, what is damaged, and what is collected.
import t, { type Test } from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import type { StoredTemplate } from '../../../../host-agent/src/snapshot-store/index.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';

const { signal } = new AbortController();
const ID = `tpl${'a'.repeat(24)}`;
const DAY_MS = 24 * 3_600_000;

function make(more: Partial<StoredTemplate> = {}): StoredTemplate {
  const build = {
    ...{ id: 'b1', snapshotId: newId('snap'), createdAtMs: 1, tags: ['default'] },
    ...{ vcpus: 1, memoryMib: 128, diskBytes: 1, defaults: { env: { A: 'b' } } },
  };
  return {
    id: ID,
    name: 'secret-name',
    owner: { key: 'k', tenant: 'acme' },
    createdAtMs: 1,
    builds: [build],
    ...more,
  };
}

async function prepare(t: Test) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { store, collector } = openTestStore(t, settings);
  const path = `${settings.prefix}/templates/${ID}`;
  return { s3, settings, path, collector, templates: store.templates };
}

t.test('of two that write at the same time one begins again', async (t) => {
  const { s3, path, templates } = await prepare(t);
  t.equal(await templates.read(ID), undefined);
  t.equal(await templates.write(make(), undefined), true);
  t.equal(await templates.write(make(), undefined), false, 'there is one');
  const found = await templates.read(ID);
  // A field of a later version.
  const later = { ...found!.template, more: 7 };
  t.equal(await templates.write(later, found!.etag), true);
  t.equal(await templates.write(make(), found!.etag), false, 'it is another one by now');
  t.match((await templates.read(ID))?.template, { more: 7, name: 'secret-name' });
  const listed = [];
  for await (const page of templates.list()) listed.push(...page);
  t.match(listed, [{ id: ID, etag: String }]);
  const { body } = s3.objects.get(path)!;
  for (const text of ['secret-name', 'acme', 'default'])
    t.notOk(body.includes(text), `${text} is not readable`);
  t.notOk(await templates.write(make({ name: 'x' }), undefined));
  await t.rejects(
    templates.write(
      make({ builds: [{ ...make().builds[0]!, defaults: { env: { A: 'x'.repeat(4 * 2 ** 20) } } }] }),
      '',
    ),
    { code: 'too_large' },
  );
});

t.test('one that was moved, cut off or is of another key is refused, and nothing else with it', async (t) => {
  const { s3, settings, path, templates, collector } = await prepare(t);
  await templates.write(make(), undefined);
  const good = s3.objects.get(path)!;
  const other = `tpl${'b'.repeat(24)}`;
  s3.objects.set(path.replace(ID, other), good);
  await t.rejects(templates.read(other), { code: 'internal', message: /was changed/ });
  const { store } = openTestStore(t, makeStoreSettings(t, s3.url, { prefix: settings.prefix }));
  await t.rejects(store.templates.read(ID), { code: 'internal', message: /another key/ });
  s3.objects.set(path, { ...good, body: good.body.subarray(0, 40) });
  await t.rejects(templates.read(ID), { code: 'internal' });
  const { problems } = await collector.verify(false, signal);
  t.match(problems, [{ snapshot: ID }, { snapshot: other }]);
  const { templates: counted } = await collector.collect(signal);
  t.equal(counted, 2, 'it may be that of a later version');
  t.ok(s3.objects.has(path));
});

t.test('verify names a snapshot that is missing; gc removes what was deleted long ago', async (t) => {
  const { s3, path, templates, collector } = await prepare(t);
  await templates.write(make(), undefined);
  t.match(await collector.verify(false, signal), {
    templates: 1,
    problems: [{ snapshot: ID, problem: /its snapshot snap_\w+ is missing/ }],
  });
  t.equal((await collector.stats(signal)).templates, 1);
  s3.age(31 * DAY_MS);
  t.equal((await collector.collect(signal)).templates, 1, 'one that is used stays, however old');
  const found = await templates.read(ID);
  await templates.write(make({ builds: [], deletedAtMs: 2 }), found!.etag);
  s3.age(29 * DAY_MS);
  t.match(await collector.verify(false, signal), { templates: 0, problems: [] });
  await collector.collect(signal);
  t.ok(s3.objects.has(path), 'hosts that are off have not seen it');
  s3.age(2 * DAY_MS);
  await collector.collect(signal);
  t.notOk(s3.objects.has(path));
});
