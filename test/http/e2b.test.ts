// E2B's control plane: what its SDKs send, over the real manager and registry of keys.
import t, { type Test } from 'tap';
import { type Created, type Json, serveE2b } from './e2b-front.ts';
import { startKeyed } from './keyed-daemon.ts';

const OFFLINE = { templateID: 'base', allow_internet_access: false };

async function start(t: Test) {
  const keyed = await startKeyed(t);
  const { app, daemon, keyring } = keyed;
  const e2b = await serveE2b(t, { app, sandboxes: daemon.manager, keyring, daemon });
  const make = async (key: string, body: object = {}): Promise<Created & Record<string, Json>> => {
    const { status, json, text } = await e2b.ask('POST', '/v2/sandboxes', {
      key,
      body: { ...OFFLINE, ...body },
    });
    if (status !== 201) throw new Error(`${status}: ${text}`);
    return json;
  };
  const mint = async (wanted = {}) =>
    (await keyring.registry.create({ name: `k${Math.random()}`, ...wanted }, 'e2b')).text;
  return { ...keyed, e2b, make, mint };
}

t.test('a sandbox is created, shown, listed, prolonged and killed', async (t) => {
  const { e2b, make, mint, daemon } = await start(t);
  const key = await mint({ tenant: 'acme' });
  t.match(key, /^e2b_[0-9a-f]{48}$/, 'the form that their SDKs take');
  const made = await make(key, { metadata: { 'k 1': 'v/1' }, envVars: { A: 'b' }, timeout: 60 });
  t.match(made, { templateID: 'base', envdVersion: '0.6.13', clientID: String, envdAccessToken: String });
  t.match(made.sandboxID, /^sbx[0-9a-v]{13}$/, 'letters and digits only');
  t.equal(made.trafficAccessToken, null);
  t.equal(made.domain, 'box.example');
  const id = `sbx_${made.sandboxID.slice(3)}`;
  t.match(daemon.manager.find(id)?.record.owner, { tenant: 'acme' }, 'it belongs to the tenant of the key');

  const at = `/sandboxes/${made.sandboxID}`;
  const detail = await e2b.ask('GET', at, { key });
  t.match(detail.json, {
    sandboxID: made.sandboxID,
    state: 'running',
    metadata: { 'k 1': 'v/1' },
    lifecycle: { onTimeout: 'kill', autoResume: false },
    memoryMB: Number,
    envdAccessToken: made.envdAccessToken,
  });
  const lifeOf = async () => {
    const { json } = await e2b.ask('GET', at, { key });
    return Math.round((Date.parse(json.endAt) - Date.now()) / 1000);
  };
  t.ok(Math.abs((await lifeOf()) - 60) < 10);
  t.equal((await e2b.ask('POST', `${at}/connect`, { key, body: { timeout: 10 } })).status, 200);
  t.ok((await lifeOf()) > 30, 'a connect never shortens its life');
  t.equal((await e2b.ask('POST', `${at}/timeout`, { key, body: { timeout: 10 } })).status, 204);
  t.ok((await lifeOf()) <= 10, 'a timeout does');

  const wire = 'k%2525201%3Dv%25252F1';
  const listed = await e2b.ask('GET', `/v2/sandboxes?metadata=${wire}`, { key });
  t.same(
    listed.json.map((each: { sandboxID: string }) => each.sandboxID),
    [made.sandboxID],
    'metadata is encoded three times',
  );
  t.same((await e2b.ask('GET', '/v2/sandboxes?metadata=k%3Dother', { key })).json, []);
  t.equal((await e2b.ask('DELETE', at, { key })).status, 204);
  const gone = await e2b.ask('DELETE', at, { key });
  t.match([gone.status, gone.json.code], [404, 404], 'JavaScript reads the code, Python the status');
  await e2b.records.sweep((each) => daemon.manager.find(each) !== undefined);
  t.equal(e2b.records.find(id), undefined, 'nothing of it is kept');
});

