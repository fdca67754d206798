// Names, labels and comments of snapshots, labels of images, and the lists by them.
import t from 'tap';
import type { Images } from '../../host-agent/src/images/index.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { FakeImages } from './fake-images.ts';
import { startKeyed } from './keyed-daemon.ts';
import { ask, makeApp } from './support.ts';

const ABOUT = { name: 'golden', labels: { stage: 'ready', 'app.example/x': '' }, comment: 'a\n"comment" ü' };

t.test('a snapshot keeps name, labels and comment, over restarts', async (t) => {
  const home = await makeHome(t);
  const first = await startKeyed(t, { home });
  const { id } = await first.root('POST', '/sandboxes');
  const made = await first.root('POST', `/sandboxes/${id}/snapshot`, ABOUT);
  t.match(made, { status: 201, ...ABOUT });
  const plain = await first.root('POST', `/sandboxes/${id}/snapshot`);
  for (const field of ['name', 'labels', 'comment']) t.notOk(field in plain, field);
  await first.daemon.crash();
  const second = await startKeyed(t, { home });
  t.match(await second.root('GET', `/snapshots/${made.id}`), ABOUT);
  const unknown = await second.root('POST', `/sandboxes/${id}/snapshot`, { tag: 'x' });
  t.match(unknown, { status: 201, warnings: ['unknown field tag'] });
});

t.test('a change is made whole or not at all, and is an event', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`, ABOUT);
  await root('POST', `/sandboxes/${id}/snapshot`, { name: 'taken' });
  const change = (body: unknown) => root('PATCH', `/snapshots/${snapshot}`, body);
  const many = Object.fromEntries(Array.from({ length: 63 }, (_, at) => [`k${at}`, 'v']));
  for (const [body, status] of [
    [{ name: 'taken', comment: 'new' }, 409],
    [{ name: 'No', comment: 'new' }, 400],
    [{ labels: { 'a b': '1' }, comment: 'new' }, 400],
    [{ labels: many, comment: 'new' }, 400],
    [{ comment: 'x'.repeat(1025) }, 400],
  ] as const)
    t.equal((await change(body)).status, status, JSON.stringify(body).slice(0, 40));
  t.match(await root('GET', `/snapshots/${snapshot}`), ABOUT);
  t.equal(daemon.happened.filter(({ kind }) => kind === 'snapshot-changed').length, 0);
  const changed = await change({ name: 'golden', labels: { stage: 'tested', 'app.example/x': null } });
  t.match(changed, { status: 200, name: 'golden', comment: ABOUT.comment });
  t.same(changed.labels, { stage: 'tested' });
  const bare = await change({ name: null, labels: { stage: null }, comment: null });
  for (const field of ['name', 'labels', 'comment']) t.notOk(field in bare, field);
  t.equal(daemon.happened.filter(({ kind }) => kind === 'snapshot-changed').length, 2);
  t.match(await root('PATCH', '/snapshots/snap_0123456789abc', {}), { status: 404 });
});

t.test('50 changes of different labels at once are all there', async (t) => {
  const { root } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`, ABOUT);
  const change = (at: number) =>
    root('PATCH', `/snapshots/${snapshot}`, { labels: { [`k${at}`]: String(at) } });
  const answers = await Promise.all(Array.from({ length: 50 }, (_, at) => change(at)));
  for (const [at, { status, labels }] of answers.entries())
    t.match({ status, label: labels[`k${at}`] }, { status: 200, label: String(at) });
  const { labels, name, comment } = await root('GET', `/snapshots/${snapshot}`);
  const added = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, String(at)]));
  t.same({ labels, name, comment }, { ...ABOUT, labels: { ...ABOUT.labels, ...added } });
});

