// What a fleet does when a part of it is gone, full, or asked the same thing twice.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type Asked, ask, type Fleet, startFleet } from '../support/fleet/fleet.ts';
import type { KubeObject } from '../support/fleet/objects.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

const podsOf = (fleet: Fleet, namespace?: string) => fleet.api.objects.list('pods', namespace);
const statuses = (answers: readonly Asked[]) => answers.map(({ status }) => status).sort();

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('the engine is gone: what runs is reachable, creates say when to come back', async (t) => {
  const fleet = await startFleet(t);
  const { daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const { url, map } = await fleet.gateway({ writeMs: 1800 });
  const { url: patient } = await fleet.gateway();
  const { body } = await ask(patient, 'POST', '/sandboxes', {});
  await until(() => map.size === 1 && podsOf(fleet)[0]?.status.phase === 'Running', 'a running pod');
  for (const way of ['stopped', 'hung']) {
    if (way === 'stopped') await fleet.api.stop();
    else fleet.api.isHung = true;
    const startedAt = performance.now();
    const refused = await ask(url, 'POST', '/sandboxes', {});
    t.comment(`${way}: refused after ${Math.round(performance.now() - startedAt)} ms`);
    t.match(refused, { status: 503, body: { code: 'exhausted' } }, way);
    t.ok(Number(refused.headers.get('retry-after')) > 0);
    t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
    const run = { cmd: ['echo', 'a', 'b'] };
    t.equal(
      (await ask(url, 'POST', `/sandboxes/${body.id}/exec`, run, { accept: 'application/json' })).status,
      200,
    );
    if (way === 'stopped') await fleet.api.listen();
    fleet.api.isHung = false;
    await until(() => map.isCurrent, 'a current map');
    // The one that hung may have been made, and then is given back.
    let made = await ask(url, 'POST', '/sandboxes', {});
    for (let n = 0; n < 20 && made.status === 503; n++, made = await ask(url, 'POST', '/sandboxes', {}))
      await sleep(200);
    t.equal(made.status, 201);
    t.equal((await ask(url, 'DELETE', `/sandboxes/${made.body.id}`)).status, 204);
  }
  await until(() => podsOf(fleet).length === 1, 'one pod');
  t.equal(daemon.manager.list().length, 1);
});

t.test('deletes while the engine is gone are carried out when it is back', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await fleet.api.stop();
  t.equal((await ask(url, 'DELETE', `/sandboxes/${body.id}`)).status, 204);
  await fleet.api.listen();
  await until(() => podsOf(fleet).length === 0, 'no pods');
});

t.test('a host agent is killed, and adopts its sandboxes at its next start', async (t) => {
  const fleet = await startFleet(t);
  const host = await fleet.host('h0');
  await fleet.host('h1');
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) ids.push((await ask(url, 'POST', '/sandboxes', {})).body.id);
  const own = host.daemon.manager.list().map(({ id }) => id);
  t.equal(own.length, 3);
  await until(() => podsOf(fleet).every(({ status }) => status.phase === 'Running'), 'running pods');
  await host.crash();
  const [first = '', gone = ''] = own;
  t.match(await ask(url, 'GET', `/sandboxes/${first}`), {
    status: 502,
    body: { code: 'upstream', error: /h0/ },
  });
  const { body: list } = await ask(url, 'GET', '/sandboxes');
  t.same(list.unreachable_hosts, ['h0']);
  t.equal((list.sandboxes as []).length, 3);
  // Creates go on: a second host is tried when the engine still trusts the first.
  const made = await ask(url, 'POST', '/sandboxes', {});
  t.equal(made.status, 201);
  // Deleted meanwhile by the engine.
  fleet.api.objects.delete('pods', 'sandboxd', gone.replace('_', '-'), undefined);
  const again = await fleet.host('h0', { home: host.daemon.home });
  await until(() => again.daemon.manager.list().length === 2, 'two sandboxes of three');
  for (const id of ids.filter((id) => id !== gone))
    t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  t.equal((await ask(url, 'GET', `/sandboxes/${gone}`)).status, 404);
  await until(() => podsOf(fleet).length === 6, 'six pods');
});

