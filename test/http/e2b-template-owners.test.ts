// Names of E2B's templates: whose are meant, what they may hide, and what deletions leave of them.
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type Created, type Json, serveE2b } from './e2b-front.ts';
import { startKeyed } from './keyed-daemon.ts';

async function start(t: Test, home?: Parameters<typeof startKeyed>[1]) {
  const keyed = await startKeyed(t, home);
  const { app, daemon, keyring } = keyed;
  const e2b = await serveE2b(t, { app, sandboxes: daemon.manager, keyring, daemon });
  let count = 0;
  const mint = async (wanted = {}) =>
    (await keyring.registry.create({ name: `k${count++}`, ...wanted }, 'e2b')).text;
  const post = async (key: string, path: string, body: object) => await e2b.ask('POST', path, { key, body });
  const create = async (key: string, templateID = 'base') =>
    await post(key, '/v2/sandboxes', { templateID, allow_internet_access: false });
  const take = async (key: string, { sandboxID }: Created, name: string) =>
    await post(key, `/sandboxes/${sandboxID}/snapshots`, { name });
  const list = async (key: string): Promise<Json> => (await e2b.ask('GET', '/templates', { key })).json;
  return { ...keyed, e2b, mint, post, create, take, list };
}

t.test('by name each key gets only what its own tenant has', async (t) => {
  const { e2b, mint, post, create, take, daemon } = await start(t);
  const [evil, admin] = [await mint({ tenant: 'evil' }), await mint()];
  const { json: theirs } = await create(evil);
  for (const name of ['ubuntu:22.04', 'my_app', 'plain'])
    t.equal((await take(evil, theirs, name)).status, 201);
  for (const name of ['ubuntu:22.04', 'my_app', 'plain']) {
    const made = await create(admin, name);
    t.ok(made.status >= 400, `${name}: ${made.text}`);
    t.equal((await create(evil, name)).status, 201, name);
  }
  t.equal((await e2b.ask('DELETE', '/templates/plain', { key: admin })).status, 404);
  t.equal((await e2b.ask('DELETE', '/templates/my_app', { key: admin })).status, 404);
  const [{ templateID } = { templateID: '' }] = (await e2b.ask('GET', '/templates', { key: evil })).json;
  t.equal((await e2b.ask('GET', `/templates/${templateID}`, { key: admin })).status, 200, 'by its id it may');
  const { json: own } = await create(admin);
  const { json: plain } = await take(admin, own, 'plain');
  await create(admin, 'plain');
  const copied = daemon.manager.list().map(({ sourceSnapshotId }) => sourceSnapshotId);
  t.equal(copied.filter((id) => id === plain.snapshotID).length, 1, 'of its own of that name');
  // What the operator has named is no name that a tenant could take.
  await e2b.names.set('given', 'plain');
  t.equal((await create(evil, 'given')).status, 404);
  const asked = await post(evil, '/v3/templates', { name: 'from' });
  const at = `/v2/templates/${asked.json.templateID}/builds/${asked.json.buildID}`;
  t.equal((await post(evil, at, { fromImage: 'plain' })).status, 202);
  const status = `/templates/${asked.json.templateID}/builds/${asked.json.buildID}/status`;
  let ended: Json;
  for (ended = {}; ended.status !== 'error'; ) ended = (await e2b.ask('GET', status, { key: evil })).json;
  t.notMatch(ended.reason.message, /not found: it is not a template/, 'an image without a tag is one');
});

