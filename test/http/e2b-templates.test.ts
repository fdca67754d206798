// Templates of E2B that clients build: names and tags, whose they are, files for COPY, and the limits of builds. Builds
// with a guest are in test/vm/e2b.test.ts.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Created, type Json, serveE2b } from './e2b-front.ts';
import { startKeyed } from './keyed-daemon.ts';

async function start(t: Test) {
  const keyed = await startKeyed(t);
  const { app, daemon, keyring } = keyed;
  const e2b = await serveE2b(t, { app, sandboxes: daemon.manager, keyring, daemon });
  const mint = async (wanted = {}) =>
    (await keyring.registry.create({ name: `k${Math.random()}`, ...wanted }, 'e2b')).text;
  const request = async (key: string, body: object) =>
    await e2b.ask('POST', '/v3/templates', { key, body: { name: 'mine', ...body } });
  const build = (key: string, { templateID, buildID }: Json, body: object) =>
    e2b.ask('POST', `/v2/templates/${templateID}/builds/${buildID}`, { key, body });
  const status = async (key: string, { templateID, buildID }: Json, query = '') =>
    await e2b.ask('GET', `/templates/${templateID}/builds/${buildID}/status${query}`, { key });
  const ended = async (key: string, ids: Json): Promise<Json> =>
    await eventually(async () => {
      const { json } = await status(key, ids);
      return json.status === 'error' || json.status === 'ready' ? json : undefined;
    });
  return { ...keyed, e2b, mint, request, build, status, ended };
}

const HASH = 'a'.repeat(64);

/** The first value that is none of undefined. */
async function eventually<T>(read: () => Promise<T | undefined>): Promise<T> {
  const endMs = performance.now() + 30_000;
  for (;;) {
    const value = await read();
    if (value !== undefined) return value;
    if (performance.now() > endMs) throw new Error('it did not happen');
    await sleep(20);
  }
}

t.test('a name is one template of a tenant, and others do not see it', async (t) => {
  const { e2b, mint, request, status } = await start(t);
  const [a, b] = [await mint({ tenant: 'a' }), await mint({ tenant: 'b' })];
  const made = await request(a, { name: 'web:v1', tags: ['stable'] });
  t.match(made, { status: 202, json: { names: ['web'], tags: ['v1', 'stable'], public: false } });
  t.match(made.json.buildID, /^[0-9a-f-]{36}$/, 'their SDKs read a UUID');
  const again = await request(a, { name: 'web' });
  t.equal(again.json.templateID, made.json.templateID);
  t.same(again.json.tags, ['default']);
  const other = await request(b, { name: 'web' });
  t.not(other.json.templateID, made.json.templateID, 'another tenant has a template of its own');
  t.same(
    (await e2b.ask('GET', '/templates', { key: b })).json.map(({ templateID }: Json) => templateID),
    [other.json.templateID],
  );
  const at = `/templates/${made.json.templateID}`;
  for (const [method, path, body] of [
    ['GET', at, undefined],
    ['DELETE', at, undefined],
    ['GET', `${at}/tags`, undefined],
    ['GET', `${at}/files/${HASH}`, undefined],
    ['PATCH', `/v2${at}`, { public: true }],
    ['POST', `/v2${at}/builds/${made.json.buildID}`, { fromTemplate: 'base' }],
    ['POST', '/templates/tags', { target: `${made.json.templateID}`, tags: ['x'] }],
    ['DELETE', '/templates/tags', { name: made.json.templateID, tags: ['v1'] }],
  ] as const)
    t.equal((await e2b.ask(method, path, { key: b, body })).status, 404, `${method} ${path}`);
  t.equal((await status(b, made.json)).status, 404);
  t.match((await status(a, made.json)).json, { status: 'waiting', logEntries: [] });
  t.equal((await e2b.ask('GET', '/templates/aliases/web', { key: a })).status, 200);
  t.equal((await e2b.ask('GET', '/templates/aliases/base', { key: a })).status, 200);
  t.equal((await e2b.ask('GET', '/templates/aliases/nothing', { key: a })).status, 404);
  const missing = await e2b.ask('POST', '/v2/sandboxes', { key: a, body: { templateID: 'web' } });
  t.match([missing.status, missing.json.message], [404, /it has no build that has ended well/]);
});

