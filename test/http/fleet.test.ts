// A fleet: hosts join, a gateway places sandboxes and passes requests on, and the catalogue agrees with the registries.
import t from 'tap';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { until } from '../support/until.ts';

t.test('sandboxes are placed over the hosts, and requests find them', async (t) => {
  const fleet = await startFleet(t);
  const hosts = [await fleet.host('h0'), await fleet.host('h1'), await fleet.host('h2')];
  await fleet.ready(3);
  const { url, map } = await fleet.gateway();
  const made = [];
  for (let n = 0; n < 9; n++) made.push(await ask(url, 'POST', '/sandboxes', { labels: { n: String(n) } }));
  t.same(new Set(made.map(({ status }) => status)), new Set([201]), JSON.stringify(made[0]?.body));
  const ids = made.map(({ body }) => body.id);
  t.equal(new Set(ids).size, 9);
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 3);
  t.equal(map.size, 9);

  const { body: list } = await ask(url, 'GET', '/sandboxes');
  t.same(
    (list.sandboxes as { id: string }[]).map(({ id }) => id),
    ids,
    'oldest first, of all hosts',
  );
  const { body: page } = await ask(url, 'GET', '/sandboxes?limit=4');
  const { body: next } = await ask(url, 'GET', `/sandboxes?limit=5&cursor=${page.next_cursor}`);
  t.same(
    [...(page.sandboxes as []), ...(next.sandboxes as [])].map(({ id }) => id),
    ids,
  );
  t.notOk(next.next_cursor);

  for (const id of ids) {
    t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { id } });
    t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  }
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
  t.match(await ask(url, 'GET', `/sandboxes/${ids[0]}`), { status: 404, body: { code: 'not_found' } });
  for (const { records } of hosts) await until(() => records.all().length === 0, 'no places');
});

t.test('a deleted pod ends its sandbox, and a host takes no sandbox without a place', async (t) => {
  const fleet = await startFleet(t);
  const { url: direct, daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await until(() => fleet.api.objects.list('pods')[0]?.status.phase === 'Running', 'a running pod');
  fleet.api.objects.delete('pods', 'sandboxd', body.id.replace('_', '-'), undefined);
  await until(() => daemon.manager.list().length === 0, 'no sandbox');
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pod');

  t.match(await ask(direct, 'POST', '/sandboxes', {}), { status: 409, body: { code: 'conflict' } });
  const forged = { 'sandboxd-place': 'place sandboxd sbx_0123456789abc=1 AAAA' };
  t.match(await ask(direct, 'POST', '/sandboxes', {}, forged), { status: 403, body: { code: 'forbidden' } });
  t.equal(
    (await ask(url, 'POST', '/sandboxes', {}, forged)).status,
    201,
    'a gateway drops what clients say of places',
  );
  t.match(await ask(url, 'POST', '/sandboxes', { vcpus: -1 }), { status: 400 });
  t.equal(fleet.api.objects.list('pods').length, 1);
});