t.test('a quota of the namespace counts exactly', async (t) => {
  const fleet = await startFleet(t);
  await Promise.all([fleet.host('h0'), fleet.host('h1')]);
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const quota = { metadata: { name: 'tenant' }, spec: { hard: { pods: '8' } } };
  fleet.api.objects.create('resourcequotas', 'sandboxd', quota as unknown as KubeObject);
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(url, 'POST', '/sandboxes', {})));
  t.same(statuses(answers), [...Array(8).fill(201), ...Array(12).fill(403)]);
  t.match(answers.find(({ status }) => status === 403)?.body, { code: 'forbidden', error: /quota/ });
});

t.test('forks are made where their original is, all or none', async (t) => {
  const fleet = await startFleet(t);
  const hosts = await Promise.all([fleet.host('h0'), fleet.host('h1')]);
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  const home = hosts.find(({ daemon }) => daemon.manager.find(body.id) !== undefined)!;
  const forks = await ask(url, 'POST', `/sandboxes/${body.id}/fork`, { count: 3 });
  t.equal(forks.status, 201, JSON.stringify(forks.body));
  t.equal(home.daemon.manager.list().length, 4);
  for (const { id } of home.daemon.manager.list())
    t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  const snapshot = await ask(url, 'POST', `/sandboxes/${body.id}/snapshot`);
  t.equal(snapshot.status, 201);
  t.match(await ask(url, 'GET', `/snapshots/${snapshot.body.id}`), {
    status: 200,
    body: { id: snapshot.body.id },
  });
  t.equal((await ask(url, 'POST', `/snapshots/${snapshot.body.id}/fork`, { count: 2 })).status, 201);
  t.match(await ask(url, 'GET', '/snapshots'), { body: { snapshots: [{ id: snapshot.body.id }] } });
  t.equal(podsOf(fleet).length, 6);
  const quota = { metadata: { name: 'tenant' }, spec: { hard: { pods: '8' } } };
  fleet.api.objects.create('resourcequotas', 'sandboxd', quota as unknown as KubeObject);
  t.equal((await ask(url, 'POST', `/sandboxes/${body.id}/fork`, { count: 3 })).status, 403);
  await until(() => podsOf(fleet).length === 6, 'what was placed is given back');
});