t.test('lists have pages in both orders', async (t) => {
  const { e2b, make, mint } = await start(t);
  const key = await mint();
  const made = [await make(key), await make(key), await make(key)].map(({ sandboxID }) => sandboxID);
  for (const order of ['desc', 'asc']) {
    const seen: string[] = [];
    let next = '';
    do {
      const page = await e2b.ask('GET', `/v2/sandboxes?limit=2&order=${order}&nextToken=${next}`, { key });
      seen.push(...page.json.map((each: Created) => each.sandboxID));
      next = page.headers.get('x-next-token') ?? '';
    } while (next !== '');
    t.same(seen.toSorted(), made.toSorted(), order);
  }
  t.equal((await e2b.ask('GET', '/v2/sandboxes?limit=x', { key })).status, 400);
});

t.test('a paused sandbox has its id, and is not deleted by its timeout', async (t) => {
  const { e2b, make, mint, daemon } = await start(t);
  const key = await mint();
  const { sandboxID } = await make(key, { timeout: 60 });
  const id = `sbx_${sandboxID.slice(3)}`;
  const at = `/sandboxes/${sandboxID}`;
  t.equal((await e2b.ask('POST', `${at}/pause`, { key, body: {} })).status, 204);
  t.equal(daemon.manager.find(id)?.info.timeoutS, 0);
  const again = await e2b.ask('POST', `${at}/pause`, { key, body: {} });
  t.match([again.status, again.json.code], [409, 409]);
  t.equal((await e2b.ask('GET', at, { key })).json.state, 'paused');
  const resumed = await e2b.ask('POST', `/v2${at}/connect`, { key, body: { timeout: 100 } });
  t.match([resumed.status, resumed.json.sandboxID], [201, sandboxID]);
  t.equal(daemon.manager.find(id)?.info.timeoutS, 100);
});

