// Clients of E2B at the gateway of a fleet: creates get places, and everything else finds its host.
import { createServer } from 'node:http';
import t, { type Test } from 'tap';
import { sign } from '../../host-agent/src/e2b/envd/access.ts';
import { DOMAIN, serveE2bDoor } from '../support/fleet/doors.ts';
import { ask as askRest, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import type { Created, Json } from './e2b-front.ts';
import { ask as askPort, exchangeRaw, serveGuest } from './ingress-host.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const BODY = { templateID: 'base', allow_internet_access: false };

async function start(t: Test, names = ['h0', 'h1']) {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const ports = await serveGuest(
    t,
    createServer((request, response) => response.end(JSON.stringify({ headers: request.headers }))),
  );
  const { authenticator } = keyring;
  const hosts = [];
  for (const name of names) hosts.push(await fleet.host(name, { authenticator, ports, e2b: keyring }));
  await fleet.ready(names.length);
  const gateway = await fleet.gateway();
  const url = await serveE2bDoor(t, gateway);
  const ask = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const response = await fetch(new URL(path, url), {
      method,
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: Json = /^[[{]/.test(text) ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  };
  return { fleet, hosts, gateway, keyring, key, url, port: Number(url.port), ask };
}

const toNames = ({ sandboxID }: Created, port = '49983') => ({
  'e2b-sandbox-id': sandboxID,
  'e2b-sandbox-port': port,
});

t.test('creates are placed, lists are of all hosts, and requests find theirs', async (t) => {
  const { fleet, hosts, ask } = await start(t);
  const made: Created[] = [];
  for (let n = 0; n < 4; n++) {
    const answer = await ask('POST', n % 2 ? '/sandboxes' : '/v2/sandboxes', {
      ...BODY,
      metadata: { n: `${n}` },
    });
    t.equal(answer.status, 201, answer.text);
    made.push(answer.json);
  }
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 2);
  const ids = made.map(({ sandboxID }) => sandboxID);
  const list = async (query: string) => {
    const { json, headers, status } = await ask('GET', `/v2/sandboxes?${query}`);
    const listed = (json as { sandboxID: string }[]).map(({ sandboxID }) => sandboxID);
    return { status, listed, next: headers.get('x-next-token') };
  };
  t.same((await list('')).listed, ids.toReversed(), 'latest first');
  const first = await list('limit=3&order=asc');
  const second = await list(`limit=3&order=asc&nextToken=${first.next}`);
  t.same([...first.listed, ...second.listed], ids);
  t.equal(second.next, null);
  t.same((await list('metadata=n%3D2')).listed, [ids[2]]);
  t.equal((await ask('GET', '/v2/sandboxes?limit=x')).status, 400);
  for (const { sandboxID } of made) {
    t.match(await ask('GET', `/sandboxes/${sandboxID}`), { status: 200, json: { sandboxID } });
    t.match(await ask('GET', `/sandboxes/${sandboxID}-client`), { status: 200, json: { sandboxID } });
    t.equal((await ask('POST', `/sandboxes/${sandboxID}/timeout`, { timeout: 60 })).status, 204);
  }
  t.match(await ask('GET', '/sandboxes/sbx0123456789abc'), { status: 404, json: { code: 404 } });
  t.match(await ask('GET', '/sandboxes/..%2f..'), { status: 404 });
  t.match(await ask('POST', `/sandboxes/${ids[0]}/fork`, { count: 2 }), { status: 201 });
  await ask('POST', `/sandboxes/${ids[1]}/pause`, {});
  t.match(await ask('POST', `/v2/sandboxes/${ids[1]}/connect`, { timeout: 60 }), { status: 201 });
  const again = { 'idempotency-key': 'k1' };
  const [one, two] = [
    await ask('POST', '/sandboxes', BODY, again),
    await ask('POST', '/sandboxes', BODY, again),
  ];
  t.equal(one.json.sandboxID, two.json.sandboxID, 'a retry makes nothing');
  await until(() => fleet.api.objects.list('pods').length === 7, 'a place for each sandbox, and no more');

  const all = [...ids, one.json.sandboxID, ...(await list('')).listed];
  for (const id of new Set(all)) t.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
});

t.test('the key of one client that is refused is not that of others', async (t) => {
  const { ask } = await start(t, ['h0']);
  const path = '/sandboxes/sbx0123456789abc';
  t.equal((await ask('GET', path, undefined, { 'x-api-key': 'e2b_00' })).status, 401);
  t.equal((await ask('GET', path)).status, 404);
});

t.test('snapshots are forked where they are', async (t) => {
  const { hosts, ask } = await start(t);
  const made = [(await ask('POST', '/sandboxes', BODY)).json, (await ask('POST', '/sandboxes', BODY)).json];
  const ids: string[] = [];
  for (const [at, { sandboxID }] of made.entries()) {
    const taken = await ask('POST', `/sandboxes/${sandboxID}/snapshots`, { name: `shot-${at}` });
    t.equal(taken.status, 201, taken.text);
    ids.push(taken.json.snapshotID);
  }
  const first = await ask('GET', '/snapshots?limit=1');
  const second = await ask('GET', `/snapshots?limit=1&nextToken=${first.headers.get('x-next-token')}`);
  t.same(new Set([...first.json, ...second.json].map(({ snapshotID }) => snapshotID)), new Set(ids));
  t.equal(second.headers.get('x-next-token'), null);
  t.equal((await ask('GET', '/snapshots?nextToken=x')).status, 400);
  for (const templateID of [...ids, 'shot-0', 'shot-1'])
    t.match(await ask('POST', '/sandboxes', { ...BODY, templateID }), { status: 201 }, templateID);
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 3);
  t.match(await ask('POST', '/sandboxes', { ...BODY, templateID: 'snap_0123456789abc' }), { status: 404 });
  t.match(await ask('POST', '/sandboxes', { ...BODY, templateID: 'no-such' }), { status: 404 });
  t.equal((await ask('DELETE', `/templates/${ids[0]}`)).status, 204);
  t.match(await ask('GET', '/teams'), { status: 501 });
});

t.test('a snapshot of a host that does not answer is not missed elsewhere', async (t) => {
  const { hosts, ask } = await start(t);
  const { sandboxID } = (await ask('POST', '/sandboxes', BODY)).json;
  const { json } = await ask('POST', `/sandboxes/${sandboxID}/snapshots`, { name: 'shot' });
  const holder = hosts.find(({ daemon }) => daemon.manager.list().length > 0);
  await holder?.crash();
  const named = { status: 502, text: new RegExp(`\\b${holder?.name}\\b`) };
  for (const templateID of [json.snapshotID, 'shot'])
    t.match(await ask('POST', '/sandboxes', { ...BODY, templateID }), named, templateID);
  t.match(await ask('DELETE', `/templates/${json.snapshotID}`), named);
});

t.test('processes, files and ports are those of the host, which checks tokens', async (t) => {
  const { hosts, url, port, ask } = await start(t);
  const made: (Created & { trafficAccessToken?: string })[] = [];
  for (let n = 0; n < 2; n++) made.push((await ask('POST', '/sandboxes', BODY)).json);
  for (const sandbox of made) {
    const token = { 'x-access-token': sandbox.envdAccessToken };
    const named = { ...token, ...toNames(sandbox) };
    t.equal((await ask('GET', '/health', undefined, named)).status, 204);
    const call = (headers: Record<string, string>) => ask('POST', '/process.Process/List', {}, headers);
    t.match(await call(named), { status: 501, text: /knows no commands by id/ }, 'it has reached the guest');
    t.match(await call(toNames(sandbox)), { status: 401 });
    const other = made.find((each) => each !== sandbox)!;
    t.match(await call({ ...toNames(sandbox), 'x-access-token': other.envdAccessToken }), { status: 401 });
    const host = `49983-${sandbox.sandboxID}.${DOMAIN}`;
    t.equal((await askPort(port, host, { path: '/health' })).status, 204);
    t.equal(
      (await askPort(port, host, { path: '/health', headers: toNames(other) })).status,
      400,
      'two sandboxes',
    );
    const signature = sign({ path: '/a', operation: 'read', username: '', token: sandbox.envdAccessToken });
    const query = new URLSearchParams({ path: '/a', signature });
    const wrong = new URLSearchParams({ path: '/b', signature });
    t.not((await askPort(port, host, { path: `/files?${query}` })).status, 401);
    t.equal((await askPort(port, host, { path: `/files?${wrong}` })).status, 401);
    const unnamed = (path: string, headers = {}) => askPort(port, url.host, { path, headers });
    t.match(await unnamed(`/files?${query}`), { status: 501 }, 'the signature names the sandbox');
    t.match(await unnamed(`/files?${wrong}`), { status: 401 });
    t.match(await unnamed('/files?path=/a', token), { status: 501 }, 'and so does a token');
    t.match(await unnamed('/health', token), { status: 204 });
    t.match(await unnamed('/health', { 'x-access-token': 'x' }), { status: 502, body: /was not found/ });
    for (const at of [port, hosts[0]!.e2b!.port]) {
      const asked = await askPort(at, `127.0.0.1:${at}`, { path: `/sandboxd/owner?${query}` });
      t.equal(asked.status, 401, 'what only gateways may ask');
      // A gateway passes it on as a request of envd.
      const named = await askPort(at, `127.0.0.1:${at}`, {
        path: `/sandboxd/owner?${query}`,
        headers: toNames(sandbox),
      });
      t.not(named.status, 200);
    }

    const served = await askPort(port, `3000-${sandbox.sandboxID}.${DOMAIN}`);
    t.match(JSON.parse(served.body), { headers: { host: `3000-${sandbox.sandboxID}.${DOMAIN}` } });
    t.equal((await ask('GET', '/', undefined, toNames(sandbox, '3000'))).status, 200);
    const preflight = { origin: 'https://app.example', 'access-control-request-method': 'POST' };
    const answered = await askPort(port, host, { method: 'OPTIONS', path: '/files', headers: preflight });
    t.match(answered, { status: 204, headers: { 'access-control-allow-origin': 'https://app.example' } });
  }
  const gone = await askPort(port, `3000-sbx0123456789abc.${DOMAIN}`);
  t.match(gone, {
    status: 502,
    body: /"sandboxId":"sbx0123456789abc","message":"The sandbox was not found"/,
  });
  await ask('DELETE', `/sandboxes/${made[0]!.sandboxID}`);
  t.equal((await askPort(port, `3000-${made[0]!.sandboxID}.${DOMAIN}`)).status, 502);
});

t.test('what clients may not say, and hosts that are gone', async (t) => {
  const { fleet, hosts, gateway, port, url, ask, key } = await start(t);
  const forged = {
    'sandboxd-place': 'place sandboxd sbx_0123456789abc=1 AAAA',
    'sandboxd-client': '6.6.6.6 x',
  };
  t.equal((await ask('POST', '/sandboxes', BODY, forged)).status, 201);
  t.match(await ask('POST', '/sandboxes', BODY, { 'x-api-key': 'e2b_00' }), {
    status: 401,
    json: { code: 401 },
  });
  t.match(await ask('GET', '/sandboxes', undefined, { 'x-api-key': 'e2b_00' }), { status: 401 });
  const direct = await fetch(new URL('/sandboxes', hosts[0]!.e2b!.url), {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json', ...forged },
    body: JSON.stringify(BODY),
  });
  t.equal(direct.status, 403, 'a place that no gateway of the fleet wrote');
  t.equal((await ask('POST', '/sandboxes', BODY, { origin: 'https://evil.example' })).status, 403);
  const head = `x-api-key: ${key}\r\nContent-Type: application/json\r\n`;
  for (const [name, lines, status] of [
    ['two lengths', `Host: ${url.host}\r\n${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`, 400],
    ['another host', `Host: evil.example\r\n${head}Content-Length: 2\r\n\r\n{}`, 403],
    ['too long', `Host: ${url.host}\r\n${head}Content-Length: 1000000000\r\n\r\n{`, 413],
  ] as const) {
    const isDone = (text: string): boolean => text.includes('\r\n\r\n');
    const text = await exchangeRaw(port, `POST /sandboxes HTTP/1.1\r\n${lines}`, isDone);
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), name);
  }
  const made: Created[] = [];
  while (hosts.some(({ daemon }) => daemon.manager.list().length === 0))
    made.push((await ask('POST', '/sandboxes', BODY)).json);
  const [dead] = hosts;
  const lost = dead!.daemon.manager.list().map(({ id }) => id.replace('_', ''));
  await dead!.e2b!.close();
  const listed = await ask('GET', '/sandboxes');
  t.equal(listed.headers.get('sandboxd-unreachable-hosts'), 'h0');
  t.match(await ask('GET', `/sandboxes/${lost[0]}`), { status: 502, text: /the host h0 / });
  t.match(await askRest(gateway.url, 'GET', '/healthz'), { status: 200 });
  t.equal((await ask('POST', '/sandboxes', BODY)).status, 201, 'on the other host');
  await until(
    () => fleet.api.objects.list('pods').every(({ metadata }) => !metadata.deletionTimestamp),
    'pods',
  );
});
