import type { IncomingHttpHeaders } from 'node:http';
import t, { type Test } from 'tap';
import { sign } from '../../host-agent/src/e2b/envd/access.ts';
import type { PortHost } from '../../host-agent/src/ingress/index.ts';
import { canSee } from '../../host-agent/src/keys/index.ts';
import { type Created, serveE2b } from './e2b-front.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { watchOf } from './fake-watch.ts';
import { ask as askHost, exchangeRaw, FakeSandbox, serveGuest } from './ingress-host.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test, portHost?: PortHost) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring, ...(portHost && { portHost }) });
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const body = { templateID: 'base', allow_internet_access: false };
  const made: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  const principal = await keyring.authenticator.authenticate({
    authorization: `Bearer ${key}`,
    protocols: undefined,
    address: '127.0.0.1',
  });
  return { ...fixture, e2b, key, made, principal, keyring };
}

t.test('signed URLs name their sandbox by their signature', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  sandboxes.onRead = async () => ({
    body: outflow('content'),
    entry: FILE,
    sizeBytes: 7,
    contentBytes: 7,
    offsetBytes: 0,
  });
  const known = sign({
    path: 'hello.txt',
    operation: 'read',
    username: 'user',
    token: '0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0',
  });
  t.equal(known, 'v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E', 'the known answer of their tests');
  const token = made.envdAccessToken;
  const ask = (values: {
    readonly signature: string;
    readonly expiration?: string;
    readonly path?: string;
  }) => {
    const { signature, expiration, path = 'a b' } = values;
    const query = new URLSearchParams({
      path,
      signature,
      ...(expiration && { signature_expiration: expiration }),
    });
    return e2b.ask('GET', `/files?${query}`);
  };
  const signature = sign({ path: 'a b', operation: 'read', username: '', token });
  t.match(await ask({ signature }), { status: 200, text: 'content' });
  t.equal((await ask({ signature, path: 'other' })).status, 401);
  t.equal((await ask({ signature: `${signature}x` })).status, 401);
  t.equal((await ask({ signature, expiration: '9999999999' })).status, 401, 'the end is signed, too');
  const past = sign({ path: 'a b', operation: 'read', username: '', token, expiration: '1' });
  t.match(await ask({ signature: past, expiration: '1' }), {
    status: 401,
    text: '{"code":401,"message":"signature is already expired"}',
  });
  const write = sign({ path: 'a b', operation: 'write', username: '', token });
  t.equal((await ask({ signature: write })).status, 401, 'one for uploads reads nothing');
  t.equal((await e2b.ask('GET', '/files?path=a')).status, 401);
  t.equal((await ask({ signature: past, expiration: 'x'.repeat(5000) })).status, 401);

  const record = e2b.records.find(`sbx_${made.sandboxID.slice(3)}`);
  if (record === undefined) throw new Error('no record');
  const many = Array.from({ length: 1200 }, (_, at) => `sbx_${String(at).padStart(13, '0')}`);
  await Promise.all(many.map((id) => e2b.records.put(id, record)));
  t.equal((await ask({ signature: `v1_${'A'.repeat(43)}` })).status, 401, 'of none of many sandboxes');
  t.match(await ask({ signature }), { status: 200, text: 'content' });
});

t.test('watchers collect events, of their own sandbox only', async (t) => {
  const { e2b, made, key, sandboxes } = await start(t);
  sandboxes.onFileCall = async ({ place }) => {
    const entry = { ...FILE, type: 'directory' as const, path: Buffer.from(place?.path ?? '') };
    return { entry, entries: [entry], hasMore: false, count: 1 };
  };
  sandboxes.onWatch = watchOf([{ type: 'create', path: '/w/a' } as never]);
  const { json } = await e2b.call('filesystem.Filesystem/CreateWatcher', { path: '/w' }, made);
  t.type(json.watcherId, 'string');
  const body = { templateID: 'base', allow_internet_access: false };
  const other: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  const events = 'filesystem.Filesystem/GetWatcherEvents';
  t.equal((await e2b.call(events, { watcherId: json.watcherId }, other)).status, 404);
  t.equal((await e2b.call(events, { watcherId: json.watcherId }, made)).status, 200);
  t.equal(
    (await e2b.call('filesystem.Filesystem/RemoveWatcher', { watcherId: json.watcherId }, made)).status,
    200,
  );
  t.equal((await e2b.call(events, { watcherId: json.watcherId }, made)).status, 404);
  const stream = await e2b.stream('filesystem.Filesystem/WatchDir', { path: '/w' }, made);
  t.same(stream[0]?.message, { start: {} });
});

