// Names of sandboxes that change in a fleet: each is one of its tenant, whichever hosts and gateways are asked.
import t, { type Test } from 'tap';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { openKeyring } from './keyed.ts';

t.setTimeout(scaled(240_000));

const leasesOf = (fleet: Awaited<ReturnType<typeof startFleet>>) =>
  fleet.api.objects.list('leases').filter(({ metadata }) => metadata.name.startsWith('sandboxd-'));

/** Two hosts, each with sandboxes of its own. */
async function openFleet(t: Test) {
  const fleet = await startFleet(t);
  const hosts = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const [one, two] = [await fleet.gateway(), await fleet.gateway()];
  const create = async (name: string): Promise<string> => {
    const made = await ask(one.url, 'POST', '/sandboxes', { name });
    t.equal(made.status, 201, JSON.stringify(made.body));
    return made.body.id;
  };
  const rename = (id: string, name: string | null, url = one.url) =>
    ask(url, 'PATCH', `/sandboxes/${id}`, { name });
  return { fleet, hosts, one, two, create, rename };
}

t.test('a rename takes the new name for the fleet, and frees the old one', async (t) => {
  const { fleet, one, two, create, rename } = await openFleet(t);
  const ids = [];
  // Some of them are on each host.
  for (const name of ['a', 'b', 'c', 'd']) ids.push(await create(name));
  const [a = '', b = '', c = ''] = ids;
  for (const id of ids.slice(1)) {
    const refused = await rename(id, 'a', two.url);
    t.match(refused, { status: 409, body: { code: 'conflict', error: /"a"/ } });
  }
  t.equal((await rename(a, 'new')).status, 200);
  t.equal((await ask(two.url, 'GET', `/sandboxes/${a}`)).body.name, 'new');
  t.match(await ask(two.url, 'POST', '/sandboxes', { name: 'new' }), { status: 409 });
  t.equal((await rename(b, 'new', two.url)).status, 409);
  t.equal((await rename(b, 'a', two.url)).status, 200, 'the old name is free');
  t.match(await ask(one.url, 'POST', '/sandboxes', { name: 'a' }), { status: 409 });
  t.equal((await rename(a, 'new')).status, 200, 'its own name');

  t.equal((await rename(c, null)).status, 200);
  t.equal((await ask(one.url, 'POST', '/sandboxes', { name: 'c' })).status, 201, 'a name that was removed');
  t.equal(leasesOf(fleet).length, 4, 'a claim for each name');

  // What a host refuses keeps its name, and takes no other.
  const bad = await ask(one.url, 'PATCH', `/sandboxes/${a}`, { name: 'free', timeout_s: -1 });
  t.equal(bad.status, 400);
  t.equal((await rename(b, 'free')).status, 200);
  t.equal((await rename(c, 'new')).status, 409);
  t.equal((await ask(one.url, 'PATCH', `/sandboxes/${a}`, { labels: { x: 'y' } })).status, 200);
  t.equal((await rename(c, '-')).status, 400);
  t.equal(leasesOf(fleet).length, 4);
});

t.test('two gateways that give one name at once give it once', async (t) => {
  const { fleet, one, two, create, rename } = await openFleet(t);
  const ids = [await create('a'), await create('b'), await create('c'), await create('d')];
  const answers = await Promise.all(ids.map((id, n) => rename(id, 'same', n % 2 === 0 ? one.url : two.url)));
  t.same(answers.map(({ status }) => status).sort(), [200, 409, 409, 409]);
  const { body } = await ask(one.url, 'GET', '/sandboxes?name=same');
  t.equal((body.sandboxes as unknown[]).length, 1);
  t.equal(leasesOf(fleet).length, 4);
});

t.test('a name is one of its tenant, and who may not change a sandbox takes none', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  fleet.api.namespaces.add('sandboxd-acme');
  const acme = { authorization: `Bearer ${await keyring.make({ tenant: 'acme' })}` };
  const view = { authorization: `Bearer ${await keyring.make({ policy: { operations: ['view'] } })}` };
  const all = { authorization: `Bearer ${await keyring.make({})}` };
  await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const made = await ask(url, 'POST', '/sandboxes', { name: 'mine' }, all);
  const other = await ask(url, 'POST', '/sandboxes', { name: 'theirs' }, acme);
  t.same([made.status, other.status], [201, 201]);
  const patch = (id: string, name: string, headers: Record<string, string>) =>
    ask(url, 'PATCH', `/sandboxes/${id}`, { name }, headers);
  t.equal((await patch(made.body.id, 'theirs', all)).status, 200);
  t.equal((await patch(made.body.id, 'any', view)).status, 403);
  t.equal((await patch(made.body.id, 'any', acme)).status, 404);
  t.equal((await ask(url, 'PATCH', `/sandboxes/${made.body.id}`, { name: 'any' })).status, 401);
  t.equal(leasesOf(fleet).length, 2);
  t.equal((await ask(url, 'POST', '/sandboxes', { name: 'any' }, all)).status, 201);
});

t.test('while the API server is away no name is given, and others are changed', async (t) => {
  const { fleet, create, rename, one } = await openFleet(t);
  const id = await create('a');
  await fleet.api.stop();
  t.match(await rename(id, 'b'), { status: 503 });
  t.equal((await ask(one.url, 'PATCH', `/sandboxes/${id}`, { labels: { x: 'y' } })).status, 200);
  t.equal((await ask(one.url, 'GET', `/sandboxes/${id}`)).body.name, 'a');
});
