// Keys at the gateway of a fleet: each is checked before anything is done for it, and limits count by key.
import { createServer, type RequestOptions, request } from 'node:http';
import t from 'tap';
import type { AuditEntry } from '../../host-agent/src/audit/index.ts';
import { identify } from '../../host-agent/src/fleet/front/callers.ts';
import { serveE2bDoor } from '../support/fleet/doors.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const READS = ['/hosts', '/secrets/x', '/secrets', '/images/x', '/sandboxes', '/metrics', '/events?follow=0'];
const SNAPSHOT = '/snapshots/snap_0000000000000';

t.test('a wrong key is refused, whatever hosts answer, and hears no name of one', async (t) => {
  const fleet = await startFleet(t);
  const { authenticator, make } = await openKeyring(t);
  await make();
  const [h0, h1] = [
    await fleet.host('host-h0', { authenticator }),
    await fleet.host('host-h1', { authenticator }),
  ];
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const wrong = { authorization: 'Bearer wrong' };
  for (const crash of [undefined, h1.crash, h0.crash]) {
    await crash?.();
    for (const path of [...READS, SNAPSHOT]) {
      const { status, body } = await ask(url, 'GET', path, undefined, wrong);
      if (crash === h0.crash) t.ok([502, 503].includes(status), path);
      else t.equal(status, 401, path);
      t.notMatch(JSON.stringify(body), /host-h/, path);
    }
  }
});

t.test('wrong keys take no slot of others', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const right = { headers: { authorization: `Bearer ${key}` } };
  for (const path of ['/metrics', '/events?follow=0']) {
    const wrong = Array.from({ length: 40 }, (_, n) =>
      fetch(`${url}${path}`, { headers: { authorization: `Bearer wrong${n}` } }).then(({ status }) => status),
    );
    const answer = await fetch(`${url}${path}`, right);
    await answer.text();
    t.equal(answer.status, 200, path);
    t.same(new Set(await Promise.all(wrong)), new Set([401]), path);
  }
});

t.test('a key is one client, however its header is written', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const forms = [`Bearer ${key}`, `bearer ${key}`, `BEARER ${key}`, `Bearer   ${key}`];
  const ids = new Set<unknown>();
  for (const authorization of forms) {
    const headers = { authorization, 'idempotency-key': 'k1' };
    const { status, body } = await ask(url, 'POST', '/sandboxes', {}, headers);
    t.equal(status, 201, 'hosts read it');
    ids.add(body.id);
  }
  t.equal(ids.size, 1);
  t.equal(new Set([...forms, `Bearer ${key} `].map((form) => identify(form).digest)).size, 1);
  t.same(identify('Basic x'), identify(''));
});

t.test('pulls with the key of a retry keep no body once hosts have it', async (t) => {
  const fleet = await startFleet(t);
  const host = await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  await host.crash();
  let pulls = 0;
  // A host whose pulls take long.
  const slow = createServer((request, response) => {
    request.resume();
    if (request.method === 'POST' && request.url?.startsWith('/images')) {
      request.once('end', () => pulls++);
      return;
    }
    request.once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
  });
  await new Promise<void>((resolve) => slow.listen(Number(new URL(host.url).port), '127.0.0.1', resolve));
  t.teardown(() => {
    slow.closeAllConnections();
    slow.close();
  });
  const left = new AbortController();
  t.teardown(() => left.abort());
  // More than all bodies may take together.
  const body = `{"ref":"x"}${' '.repeat(1_000_000)}`;
  for (let n = 1; n <= 72; n++) {
    const headers = { 'content-type': 'application/json', 'idempotency-key': `k${n}` };
    fetch(`${url}/images`, { method: 'POST', body, headers, signal: left.signal }).catch(() => undefined);
    await until(() => pulls === n, `pull ${n}`);
  }
});

t.test('hosts know the clients of a gateway by their addresses, as the gateway names them', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const entries: AuditEntry[] = [];
  const audit = { write: (entry: AuditEntry) => void entries.push(entry) };
  const { authenticator } = keyring;
  const host = await fleet.host('h0', { authenticator, services: { audit } });
  await fleet.ready(1);
  const gateway = await fleet.gateway();
  const authorization = `Bearer ${await keyring.make()}`;
  const from = (localAddress: string, method: string, path: string, own: Record<string, string> = {}) =>
    askFrom(gateway.url, { localAddress, method, path, headers: { authorization, ...own } });
  const addresses = () => entries.splice(0).map((entry) => ('address' in entry ? entry.address : undefined));

  t.equal(await from('127.0.0.2', 'POST', '/sandboxes'), 201);
  t.same(new Set(addresses()), new Set(['127.0.0.2']), 'also the question whose key it is');
  for (const path of ['/sandboxes', '/hosts', '/secrets', '/images', '/whoami', '/events?follow=0'])
    await from('127.0.0.3', 'GET', path);
  await from('127.0.0.3', 'POST', '/sandboxes/sbx_0000000000000/resume');
  t.same(new Set(addresses()), new Set(['127.0.0.3']));

  const forged = [
    { 'sandboxd-client': '127.0.0.9 AAAA' },
    { 'sandboxd-client': '127.0.0.9 AAAA', connection: 'sandboxd-client' },
    { connection: 'keep-alive, Sandboxd-Client' },
  ];
  for (const headers of forged) t.equal(await from('127.0.0.4', 'GET', '/whoami', headers), 200);
  t.same(new Set(addresses()), new Set(['127.0.0.4']));
  const direct = { authorization, 'sandboxd-client': '127.0.0.9 AAAA' };
  await askFrom(host.url, { localAddress: '127.0.0.5', method: 'GET', path: '/whoami', headers: direct });
  t.same(addresses(), ['127.0.0.5'], 'a client that no gateway named');
});

t.test('so do their fronts for clients of E2B', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const entries: AuditEntry[] = [];
  const audit = { write: (entry: AuditEntry) => void entries.push(entry) };
  const { authenticator } = keyring;
  await fleet.host('h0', { authenticator, e2b: keyring, services: { audit } });
  await fleet.ready(1);
  const door = await serveE2bDoor(t, await fleet.gateway());
  const from = (localAddress: string, path: string) =>
    askFrom(door.href, { localAddress, method: 'GET', path, headers: { 'x-api-key': key } });
  t.equal(await from('127.0.0.2', '/v2/sandboxes'), 200);
  t.equal(await from('127.0.0.3', '/sandboxes/0123456789abc'), 404);
  t.equal(await from('127.0.0.4', '/nothing'), 404);
  const addresses = entries.flatMap((entry) => ('address' in entry ? [entry.address] : []));
  t.ok(addresses.includes('127.0.0.2'), JSON.stringify(addresses));
  t.notOk(addresses.includes('127.0.0.1'));
});

/** With an address of its own. Resolves with the status. */
async function askFrom(
  url: string,
  { path, ...options }: RequestOptions & { readonly path: string },
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  request(new URL(path, url), options, (answer) => {
    answer.resume().once('end', () => resolve(answer.statusCode ?? 0));
  })
    .once('error', reject)
    .end();
  return await promise;
}