t.test('names of the host are not for clients, and the operator names for all', async (t) => {
  const { e2b, mint, request } = await start(t);
  const key = await mint({ tenant: 'a' });
  for (const name of ['base', 'code-interpreter-v1', 'code-interpreter:default'])
    t.equal((await request(key, { name })).status, 409, `${name}, also without its profile`);
  await e2b.names.set('given', 'base');
  t.equal((await request(key, { name: 'given' })).status, 409);
  const body = { templateID: 'given', allow_internet_access: false };
  const made = await e2b.ask('POST', '/v2/sandboxes', { key, body });
  t.match([made.status, made.json.templateID], [201, 'given']);
  await e2b.names.remove('given');
  t.equal((await e2b.ask('POST', '/v2/sandboxes', { key, body })).status, 404);
  for (const name of ['', ':tag', 'web:', 'Web', '../x', 'a:b:c', 'x'.repeat(200)])
    t.equal((await request(key, { name })).status, 400, name);
});

t.test('a build has the rights of its key, and only that key starts it', async (t) => {
  const { mint, request, build, status, ended } = await start(t);
  const key = await mint({ tenant: 'a' });
  const narrow = await mint({ tenant: 'a', policy: { operations: ['view', 'create', 'exec', 'snapshot'] } });
  const viewer = await mint({ tenant: 'a', policy: { operations: ['view'] } });
  t.equal((await request(viewer, {})).status, 403);
  const { json: ids } = await request(key, {});
  t.equal((await build(narrow, ids, { fromTemplate: 'base' })).status, 403);
  t.equal((await status(viewer, ids)).status, 403, 'its log has output of guests');
  t.equal((await build(key, ids, { fromTemplate: 'base', fromImage: 'x' })).status, 400);
  for (const steps of [
    [{ type: 'RUN', args: [] }],
    [{ type: 'COPY', args: ['../x', '/y'], filesHash: HASH }],
    [{ type: 'COPY', args: ['/etc', '/y'], filesHash: HASH }],
    [{ type: 'COPY', args: ['x', '/y'] }],
    [{ type: 'COPY', args: ['x', '/y', 'a b', ''], filesHash: HASH }],
    [{ type: 'ENV', args: ['A'] }],
    [{ type: 'ENV', args: ['A=B', 'x'] }],
    [{ type: 'USER', args: ['$(id)'] }],
  ])
    t.equal((await build(key, ids, { fromTemplate: 'base', steps })).status, 400, JSON.stringify(steps));
  t.equal((await build(key, ids, { fromTemplate: 'base', steps: [{ type: 'X', args: ['y'] }] })).status, 501);
  const started = await build(key, ids, { fromTemplate: 'nothing' });
  t.match([started.status, started.headers.get('content-length')], [202, '0']);
  const { reason } = await ended(key, ids);
  t.match(reason, { step: 'base', message: /template 'nothing' not found/ });
  t.equal((await build(key, ids, { fromTemplate: 'base' })).status, 409, 'once');
  const all = await status(key, ids);
  t.match(all.json.logEntries.at(-1), { level: 'error', message: /not found/, timestamp: String });
  const { length } = all.json.logEntries;
  t.same((await status(key, ids, `?logsOffset=${length}`)).json.logEntries, [], 'entries come once');
  t.equal((await status(key, ids, '?limit=1')).json.logEntries.length, 1);
});

t.test('a build that fails, or whose template is deleted, leaves nothing', async (t) => {
  const { e2b, mint, request, build, ended, daemon } = await start(t);
  const key = await mint({ tenant: 'a' });
  const { json: ids } = await request(key, {});
  // The guest of this test is none, so the build fails behind the create.
  await build(key, ids, { fromTemplate: 'base', steps: [{ type: 'RUN', args: ['true'] }] });
  t.equal((await ended(key, ids)).status, 'error');
  t.same([daemon.manager.as({ kind: 'operator' }).list(), e2b.builder.isHidden('x')], [[], false]);
  const { json: waiting } = await request(key, {});
  t.equal((await e2b.ask('DELETE', `/templates/${ids.templateID}`, { key })).status, 204);
  t.equal((await e2b.ask('GET', `/templates/${ids.templateID}`, { key })).status, 404);
  t.equal((await build(key, waiting, { fromTemplate: 'base' })).status, 404);
});

t.test('what a client leaves unfinished is bounded', async (t) => {
  const { mint, request } = await start(t);
  const [key, other] = [await mint({ tenant: 'a' }), await mint({ tenant: 'b' })];
  for (let at = 0; at < 20; at += 1) t.equal((await request(key, {})).status, 202);
  const more = await request(key, {});
  t.match([more.status, more.json.code], [429, 429]);
  t.equal((await request(other, {})).status, 202);
});