t.test('a template that has no build hides nothing, and is not made without the right', async (t) => {
  const { e2b, mint, post, create, take, list } = await start(t);
  const key = await mint({ tenant: 'a' });
  const viewer = await mint({ tenant: 'a', policy: { operations: ['view'] } });
  const { json: made } = await create(key);
  t.equal((await take(viewer, made, 'my_app')).status, 403);
  t.equal((await take(key, { ...made, sandboxID: 'sbx0000000000000' }, 'my_app')).status, 404);
  t.same(await list(key), []);
  for (let at = 0; at < 20; at++) t.equal((await post(key, '/v3/templates', { name: 'first' })).status, 202);
  t.equal((await post(key, '/v3/templates', { name: 'second' })).status, 429);
  t.same(
    (await list(key)).map(({ names }: Json) => names),
    [['first']],
  );
  t.match((await create(key, 'first')).json.message, /no build that has ended well/);
  const narrow = await mint({ tenant: 'a', policy: { operations: ['create', 'exec', 'snapshot', 'view'] } });
  t.match(await post(narrow, '/v3/templates', { name: 'x' }), { status: 403, json: { message: /read/ } });
  await e2b.names.set('py.thon', 'python:3.11');
  const other = await mint({ tenant: 'b' });
  t.equal((await post(other, '/v3/templates', { name: 'py.thon' })).status, 409, 'the operator has named it');
  t.equal((await post(other, '/v3/templates', { name: 'my.app:v1' })).status, 202);
  const { json: theirs } = await create(other);
  t.equal((await take(other, theirs, 'my.app')).status, 201);
  t.equal((await create(other, 'my.app')).status, 201);
});

t.test('builds end with their snapshots, whoever deletes them', async (t) => {
  const { e2b, mint, create, take, list, root, daemon } = await start(t);
  const key = await mint({ tenant: 'a' });
  const { json: made } = await create(key);
  const { json: first } = await take(key, made, 'my_app');
  const { json: second } = await take(key, made, 'my_app:v2');
  await root('DELETE', `/snapshots/${first.snapshotID}`);
  await until(() => e2b.templates.buildOf(first.snapshotID) === undefined);
  t.equal((await list(key))[0].buildCount, 1);
  await take(key, made, 'my_app:v3');

  // A snapshot that cannot be deleted keeps no other.
  const deleteOne = daemon.manager.snapshots.delete.bind(daemon.manager.snapshots);
  daemon.manager.snapshots.delete = async (id, ...rest) => {
    if (id === second.snapshotID) throw new Error('the disk fails');
    await deleteOne(id, ...rest);
  };
  t.equal((await e2b.ask('DELETE', '/templates/my_app', { key })).status, 500);
  daemon.manager.snapshots.delete = deleteOne;
  t.same((await e2b.ask('GET', '/snapshots', { key })).json, [{ snapshotID: second.snapshotID, names: [] }]);
});

t.test('the next daemon finds what an earlier one has left', async (t) => {
  const { mint, create, take, keyring, app, daemon, root } = await start(t);
  const key = await mint({ tenant: 'a' });
  const { json: made } = await create(key);
  await take(key, made, 'my_app');
  await take(key, made, 'gone_app');
  const { id: left } = await root('POST', '/sandboxes', { name: 'e2b-build-x' });
  const { id: older } = await root('POST', '/sandboxes', {});
  await root('POST', `/sandboxes/${left}/snapshot`);
  await keyring.store.table('e2b_builds').put('e2b-build-x', {});
  await keyring.store.table('e2b_builds').put(older, {});
  // Its snapshot was deleted when nothing followed the events.
  await keyring.store.table('e2b_templates').put('tpl0', {
    name: 'none',
    createdAtMs: 0,
    builds: [{ id: 'x', snapshotId: 'snap_0000000000000', tags: ['default'], defaults: { env: {} } }],
  });
  const next = await serveE2b(t, { app, sandboxes: daemon.manager, keyring, daemon });
  t.same(
    daemon.manager.list().map(({ id }) => id.replace('_', '')),
    [made.sandboxID],
  );
  t.same(
    next.templates.list({ kind: 'operator' }).map(({ name }) => name),
    ['my_app', 'gone_app'],
  );
  t.equal((await next.ask('GET', '/snapshots', { key })).json.length, 2);
  t.same(keyring.store.table('e2b_builds').all(), []);
});