t.test('health tells sandboxes that are gone', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const headers = { 'e2b-sandbox-id': made.sandboxID, 'e2b-sandbox-port': '49983' };
  t.equal((await e2b.ask('GET', '/health', { headers })).status, 204);
  await sandboxes.delete(`sbx_${made.sandboxID.slice(3)}`);
  const { status, json } = await e2b.ask('GET', '/health', { headers });
  t.match(
    [status, json],
    [502, { sandboxId: made.sandboxID, message: 'The sandbox was not found', code: 502 }],
  );
});

t.test('ports are reached by headers and host names, which must agree', async (t) => {
  const guest = new FakeSandbox();
  const host: PortHost = {
    find: (_principal, sought) => ('id' in sought && sought.id === guest.id ? guest : undefined),
  };
  const { e2b, made, key } = await start(t, host);
  const heard: IncomingHttpHeaders[] = [];
  const to = await serveGuest(t, ({ headers }, response) => {
    heard.push(headers);
    response.end(`guest ${headers.host}`);
  });
  guest.ports.set(3000, { to, access: 'private' });
  const id = guest.id.replace('_', '');
  const record = {
    templateId: 'base',
    metadata: {},
    masksHost: false,
    allowInternetAccess: null,
    keyIds: [],
  };
  const named = { 'e2b-sandbox-id': id, 'e2b-sandbox-port': '3000' };
  t.equal(
    (await e2b.ask('GET', '/', { headers: named })).status,
    502,
    'a sandbox of the REST interface has none',
  );
  await e2b.records.put(guest.id, { ...record, ports: 'public' });
  t.match((await e2b.ask('GET', '/', { headers: named })).text, /^guest/);
  t.match(await askHost(e2b.port, `3000-${id}.box.example`), { status: 200 });
  t.match(await askHost(e2b.port, `3000-${id}.box.example`, { headers: named }), { status: 200 });
  const crossed = { ...named, 'e2b-sandbox-port': '3001' };
  t.equal((await askHost(e2b.port, `3000-${id}.box.example`, { headers: crossed })).status, 400);
  t.equal(
    (await askHost(e2b.port, 'evil.example', { headers: named })).status,
    403,
    'of no name of this daemon',
  );
  t.match(await askHost(e2b.port, 'gate.example', { headers: named }), { status: 200 }, 'another name of it');
  await e2b.records.put(guest.id, { ...record, ports: 'token' });
  t.equal((await e2b.ask('GET', '/', { headers: named })).status, 403);
  const token = { 'e2b-traffic-access-token': e2b.records.trafficToken(guest.id) };
  const secrets = { ...token, 'x-access-token': made.envdAccessToken, 'x-api-key': key, own: '1' };
  t.equal((await e2b.ask('GET', '/', { headers: { ...named, ...secrets } })).status, 200);
  t.equal(heard.at(-1)?.own, '1');
  for (const name of Object.keys(secrets).filter((name) => name !== 'own'))
    t.notOk(name in (heard.at(-1) ?? {}), `a guest gets no ${name}`);
  const raw = await exchangeRaw(e2b.port, 'GET /v2/sandboxes HTTP/1.1\r\nHost: evil.example\r\n\r\n', (all) =>
    all.includes('}'),
  );
  t.match(raw, /^HTTP\/1.1 403/, 'DNS rebinding');
});