t.test('events of a snapshot have the name and labels that it had', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes', { labels: { of: 'sandbox' } });
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`, ABOUT);
  const { labels } = ABOUT;
  for (const body of [{}, { comment: ABOUT.comment, labels: { stage: 'ready', none: null } }])
    t.match(
      await root('PATCH', `/snapshots/${snapshot}`, body),
      { status: 200, labels },
      'it changes nothing',
    );
  await root('PATCH', `/snapshots/${snapshot}`, { name: 'silver', labels: { stage: 'tested' } });
  await root('DELETE', `/snapshots/${snapshot}`);
  const told = daemon.journal.read(0).flatMap(({ event }) => (event.snapshot === snapshot ? [event] : []));
  t.match(told, [
    { kind: 'snapshot-taken', name: 'golden', labels },
    {
      kind: 'snapshot-changed',
      name: 'silver',
      labels: { ...labels, stage: 'tested' },
      changed: ['name', 'labels'],
    },
    { kind: 'snapshot-deleted', name: 'silver', labels: { ...labels, stage: 'tested' } },
  ]);
  t.equal(told.length, 3);
});

t.test(
  'a name is unique within a tenant, also among concurrent requests, and free after a delete',
  async (t) => {
    const { as } = await startKeyed(t);
    const [one, other] = [await as({ tenant: 'x' }), await as({ tenant: 'y' })];
    const { id } = await one('POST', '/sandboxes');
    const { id: theirs } = await other('POST', '/sandboxes');
    const take = () => one('POST', `/sandboxes/${id}/snapshot`, { name: 'n' });
    const answers = await Promise.all([take(), take(), take()]);
    t.same(answers.map(({ status }) => status).sort(), [201, 409, 409]);
    t.match(await other('POST', `/sandboxes/${theirs}/snapshot`, { name: 'n' }), { status: 201 });
    const first = answers.find(({ status }) => status === 201)?.id;
    t.match(await other('PATCH', `/snapshots/${first}`, { comment: 'mine' }), { status: 404 });
    t.equal((await one('DELETE', `/snapshots/${first}`)).status, 204);
    t.equal((await take()).status, 201);
  },
);

t.test('a change needs the operation snapshot', async (t) => {
  const { as, root } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`);
  const reader = await as({ policy: { operations: ['read', 'delete', 'fork'] } });
  t.match(await reader('PATCH', `/snapshots/${snapshot}`, { comment: 'x' }), { status: 403 });
});

t.test('lists by label and name, also page by page', async (t) => {
  const { root } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  for (let at = 0; at < 6; at++)
    await root('POST', `/sandboxes/${id}/snapshot`, {
      name: `s${at}`,
      labels: { parity: String(at % 2), ...(at > 3 && { late: '' }) },
    });
  const list = async (query: string) => {
    const { snapshots, next_cursor, status } = await root('GET', `/snapshots?${query}`);
    return { names: snapshots?.map(({ name }: { name: string }) => name), next_cursor, status };
  };
  t.same((await list('label=parity%3D1')).names, ['s1', 's3', 's5']);
  t.same((await list('label=parity=1&label=late')).names, ['s5']);
  t.same((await list('label=late=')).names, ['s4', 's5']);
  t.same((await list('name=s2')).names, ['s2']);
  t.same((await list('name=none')).names, []);
  t.same((await list('label=parity=2')).names, []);
  t.equal((await list('label=a%20b')).status, 400);
  const page = await list('label=parity=0&limit=2');
  t.same(page.names, ['s0', 's2']);
  t.same((await list(`label=parity=0&limit=2&cursor=${page.next_cursor}`)).names, ['s4']);
});

t.test('an export carries them; an import has its name if that is free', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`, ABOUT);
  const read = async () => {
    const archive = daemon.manager.exportSnapshot(snapshot);
    const parts: Uint8Array[] = [];
    for (let part = await archive.next(); part !== undefined; part = await archive.next())
      parts.push(part.bytes);
    return Buffer.concat(parts);
  };
  const bytes = await read();
  const second = await root('POST', '/snapshots/import', bytes);
  t.match(second, { status: 201, labels: ABOUT.labels, comment: ABOUT.comment });
  t.notOk('name' in second);
  await root('PATCH', `/snapshots/${snapshot}`, { name: null });
  t.match(await root('POST', '/snapshots/import', bytes), { status: 201, ...ABOUT });
});

t.test('images have labels of their configuration and of this daemon', async (t) => {
  const { app } = makeApp({ images: new FakeImages().store as Images });
  const change = (body: unknown) => ask(app, 'PATCH', '/images/nginx:alpine', JSON.stringify(body));
  t.match(await change({ user_labels: { stage: 'tested' } }), {
    status: 200,
    body: { labels: { a: 'b' }, user_labels: { stage: 'tested' } },
  });
  const list = async (query: string) =>
    ((await ask(app, 'GET', `/images?${query}`)).body as { images: unknown[] }).images.length;
  for (const query of ['label=a=b', 'label=stage', 'label=a&label=stage=tested', 'name=nginx:alpine'])
    t.equal(await list(query), 1, query);
  for (const query of ['label=a=c', 'label=none', 'name=nginx', 'name=%20'])
    t.equal(await list(query), 0, query);
  t.match(await change({ user_labels: { 'a b': '' } }), { status: 400 });
  t.match(await change({ user_labels: { stage: null } }), { status: 200 });
  t.equal(await list('label=stage'), 0);
});
