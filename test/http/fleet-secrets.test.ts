// Stored secrets of a fleet: on every host, and what is missing where is named.
import t from 'tap';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const SECRET = { value: 'example-token-0123456789', hosts: ['api.example.com'] };

t.test('a secret goes to all hosts, and those that have not got it are named', async (t) => {
  const fleet = await startFleet(t);
  const [h0, h1] = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const { url, map } = await fleet.gateway();
  const isStored = ({ daemon }: typeof h0, name: string) =>
    daemon.secrets.secretStore.list('').some((each) => each.name === name);
  const put = await ask(url, 'PUT', '/secrets/github', SECRET);
  t.match(put, { status: 200, body: { name: 'github', hosts: SECRET.hosts } });
  t.ok(isStored(h0, 'github') && isStored(h1, 'github'));
  const { body } = await ask(url, 'GET', '/secrets');
  t.match(body, { secrets: [{ name: 'github', used_by: [], uses: 0 }] });
  t.equal((body.secrets as unknown[]).length, 1);
  t.notMatch(JSON.stringify(body), /missing_on|older_on|unreachable|example-token/);
  t.match(await ask(url, 'PUT', '/secrets/bad', { value: 'x' }), { status: 400 });
  t.match(await ask(url, 'GET', '/secrets/nothing'), { status: 404 });
  t.match(await ask(url, 'DELETE', '/secrets/nothing'), { status: 404 });

  await h1.crash();
  const partly = await ask(url, 'PUT', '/secrets/stripe', SECRET);
  t.match(partly, {
    status: 502,
    body: { code: 'upstream', error: /stored on h0, and not on h1 \(.*\); send the same request again/ },
  });
  t.notMatch(partly.body, /example-token/);
  t.match(await ask(url, 'GET', '/secrets'), { body: { unreachable_hosts: ['h1'] } });
  t.match(await ask(url, 'GET', '/secrets/nothing'), { status: 502, body: { error: /h1/ } });
  const again = await fleet.host('h1', { home: h1.daemon.home });
  await until(() => map.host('h1')?.url.href === new URL(again.url).href, 'the host again');
  t.match(await ask(url, 'GET', '/secrets/stripe'), { status: 200, body: { missing_on: ['h1'] } });
  t.match(await ask(url, 'GET', '/secrets?limit=1'), {
    body: { secrets: [{ name: 'github' }], next_cursor: /./ },
  });
  t.match(await ask(url, 'PUT', '/secrets/stripe', SECRET), { status: 200 });
  const whole = await ask(url, 'GET', '/secrets/stripe');
  t.equal(whole.body.missing_on, undefined);
  for (const name of ['github', 'stripe'])
    t.equal((await ask(url, 'DELETE', `/secrets/${name}`)).status, 204);
  t.notOk(isStored(h0, 'github') || isStored(again, 'stripe'));
  t.match(await ask(url, 'GET', '/secrets'), { body: { secrets: [] } });
});

t.test('hosts check the keys, and a tenant has its own', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const [acme, other, view] = await Promise.all([
    keyring.make({ tenant: 'acme' }),
    keyring.make({ tenant: 'other' }),
    keyring.make({ policy: { operations: ['view'] } }),
  ]);
  const as = (key = '') => ({ authorization: `Bearer ${key}` });
  for (const name of ['h0', 'h1']) await fleet.host(name, { authenticator: keyring.authenticator });
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  t.equal((await ask(url, 'PUT', '/secrets/github', SECRET, as(acme))).status, 200);
  t.match(await ask(url, 'GET', '/secrets', undefined, as(acme)), {
    body: { secrets: [{ name: 'github' }] },
  });
  t.match(await ask(url, 'GET', '/secrets', undefined, as(other)), { body: { secrets: [] } });
  for (const [method, path] of [
    ['PUT', '/secrets/github'],
    ['DELETE', '/secrets/github'],
    ['GET', '/secrets'],
  ] as const) {
    const body = method === 'PUT' ? SECRET : undefined;
    t.equal((await ask(url, method, path, body, as(view))).status, 403, method);
    t.equal((await ask(url, method, path, body)).status, 401, method);
  }
});