t.test('tenants, policies and revoked keys hold as in the REST interface', async (t) => {
  const { e2b, make, mint, keyring, daemon } = await start(t);
  const [a, b] = [await mint({ tenant: 'a' }), await mint({ tenant: 'b' })];
  const made = await make(a);
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/pause'],
    ['POST', '/connect'],
    ['POST', '/timeout'],
    ['POST', '/fork'],
    ['POST', '/snapshots'],
    ['GET', '/metrics'],
    ['GET', '/logs'],
  ] as const) {
    const body = method === 'POST' ? { timeout: 5 } : undefined;
    const { status } = await e2b.ask(method, `/sandboxes/${made.sandboxID}${path}`, { key: b, body });
    t.equal(status, 404, `${method} ${path} of another tenant`);
  }
  t.same((await e2b.ask('GET', '/v2/sandboxes', { key: b })).json, []);

  const viewer = await mint({ tenant: 'a', policy: { operations: ['view'] } });
  const seen = await e2b.ask('GET', `/sandboxes/${made.sandboxID}`, { key: viewer });
  t.not(seen.json.envdAccessToken, made.envdAccessToken, 'its token is one of its own');
  const asViewer = { sandboxID: made.sandboxID, envdAccessToken: seen.json.envdAccessToken };
  const refused = await e2b.call('filesystem.Filesystem/Stat', { path: '/' }, asViewer);
  t.match([refused.status, refused.json.code], [403, 'permission_denied'], 'which allows what the key does');
  t.equal((await e2b.ask('POST', '/v2/sandboxes', { key: viewer, body: OFFLINE })).status, 403);

  const short = await mint({ tenant: 'a', policy: { max_timeout_s: 30 } });
  const long = await e2b.ask('POST', '/v2/sandboxes', { key: short, body: { ...OFFLINE, timeout: 3000 } });
  t.match([long.status, long.json.message], [403, /max_timeout_s 30/], 'the lifetime is that of the policy');
  const bounded = await make(short, { timeout: 20 });
  t.equal(daemon.manager.find(`sbx_${bounded.sandboxID.slice(3)}`)?.info.timeoutS, 20);

  const count = async () => (await e2b.ask('GET', '/v2/sandboxes', { key: a })).json.length;
  const brief = await make(a, { timeout: 20 });
  const before = await count();
  const named = { key: a, body: { name: 'mine' } };
  t.equal((await e2b.ask('POST', `/sandboxes/${brief.sandboxID}/snapshots`, named)).status, 201);
  const forking = await mint({
    tenant: 'a',
    policy: { operations: ['view', 'create', 'fork', 'snapshot', 'update'], max_timeout_s: 30 },
  });
  for (const [path, body] of [
    ['/v2/sandboxes', { ...OFFLINE, templateID: 'mine', timeout: 3000 }],
    [`/sandboxes/${brief.sandboxID}/fork`, { count: 2, timeout: 3000 }],
  ] as const)
    for (const headers of [{}, { 'idempotency-key': `of-${path.length}` }]) {
      const copied = await e2b.ask('POST', path, { key: forking, body, headers });
      t.match([copied.status, copied.json.message], [403, /max_timeout_s 30/]);
    }
  t.equal(await count(), before, 'copies that get no timeout are deleted');
  const copies = await e2b.ask('POST', `/sandboxes/${brief.sandboxID}/fork`, { key: forking, body: {} });
  const ownId = (id: string): string => `sbx_${id.slice(3)}`;
  t.equal(e2b.records.find(ownId(brief.sandboxID))?.ports, 'public');
  t.equal(e2b.records.find(ownId(copies.json[0].sandbox.sandboxID))?.ports, 'closed', 'no connect, no ports');

  const [own] = keyring.registry
    .list()
    .filter(({ tenant, policy }) => tenant === 'a' && policy === undefined);
  await keyring.registry.revoke(own?.id ?? '');
  t.equal(
    (await e2b.call('process.Process/List', {}, made)).status,
    401,
    'a revoked key takes its tokens along',
  );
  t.equal((await e2b.ask('GET', '/v2/sandboxes', { key: a })).status, 401);
  t.match(e2b.audited.at(-1), { event: 'refused', decision: 'unauthenticated', status: 401 });
});

t.test('a changed network is what is shown and what holds, and is no larger than others', async (t) => {
  const { e2b, make, mint } = await start(t);
  const key = await mint({ tenant: 'a' });
  const network = { denyOut: ['0.0.0.0/0'], allowOut: ['a.example'] };
  const made = await make(key, { allow_internet_access: true, network });
  const id = `sbx_${made.sandboxID.slice(3)}`;
  const at = `/sandboxes/${made.sandboxID}`;
  const put = (body: object, by = key) =>
    e2b.ask('PUT', `${at}/network`, { key: by, body: { allow_internet_access: false, ...body } });
  t.equal((await put({ allowPublicTraffic: false, maskRequestHost: 'localhost' })).status, 204);
  t.match(e2b.records.find(id), { ports: 'token', masksHost: true, allowInternetAccess: false });
  t.notOk('allow_internet_access' in (e2b.records.find(id)?.network ?? {}));
  t.equal((await put({ allowPublicTraffic: null })).status, 204);
  t.match(e2b.records.find(id), { ports: 'token', masksHost: true }, 'what is not said stays');
  const { json } = await e2b.ask('GET', at, { key });
  t.match(json.network, { allowPublicTraffic: false, maskRequestHost: 'localhost' });
  const narrow = await mint({ tenant: 'a', policy: { operations: ['view', 'network'] } });
  t.equal((await put({ allowPublicTraffic: true }, narrow)).status, 403);
  t.match(e2b.audited.at(-1), { event: 'refused', decision: 'denied', status: 403 });
  t.equal(e2b.records.find(id)?.ports, 'token', 'without connect no ports are opened');
  t.equal((await put({ allowPublicTraffic: true })).status, 204);
  t.equal(e2b.records.find(id)?.ports, 'public');
  const denyOut = ['0.0.0.0/0', ...Array.from({ length: 60_000 }, () => 'a.example')];
  for (const list of [denyOut, ['0.0.0.0/0', 'a'.repeat(1000)]])
    t.equal((await put({ denyOut: list })).status, 400);
});