t.test('files for COPY are uploaded with a token, for the build of the same key', async (t) => {
  const { e2b, mint, request, build, ended, keyring } = await start(t);
  const [key, other] = [await mint({ tenant: 'a' }), await mint({ tenant: 'a' })];
  const { json: ids } = await request(key, {});
  const at = `/templates/${ids.templateID}/files/${HASH}`;
  const link = await e2b.ask('GET', at, { key });
  t.match(link, { status: 201, json: { present: false, url: String } });
  const path = link.json.url.slice(e2b.url.length);
  t.equal(link.json.url, `${e2b.url}${path}`);
  const put = (where: string) => e2b.ask('PUT', where, { body: 'archive' });
  t.equal((await put(path)).status, 200, 'without a key');
  t.equal((await e2b.ask('GET', at, { key })).json.present, true);
  t.equal((await e2b.ask('GET', at, { key: other })).json.present, false, 'another key has files of its own');
  const foreign = (await e2b.ask('GET', at, { key: other })).json.url.slice(e2b.url.length);
  t.equal((await put(foreign)).status, 409, 'and no build that waits for them');
  const last = path.endsWith('0') ? '1' : '0';
  for (const wrong of [
    `${path.slice(0, -1)}${last}`,
    path.replace(HASH, 'b'.repeat(64)),
    path.replace(ids.templateID, `${ids.templateID}0`),
    path.replace(HASH, '..%2F..%2Fx'),
    `${at}/x`,
  ])
    t.equal((await put(wrong)).status, 401, wrong);
  t.equal((await e2b.ask('GET', `/templates/${ids.templateID}/files/..%2Fx`, { key })).status, 400);
  await build(key, ids, { fromTemplate: 'nothing' });
  await ended(key, ids);
  t.equal((await put(path)).status, 409, 'after its end');
  await eventually(async () =>
    (await readdir(join(e2b.dataDir, 'e2b-uploads'))).length === 0 ? true : undefined,
  );
  const { json: second } = await request(key, {});
  t.equal((await put(path)).status, 200);
  const ofTenant = keyring.registry.list().filter(({ tenant }) => tenant === 'a');
  for (const { id } of ofTenant) await keyring.registry.revoke(id);
  t.equal((await put(path)).status, 401, 'a key that was revoked uploads nothing');
  t.ok(second);
});

t.test('a snapshot may have a name that is none of the REST interface', async (t) => {
  const { e2b, mint } = await start(t);
  const key = await mint({ tenant: 'a' });
  const body = { templateID: 'base', allow_internet_access: false };
  const { sandboxID }: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  const take = () => e2b.ask('POST', `/sandboxes/${sandboxID}/snapshots`, { key, body: { name: 'my_snap' } });
  const first = await take();
  t.match([first.status, first.json.names], [201, ['my_snap']]);
  const second = await take();
  const listed = await e2b.ask('GET', '/snapshots?name=my_snap', { key });
  t.same(listed.json, [{ snapshotID: second.json.snapshotID, names: ['my_snap'] }], 'the newer one has it');
  const copy = await e2b.ask('POST', '/v2/sandboxes', {
    key,
    body: { ...body, templateID: 'my_snap', autoPause: true, timeout: 77 },
  });
  t.equal(copy.status, 201);
  const shown = await e2b.ask('GET', `/sandboxes/${copy.json.sandboxID}`, { key });
  t.match(shown.json.lifecycle, { onTimeout: 'pause', autoResume: false });
  const assigned = await e2b.ask('POST', '/templates/tags', {
    key,
    body: { target: 'my_snap', tags: ['prod', 'my_snap:two'] },
  });
  t.match([assigned.status, assigned.json.tags], [201, ['prod', 'two']]);
  const { templateID } = (await e2b.ask('GET', '/templates/aliases/my_snap:prod', { key })).json;
  const tags = await e2b.ask('GET', `/templates/${templateID}/tags`, { key });
  t.same(
    tags.json.map(({ tag }: Json) => tag),
    ['default', 'prod', 'two'],
  );
  const remove = { name: 'my_snap', tags: ['default', 'prod', 'two'] };
  t.equal((await e2b.ask('DELETE', '/templates/tags', { key, body: remove })).status, 204);
  t.same(
    (await e2b.ask('GET', '/snapshots', { key })).json,
    [{ snapshotID: first.json.snapshotID, names: [] }],
    'a build without tags is deleted; a snapshot that lost its name is not',
  );
});
