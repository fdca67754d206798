// Keys of a fleet: made once, valid on every host, and revoked on every host.
import t, { type Test } from 'tap';
import { FleetKeys } from '../../host-agent/src/fleet/index.ts';
import { keysPath, toKeyObject } from '../../host-agent/src/fleet/kubernetes/key-objects.ts';
import { FleetSeal } from '../../host-agent/src/fleet/seal.ts';
import { hashKey, mintKey } from '../../host-agent/src/keys/record.ts';
import { ask, type Fleet, type HostOptions, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { type Keyring, openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const NAMESPACE = 'sandboxd';

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const statusOf = async (url: string, key: string) =>
  (await ask(url, 'GET', '/whoami', undefined, bearer(key))).status;

async function startHost(
  t: Test,
  fleet: Fleet,
  name: string,
  options: HostOptions & { keyring?: Keyring } = {},
) {
  const { keyring = await openKeyring(t), ...more } = options;
  const { authenticator, registry } = keyring;
  return { keyring, ...(await fleet.host(name, { authenticator, sharedKeys: registry, ...more })) };
}

const openKeys = (fleet: Fleet) =>
  new FleetKeys({ client: fleet.client(), seal: fleet.seal, namespace: NAMESPACE });
const knows = ({ registry }: Keyring, key: string, state = 'valid') => registry.find(key).state === state;

t.test('one key for all hosts, behind the gateway and at each of them', async (t) => {
  const fleet = await startFleet(t);
  const hosts = [await startHost(t, fleet, 'h0'), await startHost(t, fleet, 'h1')] as const;
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  t.equal((await ask(url, 'GET', '/sandboxes')).status, 200, 'without keys everybody may');
  const keys = openKeys(fleet);
  const { text, key } = await keys.create({ name: 'ci', policy: { max_vcpus: 2 }, seesAllTenants: true });
  await until(() => hosts.every(({ keyring }) => knows(keyring, text)), 'the key on each host');
  t.equal((await ask(url, 'GET', '/sandboxes')).status, 401);
  t.match((await ask(url, 'GET', '/whoami', undefined, bearer(text))).body, { key: { name: 'ci' } });
  t.equal((await ask(url, 'POST', '/sandboxes', {}, bearer(text))).status, 201);
  const large = await ask(url, 'POST', '/sandboxes', { vcpus: 3 }, bearer(text));
  t.match(large, { status: 403, body: { code: 'forbidden' } }, 'its policy counts');
  for (const host of hosts) t.equal(await statusOf(host.url, text), 200);
  t.match(await keys.list(), [{ name: 'ci', id: key.id, isShared: true }]);
  const { text: second } = await keys.create({ name: 'e2b.1_', tenant: 'acme' }, 'e2b');
  t.match(second, /^e2b_/);
  await until(() => hosts.every(({ keyring }) => knows(keyring, second)), 'the second one');
  t.match(await keys.revoke('ci'), [{ name: 'ci' }]);
  await until(() => hosts.every(({ keyring }) => knows(keyring, text, 'revoked')), 'the end of the key');
  t.equal(await statusOf(url, text), 401);
  for (const host of hosts) t.equal(await statusOf(host.url, text), 401);
  t.equal(await statusOf(url, second), 200);
  await t.rejects(keys.revoke('ci'), { code: 'not_found' });
  await t.rejects(keys.revoke('none'), { code: 'not_found' });
  const { text: third } = await keys.create({ name: 'ci' });
  await until(() => hosts.every(({ keyring }) => knows(keyring, third)), 'another one of that name');
  t.equal(await statusOf(url, text), 401, 'the earlier one stays revoked');
});

t.test('one name, two operators at once', async (t) => {
  const fleet = await startFleet(t);
  const made = await Promise.allSettled(
    Array.from({ length: 6 }, () => openKeys(fleet).create({ name: 'ci' })),
  );
  t.equal(made.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const each of made) if (each.status === 'rejected') t.match(each.reason, { code: 'conflict' });
  const revoked = await Promise.allSettled(Array.from({ length: 6 }, () => openKeys(fleet).revoke('ci')));
  t.ok(revoked.some(({ status }) => status === 'fulfilled'));
  t.match(await openKeys(fleet).list(), [{ revokedAtMs: Number }]);
});

t.test('a host that was away, and one without the API server', async (t) => {
  const fleet = await startFleet(t);
  const [h0, h1] = [await startHost(t, fleet, 'h0'), await startHost(t, fleet, 'h1')];
  await fleet.ready(2);
  const keys = openKeys(fleet);
  const [kept, lost] = [await keys.create({ name: 'kept' }), await keys.create({ name: 'lost' })];
  const isThere = () =>
    [h0, h1].every(({ keyring }) => knows(keyring, kept.text) && knows(keyring, lost.text));
  await until(isThere, 'both keys on both hosts');
  await h1.crash();
  await keys.revoke('lost');
  const later = await keys.create({ name: 'later' });
  const again = await startHost(t, fleet, 'h1', { home: h1.daemon.home, keyring: h1.keyring });
  await until(
    () => knows(again.keyring, lost.text, 'revoked') && knows(again.keyring, later.text),
    'what it missed',
  );
  t.equal(await statusOf(again.url, kept.text), 200);
  t.equal(await statusOf(again.url, lost.text), 401);

  await until(() => knows(h0.keyring, later.text), 'the later one on the first host');
  await fleet.api.stop();
  t.equal(await statusOf(h0.url, kept.text), 200, 'what a host knows, it goes on with');
  t.equal(await statusOf(h0.url, lost.text), 401);
  await t.rejects(keys.list(), { code: 'upstream' });
  await fleet.api.listen();
  await keys.revoke('kept');
  await until(() => knows(h0.keyring, kept.text, 'revoked'), 'what was revoked since');
});

t.test('what no operator of the fleet has made is no key', async (t) => {
  const fleet = await startFleet(t);
  const { keyring } = await startHost(t, fleet, 'h0');
  const client = fleet.client();
  const { seal } = fleet;
  const key = (name: string) => {
    const text = mintKey();
    return { text, record: { name, hash: hashKey(text), createdAtMs: 1 } };
  };
  const post = (body: object) => client.request({ method: 'POST', path: keysPath(NAMESPACE), body });
  const forged = key('forged');
  await post(
    toKeyObject(NAMESPACE, forged.record, new FleetSeal(Buffer.from('another secret of 32 bytes at least'))),
  );
  const moved = key('moved');
  await post(toKeyObject('sandboxd-acme', moved.record, seal));
  const renamed = key('renamed');
  const object = toKeyObject(NAMESPACE, renamed.record, seal);
  await post({ ...object, metadata: { ...object.metadata, name: 'sandboxd-key-other' } });
  const wider = key('wider');
  const later = { ...wider.record, policy: { operations: ['read'], max_something: 1 } };
  await post(toKeyObject(NAMESPACE, later as never, seal));
  for (const data of [undefined, {}, { key: '' }, { key: '{' }, { key: 'null' }, { key: '[]' }])
    await post({ metadata: { name: `odd-${Math.random()}`, labels: { 'sandboxd.dev/key': 'valid' } }, data });
  const good = key('good');
  await post(toKeyObject(NAMESPACE, good.record, seal));
  await until(() => knows(keyring, good.text), 'the one that is sealed');
  for (const { text } of [forged, moved, renamed, wider]) t.ok(knows(keyring, text, 'unknown'));
  t.same(
    (await openKeys(fleet).list()).map(({ name }) => name),
    ['good'],
  );
  await t.rejects(openKeys(fleet).create({ name: 'forged' }), {
    code: 'conflict',
    message: /delete it first/,
  });

  const path = `${keysPath(NAMESPACE)}/${toKeyObject(NAMESPACE, good.record, seal).metadata.name}`;
  const text = JSON.stringify({ ...good.record, tenant: 'acme' });
  await client.request({ method: 'PATCH', path, body: { data: { key: text } }, patch: 'merge' });
  await until(() => knows(keyring, good.text, 'unknown'), 'one that was changed is none');
  await client.request({
    method: 'PATCH',
    path,
    body: toKeyObject(NAMESPACE, good.record, seal),
    patch: 'merge',
  });
  await until(() => knows(keyring, good.text), 'it is as it was');
  await client.request({ method: 'DELETE', path });
  await until(() => knows(keyring, good.text, 'unknown'), 'its object is gone');
});

t.test('a list has a bound', async (t) => {
  const fleet = await startFleet(t);
  const keys = new FleetKeys({ client: fleet.client(), seal: fleet.seal, namespace: NAMESPACE, maxKeys: 2 });
  const [a, b] = [await keys.create({ name: 'a' }), await keys.create({ name: 'b' })];
  await t.rejects(keys.create({ name: 'c' }), { code: 'exhausted' });
  const { keyring } = await startHost(t, fleet, 'h0', { maxKeys: 1 });
  await until(() => keyring.registry.list().length > 0, 'one of them');
  t.equal(Number(knows(keyring, a.text)) + Number(knows(keyring, b.text)), 1);
  await keys.revoke('a');
  t.match(await keys.create({ name: 'a' }), { key: { name: 'a' } }, 'a name that is there can be used again');
});