t.test('what is not supported is 501 with a sentence', async (t) => {
  const { e2b, mint } = await start(t);
  const key = await mint();
  for (const [method, path, body] of [
    ['GET', '/volumes', undefined],
    ['POST', '/secrets', {}],
    ['GET', '/teams', undefined],
    ['POST', '/v2/sandboxes', { ...OFFLINE, volumeMounts: [{ name: 'a', path: '/a' }] }],
    ['POST', '/v2/sandboxes', { ...OFFLINE, mcp: {} }],
    [
      'POST',
      '/v2/sandboxes',
      { ...OFFLINE, network: { rules: { 'a.example': [{ transform: { headers: { a: 'short' } } }] } } },
    ],
  ] as const) {
    const answer = await e2b.ask(method, path, { key, body });
    t.match(
      [answer.status, answer.json],
      [501, { code: 501, message: /docs\/e2b\.md/ }],
      `${method} ${path}`,
    );
  }
  t.equal((await e2b.ask('GET', '/nonsense', { key })).status, 404);
  const unknown = await e2b.ask('POST', '/v2/sandboxes', { key, body: { ...OFFLINE, templateID: 'nosuch' } });
  t.match([unknown.status, unknown.json.message], [404, /nosuch/]);
});

t.test('the internet needs the operator, and the error says what to set', async (t) => {
  const { e2b, mint } = await start(t);
  const { status, json } = await e2b.ask('POST', '/v2/sandboxes', {
    key: await mint(),
    body: { templateID: 'base' },
  });
  t.match([status, json.message], [403, /--network-internet on.*allow_internet_access/s]);
});

t.test('wrong keys, hosts and ids are refused', async (t) => {
  const { e2b, make, mint } = await start(t);
  const key = await mint();
  const made = await make(key);
  t.equal((await e2b.ask('GET', '/v2/sandboxes', { key: `e2b_${'0'.repeat(48)}` })).status, 401);
  t.equal((await e2b.ask('GET', '/v2/sandboxes')).status, 401);
  t.equal((await e2b.ask('GET', '/sandboxes/..%2F..%2Fetc', { key })).status, 404);
  const last = made.envdAccessToken.endsWith('0') ? '1' : '0';
  const other = { ...made, envdAccessToken: made.envdAccessToken.slice(0, -1) + last };
  const wrong = await e2b.call('process.Process/List', {}, other);
  t.match([wrong.status, wrong.json.code], [401, 401], 'a numeric code, for RPCs too');
  const second = await make(key);
  const crossed = { sandboxID: second.sandboxID, envdAccessToken: made.envdAccessToken };
  t.equal((await e2b.call('process.Process/List', {}, crossed)).status, 401, 'a token is of one sandbox');
  const half = await e2b.ask('GET', '/v2/sandboxes', { key, headers: { 'e2b-sandbox-id': made.sandboxID } });
  t.equal(half.status, 400, 'a sandbox without a port is not the control plane');
});

