// A host whose fleet may have keys that it has not heard of: it takes no client for the operator until it has.
import { createServer } from 'node:http';
import t from 'tap';
import { toPodSandboxes } from '../../host-agent/src/app/open-pods.ts';
import { SandboxRecords } from '../../host-agent/src/e2b/sandbox-records.ts';
import { FleetKeys } from '../../host-agent/src/fleet/index.ts';
import { keysPath, toKeyObject } from '../../host-agent/src/fleet/kubernetes/key-objects.ts';
import { FleetSeal } from '../../host-agent/src/fleet/seal.ts';
import { OPERATOR } from '../../host-agent/src/keys/index.ts';
import { hashKey, mintKey } from '../../host-agent/src/keys/record.ts';
import { DOMAIN } from '../support/fleet/doors.ts';
import { ask, type Fleet, type HostOptions, LIMITS, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { ask as askPort, exchangeRaw, serveGuest } from './ingress-host.ts';
import { allSamples, type Keyring, openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const NAMESPACE = 'sandboxd';
const UNKNOWN = `sbk_${'A'.repeat(32)}`;
const other = new FleetSeal(Buffer.from('the secret of another fleet, also long'));

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const openKeys = (fleet: Fleet) =>
  new FleetKeys({ client: fleet.client(), seal: fleet.seal, namespace: NAMESPACE });
const forge = async (fleet: Fleet) => {
  const body = toKeyObject(NAMESPACE, { name: 'x', hash: hashKey(mintKey()), createdAtMs: 1 }, other);
  await fleet.client().request({ method: 'POST', path: keysPath(NAMESPACE), body });
};

async function startHost(fleet: Fleet, keyring: Keyring, options: HostOptions = {}) {
  const { authenticator, registry } = keyring;
  const host = await fleet.host('h0', { authenticator, sharedKeys: registry, ...options });
  const whoami = async (key?: string) =>
    (await ask(host.url, 'GET', '/whoami', undefined, key === undefined ? {} : bearer(key))).status;
  return { ...host, whoami };
}

t.test('until the keys are listed, every door is closed, and says when to try again', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const guest = await serveGuest(
    t,
    createServer((_, response) => response.end('hello')),
  );
  await fleet.api.stop();
  const host = await startHost(fleet, keyring, { isAwaited: false, ports: guest, e2b: keyring });
  const port = Number(new URL(host.url).port);
  for (const { name, route, transport, bytes } of allSamples()) {
    for (const [what, header] of Object.entries({
      none: '',
      unknown: `Authorization: Bearer ${UNKNOWN}\r\n`,
    })) {
      const answer = await exchangeRaw(port, bytes(`Connection: close\r\n${header}`));
      const where = `${name}, ${transport}, ${what}`;
      if (route.access === 'public') t.match(answer, /^HTTP\/1.1 200 /, where);
      else t.match(answer, /^HTTP\/1.1 503 .*\r\nretry-after: 2\r\n/is, where);
    }
  }
  const refused = await ask(host.url, 'GET', '/sandboxes');
  t.match(refused.body, { code: 'exhausted', error: /which keys its fleet has/ });
  const socket = await exchangeRaw(
    port,
    `GET /sandboxes/sbx_0123456789abc/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: exec, bearer.${UNKNOWN}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
  t.match(socket, /^HTTP\/1.1 503 /);

  const name = `3000-sbx-0123456789abc.${DOMAIN}`;
  for (const headers of [{}, { 'x-access-token': UNKNOWN }] as Record<string, string>[])
    t.match(
      await askPort(host.ingressPort, name, { headers }),
      { status: 503, headers: { 'retry-after': '2' } },
      'a URL of a port',
    );
  for (const headers of [{}, { 'x-api-key': UNKNOWN }, { authorization: 'Bearer e2b_0' }] as Record<
    string,
    string
  >[]) {
    const answer = await fetch(`${host.e2b?.url}/v2/sandboxes`, { headers });
    t.match([answer.status, answer.headers.get('retry-after')], [503, '2'], 'a client of E2B');
  }
  t.equal(keyring.registry.list().length, 0);

  await fleet.api.listen();
  await until(() => !keyring.registry.isAwaiting, 'a list without keys');
  t.equal(await host.whoami(), 200, 'an empty list is a list');
  const { text } = await openKeys(fleet).create({ name: 'ci' });
  await until(() => keyring.registry.find(text).state === 'valid', 'the first key');
  t.same([await host.whoami(), await host.whoami(text), await host.whoami(UNKNOWN)], [401, 200, 401]);
});

t.test('what a host has heard holds for its next daemon, without the API server', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const first = await startHost(fleet, keyring);
  const again = async (from: typeof first) => {
    await from.crash();
    await fleet.api.stop();
    const next = await startHost(fleet, keyring, { home: from.daemon.home, isAwaited: false });
    return next;
  };
  const second = await again(first);
  t.equal(await second.whoami(), 200, 'a fleet without keys');
  await fleet.api.listen();
  const { text } = await openKeys(fleet).create({ name: 'ci' });
  await until(() => keyring.registry.find(text).state === 'valid', 'the first key');
  const third = await again(second);
  t.same([await third.whoami(), await third.whoami(text), await third.whoami(UNKNOWN)], [401, 200, 401]);
  await fleet.api.listen();
});

t.test('keys of the host itself are accepted meanwhile', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const own = await keyring.make();
  await fleet.api.stop();
  const host = await startHost(fleet, keyring, { isAwaited: false });
  t.same([await host.whoami(own), await host.whoami(), await host.whoami(UNKNOWN)], [200, 401, 503]);
  await fleet.api.listen();
  await until(() => !keyring.registry.isAwaiting, 'a list without keys');
  t.same([await host.whoami(own), await host.whoami(), await host.whoami(UNKNOWN)], [200, 401, 401]);
});

t.test('keys that a host cannot read are keys: it takes no client without one', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const host = await startHost(fleet, keyring);
  t.equal(await host.whoami(), 200);
  await forge(fleet);
  await until(() => keyring.registry.isClosed, 'a key of another secret, or of a later version');
  t.equal(await host.whoami(), 401);
  await host.crash();
  await fleet.api.stop();
  const later = await openKeyring(t);
  const next = await startHost(fleet, later, { home: host.daemon.home, isAwaited: false });
  t.equal(await next.whoami(), 503, 'also for the next daemon');
  await fleet.api.listen();
  await until(() => !later.registry.isAwaiting, 'the list has it');
  t.equal(await next.whoami(), 401);
});

t.test('a pod of others waits for the keys, and is not refused', async (t) => {
  const { registry: keys, make } = await openKeyring(t);
  const deps = { sandboxes: {} as never, keys, limits: LIMITS, hasImages: false };
  const pods = toPodSandboxes('pods', deps, {} as never);
  pods.assertAllowed(undefined);
  keys.awaitShared();
  t.throws(() => pods.assertAllowed(undefined), { code: 'upstream' });
  t.throws(() => pods.assertAllowed('acme'), { code: 'upstream' });
  await make({ name: 'pods-acme', tenant: 'acme' });
  pods.assertAllowed('acme');
  await keys.setShared([]);
  t.throws(() => pods.assertAllowed('other'), { code: 'forbidden' });
});

t.test('a list that cannot be kept opens nothing', async (t) => {
  const { registry, store, authenticator } = await openKeyring(t);
  registry.awaitShared();
  const asked = { authorization: undefined, protocols: undefined, address: '127.0.0.1' };
  const write = store.atomically;
  store.atomically = () => Promise.reject(new Error('MDB_MAP_FULL'));
  await t.rejects(registry.setShared([]));
  await t.rejects(authenticator.authenticate(asked), { code: 'exhausted' });
  store.atomically = write;
  await registry.setShared([]);
  t.match(await authenticator.authenticate(asked), { kind: 'operator' });
});

t.test('tokens of E2B whose key may be one of the fleet wait, those of other keys do not', async (t) => {
  const { registry, store, make } = await openKeyring(t);
  const records = await SandboxRecords.open(store, registry);
  const id = 'sbx_0123456789abc';
  await records.put(id, { ports: 'public', keyIds: [] } as never);
  const token = await records.tokenFor(id, OPERATOR);
  const upload = records.uploadToken('x', OPERATOR);
  const uses = [
    () => records.holderOf(id, token),
    () => [...records.tokens(id)].length === 1,
    () => [...records.tokensLike(token)].length === 1,
    () => records.uploaderOf('x', upload),
  ];
  for (const use of uses) t.ok(use());
  registry.awaitShared();
  for (const use of uses) t.throws(use, { code: 'exhausted', details: { retryAfterS: 2 } });
  t.equal(records.holderOf(id, `${token.slice(0, -1)}x`), undefined, 'what is no token of this host is none');
  await registry.setShared([]);
  for (const use of uses) t.ok(use());
  const found = registry.find(await make());
  if (found.state !== 'valid') throw new Error('no key');
  const own = await records.tokenFor(id, found.principal);
  registry.awaitShared();
  t.match(records.holderOf(id, own), { kind: 'key' });
  const [first] = records.tokens(id);
  t.match(first, { token: own });
});