t.test('tenants have namespaces of their own, which they cannot leave', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const [acme, other, loner] = await Promise.all(
    ['acme', 'other', 'loner'].map((tenant) => keyring.make({ tenant })),
  );
  const as = (key = '') => ({ authorization: `Bearer ${key}` });
  const { daemon } = await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  for (const tenant of ['acme', 'other']) fleet.api.namespaces.add(`sandboxd-${tenant}`);
  const made = await ask(url, 'POST', '/sandboxes', { name: 'web' }, as(acme));
  t.equal(made.status, 201, JSON.stringify(made.body));
  t.equal(podsOf(fleet, 'sandboxd-acme').length, 1);
  t.equal(
    (await ask(url, 'POST', '/sandboxes', { name: 'web' }, as(other))).status,
    201,
    'a name is its tenant’s',
  );
  t.equal((await ask(url, 'GET', `/sandboxes/${made.body.id}`, undefined, as(other))).status, 404);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${made.body.id}`, undefined, as(other))).status, 404);
  t.match(await ask(url, 'POST', '/sandboxes', {}, as(loner)), {
    status: 403,
    body: { error: /sandboxd-loner/ },
  });
  t.equal((await ask(url, 'POST', '/sandboxes', {}, as('wrong'))).status, 401);
  t.equal((await ask(url, 'POST', '/sandboxes', {})).status, 401);
  t.equal((await ask(url, 'GET', '/sandboxes')).status, 401);
  t.match(await ask(url, 'GET', '/sandboxes', undefined, as(other)), {
    body: { sandboxes: [{ name: 'web' }] },
  });
  t.equal(daemon.manager.list().length, 2);
  t.equal(podsOf(fleet).length, 2);
});

t.test('a host that refuses what others carry out is named', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { url, map } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  // It has keys that the other does not know.
  const keyring = await openKeyring(t);
  await keyring.make();
  await fleet.host('h1', { authenticator: keyring.authenticator });
  await until(() => map.hosts().length === 2, 'two hosts');
  const named = { unreachable_hosts: ['h1'] };
  t.match(await ask(url, 'GET', '/sandboxes'), {
    status: 200,
    body: { ...named, sandboxes: [{ id: body.id }] },
  });
  const all = '/sandboxes?state=running';
  t.match(await ask(url, 'DELETE', all), { status: 200, body: { ...named, deleted: [body.id] } });
  t.match(await ask(url, 'DELETE', '/sandboxes?state=odd'), { body: { code: /./ } });
});

t.test('a host with a wrong token stays outside; one of a taken name, too', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  const outside = await fleet.host('h1', { token: 'wrong' });
  await fleet.ready(1);
  t.match(await ask(outside.url, 'POST', '/sandboxes', {}), { status: 409 });
  t.equal(fleet.api.objects.list('nodes').length, 1);
  const twin = await fleet.host('h0', { token: 'wrong', instance: 'another' });
  t.equal(twin.agent instanceof Object, true);
});

t.test('versions that are too old are listed again, and a new Node ends nothing', async (t) => {
  const fleet = await startFleet(t);
  const { daemon, records } = await fleet.host('h0');
  await fleet.ready(1);
  const { url, map } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await until(() => podsOf(fleet)[0]?.status.phase === 'Running', 'a running pod');
  fleet.api.compact();
  await until(() => map.isCurrent, 'a current map');
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
  const second = await ask(url, 'POST', '/sandboxes', {});
  t.equal(second.status, 201);

  // A cloud deletes the Node of a host it does not know, and the engine then its pods and its Lease.
  await until(() => podsOf(fleet).every(({ status }) => status.phase === 'Running'), 'running pods');
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  if (fleet.api.objects.find('leases', 'kube-node-lease', 'h0'))
    fleet.api.objects.delete('leases', 'kube-node-lease', 'h0', 0);
  const uid = () => fleet.api.objects.find('nodes', '', 'h0')?.metadata.uid;
  await until(() => uid() !== undefined, 'the Node again');
  await until(
    () => records.all().every(({ record }) => record.nodeUid !== uid()),
    'places of the former Node',
  );
  for (const { metadata } of podsOf(fleet)) fleet.api.objects.delete('pods', 'sandboxd', metadata.name, 0);
  await until(() => podsOf(fleet).length === 0, 'no pods');
  t.equal(daemon.manager.list().length, 2, 'the sandboxes go on');
});

t.test('a Node is deleted and its pods at once: the sandboxes go on', async (t) => {
  const fleet = await startFleet(t);
  const { daemon, records } = await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  for (let n = 0; n < 3; n++) t.equal((await ask(url, 'POST', '/sandboxes', {})).status, 201);
  await until(() => podsOf(fleet).every(({ status }) => status.phase === 'Running'), 'running pods');
  const former = podsOf(fleet).map(({ metadata }) => metadata.uid);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  for (const { metadata } of podsOf(fleet)) fleet.api.objects.delete('pods', 'sandboxd', metadata.name, 0);
  const isNew = ({ metadata, status }: ReturnType<typeof podsOf>[number]): boolean =>
    !former.includes(metadata.uid) && status.phase === 'Running';
  await until(() => podsOf(fleet).filter(isNew).length === 3, 'they have places again');
  await until(() => records.all().every(({ record }) => !former.includes(record.uid)), 'at the host, too');
  t.equal(daemon.manager.list().length, 3);
  t.ok(fleet.api.objects.find('nodes', '', 'h0'));
});

t.test('a Node is made again before its pods go: deleting them ends their sandboxes again', async (t) => {
  const fleet = await startFleet(t);
  const { daemon, records } = await fleet.host('h0', { unusedMs: 300 });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await until(() => podsOf(fleet)[0]?.status.phase === 'Running', 'a running pod');
  const node = () => fleet.api.objects.find('nodes', '', 'h0')?.metadata.uid;
  const former = node();
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  if (fleet.api.objects.find('leases', 'kube-node-lease', 'h0'))
    fleet.api.objects.delete('leases', 'kube-node-lease', 'h0', 0);
  await until(() => node() !== undefined && node() !== former, 'the Node again');
  await until(() => records.all()[0]?.record.nodeUid === node(), 'a place of the Node');
  fleet.api.objects.delete('pods', 'sandboxd', body.id.replace('_', '-'), undefined);
  await until(() => daemon.manager.list().length === 0 && podsOf(fleet).length === 0, 'no sandbox');
});