t.test('SDKs of a year ago send other headers', async (t) => {
  const { e2b, make, mint } = await start(t);
  const [key, other] = [await mint({ tenant: 'a' }), await mint({ tenant: 'b' })];
  const made = await make(key);
  const sandbox = { 'e2b-sandbox-id': made.sandboxID, 'e2b-sandbox-port': '49983' };
  const connect = (by: string | undefined) =>
    e2b.ask('POST', `/sandboxes/${made.sandboxID}/connect`, {
      key: by,
      body: { timeout: 10 },
      headers: sandbox,
    });
  t.equal((await connect(key)).status, 200, 'those of the sandbox to the control plane');
  t.equal((await connect(other)).status, 404);
  t.equal((await connect(undefined)).status, 501, 'which needs a key');
  const second = await make(key);
  const token = { 'x-access-token': second.envdAccessToken };
  t.equal((await e2b.ask('GET', '/health', { headers: token })).status, 204);
  t.equal(
    (await e2b.ask('GET', '/files?path=/x', { headers: token })).status,
    501,
    'a token alone finds the sandbox',
  );
  await e2b.ask('DELETE', `/sandboxes/${second.sandboxID}`, { key });
  await e2b.records.delete(`sbx_${second.sandboxID.slice(3)}`);
  t.equal((await e2b.ask('GET', '/health', { headers: token })).status, 502);
  t.equal((await e2b.ask('GET', '/files?path=/x', { headers: token })).status, 401);
});

t.test('pages of allowed origins use the control plane, and those of every origin a sandbox', async (t) => {
  const { e2b, make, mint } = await start(t);
  const key = await mint();
  const made = await make(key);
  const [foreign, own] = [{ origin: 'https://evil.example' }, { origin: 'https://app.example' }];
  t.equal((await e2b.ask('GET', '/v2/sandboxes', { key, headers: foreign })).status, 403);
  const allowed = await e2b.ask('GET', '/v2/sandboxes', { key, headers: own });
  t.match([allowed.status, allowed.headers.get('access-control-allow-origin')], [200, own.origin]);
  const asking = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-api-key' };
  const preflight = await e2b.ask('OPTIONS', '/v2/sandboxes', { headers: { ...own, ...asking } });
  t.match([preflight.status, preflight.headers.get('access-control-allow-headers')], [204, 'x-api-key']);
  t.equal((await e2b.ask('OPTIONS', '/v2/sandboxes', { headers: { ...foreign, ...asking } })).status, 403);
  const sandbox = { 'e2b-sandbox-id': made.sandboxID, 'e2b-sandbox-port': '49983' };
  const health = await e2b.ask('GET', '/health', { headers: { ...foreign, ...sandbox } });
  t.match([health.status, health.headers.get('access-control-allow-origin')], [204, foreign.origin]);
  const without = await e2b.ask('POST', '/process.Process/List', { headers: { ...foreign, ...sandbox } });
  t.equal(without.status, 401, 'with a token only');
});

t.test('snapshots are templates, and forks have their own tokens', async (t) => {
  const { e2b, make, mint } = await start(t);
  const key = await mint();
  const made = await make(key, { metadata: { a: 'b' } });
  const at = `/sandboxes/${made.sandboxID}`;
  const first = await e2b.ask('POST', `${at}/snapshots`, { key, body: { name: 'mine' } });
  t.match([first.status, first.json.names], [201, ['mine']]);
  const second = await e2b.ask('POST', `${at}/snapshots`, { key, body: { name: 'mine' } });
  t.not(second.json.snapshotID, first.json.snapshotID, 'the name goes to the newer one');
  const listed = await e2b.ask('GET', `/snapshots?sandboxID=${made.sandboxID}`, { key });
  t.equal(listed.json.length, 2);
  const copy = await make(key, { templateID: 'mine' });
  t.equal(copy.templateID, 'mine');
  const forks = await e2b.ask('POST', `${at}/fork`, { key, body: { count: 2 } });
  t.equal(forks.json.length, 2);
  t.not(forks.json[0].sandbox.envdAccessToken, made.envdAccessToken);
  const detail = await e2b.ask('GET', `/sandboxes/${forks.json[0].sandbox.sandboxID}`, { key });
  t.same(detail.json.metadata, { a: 'b' });
  t.equal((await e2b.ask('DELETE', `/templates/${first.json.snapshotID}`, { key })).status, 204);
  t.equal((await e2b.ask('DELETE', `/templates/${first.json.snapshotID}`, { key })).status, 404);
});