t.test('the code interpreter is for those that may run commands', async (t) => {
  const guest = new FakeSandbox();
  guest.tenant = 'one';
  const host: PortHost = {
    find: (principal, sought) =>
      'id' in sought && sought.id === guest.id && canSee(principal, { key: '', tenant: 'one' })
        ? guest
        : undefined,
  };
  const { e2b, made, principal, keyring } = await start(t, host);
  let isHeld = false;
  const to = await serveGuest(t, (request, response) => {
    if (isHeld) response.write('begun');
    else response.end(`guest ${request.headers.host}`);
  });
  guest.ports.set(49_999, { to, access: 'private' });
  const record = {
    ...{ templateId: 'base', metadata: {}, masksHost: false, allowInternetAccess: null, keyIds: [] },
    ports: 'public' as const,
  };
  await e2b.records.put(guest.id, record);
  const code = { 'e2b-sandbox-id': guest.id.replace('_', ''), 'e2b-sandbox-port': '49999' };
  const ask = async (method: string, path: string, headers: Record<string, string> = {}) =>
    (
      await e2b.ask(method, path, {
        headers: { ...code, ...headers },
        ...(method === 'POST' && { body: {} }),
      })
    ).status;
  const execute = (headers: Record<string, string>, path = '/execute') => ask('POST', path, headers);
  t.equal(await execute({}), 401, 'code is not public');
  t.equal(await execute({ 'x-access-token': 'x'.repeat(64) }), 401);
  t.equal(await execute({ 'x-access-token': made.envdAccessToken }), 401, 'that of another sandbox');
  t.equal(await execute({}, '//execute'), 401);
  t.equal(await execute({}, '/contextsx'), 401);
  const own = { 'x-access-token': await e2b.records.tokenFor(guest.id, principal) };
  t.equal(await execute(own), 200);

  const traffic = { 'e2b-traffic-access-token': e2b.records.trafficToken(guest.id) };
  const bare = [
    ['GET', '/health'],
    ['GET', '/contexts'],
    ['POST', '/contexts'],
  ] as const;
  const taking = [
    ['DELETE', '/contexts/x'],
    ['POST', '/contexts/x/restart'],
  ] as const;
  const other = [
    ['PUT', '/contexts'],
    ['DELETE', '/contexts'],
    ['OPTIONS', '/contexts'],
    ['POST', '/health'],
    ['GET', '/contexts?x'],
    ['POST', '/contexts/../execute'],
    ['GET', '/contexts/x/y'],
    ['POST', '/contexts/x/restart/y'],
  ] as const;
  for (const [method, path] of bare) t.equal(await ask(method, path), 200, `the SDKs send ${path} so`);
  for (const [method, path] of [...taking, ...other]) {
    t.equal(await ask(method, path, traffic), 401, `${method} ${path}`);
    t.equal(await ask(method, path, own), 200, `${method} ${path} with the token`);
  }
  await e2b.records.put(guest.id, { ...record, ports: 'token' });
  for (const [method, path] of [...bare, ...taking]) {
    t.equal(await ask(method, path, own), 403, `${method} ${path} without the traffic token`);
    t.equal(await ask(method, path, traffic), 200, `${method} ${path} with the traffic token`);
  }
  for (const [method, path] of other) t.equal(await ask(method, path, traffic), 401, `${method} ${path}`);
  t.equal(await execute(traffic), 401, 'it runs no code');
  await e2b.records.put(guest.id, record);

  const tokenOf = async (wanted: object) => {
    const { text, ...made } = await keyring.registry.create({ name: `key-${++count}`, ...wanted }, 'e2b');
    const holder = await keyring.authenticator.authenticate({
      authorization: `Bearer ${text}`,
      protocols: undefined,
      address: '127.0.0.1',
    });
    return { made, headers: { 'x-access-token': await e2b.records.tokenFor(guest.id, holder) } };
  };
  let count = 0;
  const viewer = await tokenOf({ policy: { operations: ['view', 'connect'] } });
  t.equal(await execute(viewer.headers), 403, 'a key without exec');
  t.equal(await execute((await tokenOf({ tenant: 'two' })).headers), 401, 'one of another tenant');
  const runner = await tokenOf({ tenant: 'one', policy: { operations: ['exec'] } });
  t.equal(await execute(runner.headers), 200);

  isHeld = true;
  const running = await fetch(`${e2b.url}/execute`, {
    method: 'POST',
    headers: { ...code, ...runner.headers },
    body: '{}',
  });
  await keyring.registry.revoke(runner.made.key.id);
  await t.rejects(running.text(), 'what runs ends with the key');
  isHeld = false;
  t.equal(await execute(runner.headers), 401);
});
