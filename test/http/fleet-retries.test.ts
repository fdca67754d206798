// What a fleet does when it is asked the same thing twice: keys of retries, and names.
import t from 'tap';
import { HostPods } from '../../host-agent/src/fleet/host/host-pods.ts';
import { JOINED } from '../../host-agent/src/fleet/kubernetes/pods.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import { type Asked, ask, type Fleet, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const podsOf = (fleet: Fleet, namespace?: string) => fleet.api.objects.list('pods', namespace);
const statuses = (answers: readonly Asked[]) => answers.map(({ status }) => status).sort();

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('one key, or one name, is one sandbox, whatever gateway is asked', async (t) => {
  const fleet = await startFleet(t);
  const hosts = await Promise.all([fleet.host('h0'), fleet.host('h1')]);
  await fleet.ready(2);
  const gateways = [await fleet.gateway(), await fleet.gateway()];
  const key = { 'idempotency-key': 'one-and-only' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => ask(gateways[n % 2]!.url, 'POST', '/sandboxes', {}, key)),
  );
  t.same(statuses(answers), Array(8).fill(201), JSON.stringify(answers.map(({ body }) => body.error)));
  t.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
  t.equal(hosts.flatMap(({ daemon }) => daemon.manager.list()).length, 1);
  await until(() => podsOf(fleet).length === 1, 'one pod');

  const named = { name: 'only' };
  const first = await ask(gateways[0]!.url, 'POST', '/sandboxes', named);
  t.equal(first.status, 201);
  t.match(await ask(gateways[1]!.url, 'POST', '/sandboxes', named), { status: 409 });
  const found = await ask(gateways[1]!.url, 'POST', '/sandboxes', { ...named, if_exists: 'return' });
  t.match(found, { status: 200, body: { id: first.body.id } });
  t.equal((await ask(gateways[1]!.url, 'DELETE', `/sandboxes/${first.body.id}`)).status, 204);
  await until(() => podsOf(fleet).length === 1, 'one pod');
  t.equal((await ask(gateways[0]!.url, 'POST', '/sandboxes', named)).status, 201, 'the name is free again');
});

t.test('a fork that is sent again makes no places', async (t) => {
  const fleet = await startFleet(t);
  const { daemon } = await fleet.host('h0', { unusedMs: 600_000 });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  const path = `/sandboxes/${body.id}/fork`;
  const key = { 'idempotency-key': 'forks' };
  const made = () => fleet.api.requests.filter((request) => request === 'POST pods').length;
  const first = await ask(url, 'POST', path, { count: 2 }, key);
  t.equal(first.status, 201, JSON.stringify(first.body));
  t.equal(made(), 3);
  const again = await ask(url, 'POST', path, { count: 2 }, key);
  t.same([again.status, again.body], [201, first.body]);
  t.equal((await ask(url, 'POST', path, { count: 3 }, key)).status, 422);
  t.equal(
    (await ask(url, 'POST', path, { count: 2, name: 'one' }, { 'idempotency-key': 'odd' })).status,
    400,
  );
  t.equal(made(), 3);
  // At once: some may find no answer yet, and give back what they placed.
  const others = { 'idempotency-key': 'others' };
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => ask(url, 'POST', path, { count: 2 }, others)),
  );
  t.same(statuses(answers), Array(4).fill(201));
  t.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1);
  t.equal(daemon.manager.list().length, 5);
  await until(() => podsOf(fleet).length === 5, 'five pods');
});

t.test('a retry has its sandbox, though the gateway of the first request ends', async (t) => {
  const fleet = await startFleet(t);
  const { daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const [first, second] = [await fleet.gateway(), await fleet.gateway()];
  const go = Promise.withResolvers<void>();
  daemon.home.host.onBoot = () => go.promise;
  const key = { 'idempotency-key': 'one-and-only' };
  const lost = ask(first.url, 'POST', '/sandboxes', {}, key);
  lost.catch(() => undefined);
  await until(() => daemon.home.host.counts.boots === 1, 'a boot');
  const retry = ask(second.url, 'POST', '/sandboxes', {}, key);
  await until(
    () => podsOf(fleet)[0]?.metadata.annotations?.[JOINED] !== undefined,
    'the retry has its place',
  );
  await first.stop();
  await first.catalogue.settled();
  go.resolve();
  const { status, body } = await retry;
  t.equal(status, 201, JSON.stringify(body));
  t.equal(podsOf(fleet).length, 1);
  t.notOk(podsOf(fleet)[0]?.metadata.deletionTimestamp);
  t.equal((await ask(second.url, 'GET', `/sandboxes/${body.id}`)).status, 200);
});

t.test('a place that a retry uses is not given back by the first request', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { catalogue } = await fleet.gateway();
  const asked = { vcpus: 1, memoryMib: 512, tenant: undefined, claims: [] };
  const { signal } = new AbortController();
  const place = await catalogue.place({ ...asked, id: newId('sbx') }, signal);
  const isThere = () =>
    podsOf(fleet).some(({ metadata }) => metadata.uid === place.uid && !metadata.deletionTimestamp);
  await catalogue.join(place, signal);
  await catalogue.forget(place, { unlessJoined: true });
  t.ok(isThere());
  await catalogue.forget(place);
  t.notOk(isThere());
  await t.rejects(catalogue.join(place, signal), { code: 'exhausted' });
});

t.test('a create with a key goes to another host when the first one cannot be reached', async (t) => {
  const fleet = await startFleet(t);
  const [gone, other] = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  await gone.crash();
  for (let n = 0; n < 4; n++)
    t.equal((await ask(url, 'POST', '/sandboxes', {}, { 'idempotency-key': `key-${n}` })).status, 201);
  t.equal(other.daemon.manager.list().length, 4);
  await until(
    () => podsOf(fleet).filter(({ metadata }) => !metadata.deletionTimestamp).length === 4,
    'no others',
  );
});

t.test('a key whose sandbox was deleted makes no other one', async (t) => {
  const fleet = await startFleet(t);
  const hosts = await Promise.all([fleet.host('h0'), fleet.host('h1')]);
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const key = { 'idempotency-key': 'once' };
  const first = await ask(url, 'POST', '/sandboxes', {}, key);
  t.equal(first.status, 201);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${first.body.id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'no pod');
  for (let n = 0; n < 4; n++)
    t.match(await ask(url, 'POST', '/sandboxes', {}, key), { status: 201, body: { id: first.body.id } });
  t.equal((await ask(url, 'POST', '/sandboxes', { vcpus: 2 }, key)).status, 422);
  t.equal(hosts.flatMap(({ daemon }) => daemon.manager.list()).length, 0);
  t.equal(podsOf(fleet).length, 0);
});

t.test('a place whose removal failed serves no create, as it may still be removed', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { catalogue, seal } = await fleet.gateway();
  const { signal } = new AbortController();
  const asked = { vcpus: 1, memoryMib: 512, tenant: undefined, claims: [] };
  const place = await catalogue.place({ ...asked, id: newId('sbx') }, signal);
  const client = fleet.client(undefined, 'host');
  const pods = new HostPods({ client, seal, node: 'h0', log: fleet.log, onChange: () => undefined });
  t.teardown(() => pods.close());
  pods.start();
  const found = await pods.awaitPlace(place, place.namespace);
  await fleet.api.stop();
  await t.rejects(pods.remove(found));
  await t.rejects(pods.awaitPlace(place, place.namespace), { code: 'conflict' });
  await fleet.api.listen();
});
