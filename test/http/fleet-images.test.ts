// Images of a fleet: which host has which, pulls on several, deletes on all.
import { Client } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { FakeImages, IMAGE } from './fake-images.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const OTHER = `sha256:${'2'.repeat(64)}`;

async function openFleet(t: Test) {
  const fleet = await startFleet(t);
  const [a, b] = [new FakeImages(), new FakeImages()];
  const own = { ...IMAGE, digest: OTHER, refs: ['redis:7'], convertedAtMs: 9 };
  const list = b.store.list;
  b.store.list = () => [...list(), own];
  await fleet.host('h0', { services: { images: a.store as never } });
  const h1 = await fleet.host('h1', { services: { images: b.store as never } });
  await fleet.ready(2);
  return { a, b, h1, ...(await fleet.gateway()) };
}

t.test('lists say which hosts have an image', async (t) => {
  const { url, h1 } = await openFleet(t);
  t.match(await ask(url, 'GET', '/images'), {
    body: {
      images: [
        { digest: IMAGE.digest, hosts: ['h0', 'h1'] },
        { digest: OTHER, hosts: ['h1'] },
      ],
    },
  });
  const { body: page } = await ask(url, 'GET', '/images?limit=1');
  t.match(page, { images: [{ digest: IMAGE.digest }], next_cursor: /./ });
  t.match(await ask(url, 'GET', `/images?limit=1&cursor=${page.next_cursor}`), {
    body: { images: [{ digest: OTHER }] },
  });
  t.match(await ask(url, 'GET', '/images?name=redis:7'), { body: { images: [{ digest: OTHER }] } });
  t.match(await ask(url, 'GET', '/images/nginx:alpine'), {
    body: { digest: IMAGE.digest, hosts: ['h0', 'h1'] },
  });
  t.equal((await ask(url, 'GET', '/images?limit=x')).status, 400);
  await h1.crash();
  t.match(await ask(url, 'GET', '/images'), {
    body: { images: [{ hosts: ['h0'] }], unreachable_hosts: ['h1'] },
  });
});

t.test('a list has what only the snapshot store has, of no host', async (t) => {
  const { a, b, url } = await openFleet(t);
  const third = { ...IMAGE, digest: `sha256:${'3'.repeat(64)}`, refs: ['debian:13'], convertedAtMs: 2 };
  a.remote = [third, { ...IMAGE, digest: OTHER, refs: ['redis:8'], convertedAtMs: 9 }];
  b.remote = [third];
  const client = new Client({ host: url });
  t.equal((await client.images.list()).length, 2);
  t.match(await client.images.list({ isShared: true }), [
    { digest: third.digest, storage: 'remote', hosts: [] },
    { digest: IMAGE.digest, storage: 'local', hosts: ['h0', 'h1'] },
    { digest: OTHER, refs: ['redis:7'], storage: 'stored', hosts: ['h1'] },
  ]);
  b.problem = 'the bucket is away';
  t.match(await ask(url, 'GET', '/images?shared=true&name=debian:13'), {
    body: { images: [{ digest: third.digest }], store_error: 'the bucket is away' },
  });
});

t.test('a pull is for all hosts, or for some, and says how far each is', async (t) => {
  const { a, b, url } = await openFleet(t);
  const client = new Client({ host: url });
  t.match(await client.images.pull('nginx:alpine'), { digest: IMAGE.digest, hosts: ['h0', 'h1'] });
  t.match(await client.images.pull('nginx:alpine', { hosts: ['h1'] }), { hosts: ['h1'] });
  t.equal(a.asked.length, 1);
  t.equal(b.asked.length, 2);
  t.match(await ask(url, 'POST', '/images?host=h9', { ref: 'nginx:alpine' }), {
    status: 400,
    body: { error: /"h9"/ },
  });
  t.match(await ask(url, 'POST', '/images', { ref: 'nothing' }), {
    status: 502,
    body: { error: /manifest unknown/ },
  });
  const steps: string[] = [];
  const onProgress = ({ text }: { text: string }) => void steps.push(text);
  t.match(await client.images.pull('nginx:alpine', { onProgress }), { hosts: ['h0', 'h1'] });
  t.equal(steps.filter((step) => step === 'converting 2 layers').length, 2);
  const lines = await fetch(`${url}/images`, {
    method: 'POST',
    headers: { accept: 'application/x-ndjson', 'content-type': 'application/json' },
    body: JSON.stringify({ ref: 'nginx:alpine' }),
  });
  const parsed = (await lines.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.same(new Set(parsed.slice(0, -1).map(({ host }) => host)), new Set(['h0', 'h1']));
  t.match(parsed.at(-1), { image: { digest: IMAGE.digest, hosts: ['h0', 'h1'] } });

  b.onPull = async () => {
    throw new AppError('upstream', 'the registry is away');
  };
  const partly = /pulled on h0, and not on h1 \(the registry is away\)/;
  t.match(await ask(url, 'POST', '/images', { ref: 'nginx:alpine' }), {
    status: 502,
    body: { error: partly },
  });
  await t.rejects(client.images.pull('nginx:alpine', { onProgress }), { message: partly });
});

t.test('a delete is of all that have it, and a host that does not answer is named', async (t) => {
  const { a, b, h1, url } = await openFleet(t);
  t.match(await ask(url, 'PATCH', '/images/nginx:alpine', { user_labels: { stage: 'tested' } }), {
    body: { user_labels: { stage: 'tested' }, hosts: ['h0', 'h1'] },
  });
  a.store.delete = async () => {
    throw new AppError('not_found', 'it is not here');
  };
  t.equal((await ask(url, 'DELETE', '/images/nginx:alpine')).status, 204);
  t.match(b.asked, [['delete', 'nginx:alpine']]);
  // It has nothing to do, and cannot ask the snapshot store.
  a.store.delete = async () => {
    throw new AppError('upstream', 'the snapshot store does not answer');
  };
  t.equal((await ask(url, 'DELETE', '/images/nginx:alpine')).status, 204);
  b.store.delete = a.store.delete;
  t.match(await ask(url, 'DELETE', '/images/nginx:alpine'), {
    status: 502,
    body: { error: /the snapshot store does not answer/ },
  });
  a.store.delete = async () => {
    throw new AppError('not_found', 'it is not here');
  };
  await h1.crash();
  const left = await ask(url, 'DELETE', '/images/nginx:alpine');
  t.match(left, { status: 502, body: { error: /a host that does not answer: h1/ } });
});

t.test('an imported snapshot is on one host, to which its id leads', async (t) => {
  const fleet = await startFleet(t);
  const hosts = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const { url, map } = await fleet.gateway();
  const { id } = (await ask(url, 'POST', '/sandboxes', {})).body;
  await until(() => map.size === 1, 'one place');
  const taken = await ask(url, 'POST', `/sandboxes/${id}/snapshot`);
  t.equal(taken.status, 201);
  const exported = await fetch(`${url}/snapshots/${taken.body.id}/export`);
  t.equal(exported.status, 200);
  const archive = Buffer.from(await exported.arrayBuffer());
  const send = async (headers: Record<string, string> = {}) => {
    const answer = await fetch(`${url}/snapshots/import`, { method: 'POST', body: archive, headers });
    return { status: answer.status, body: (await answer.json()) as { id: string } };
  };
  const made = await send();
  t.equal(made.status, 201, JSON.stringify(made.body));
  const busy = hosts.find(({ daemon }) => daemon.manager.find(id) !== undefined);
  const other = hosts.find((host) => host !== busy);
  t.equal(
    (await ask(other?.url ?? '', 'GET', `/snapshots/${made.body.id}`)).status,
    200,
    'on the other host',
  );
  t.match(await ask(url, 'GET', `/snapshots/${made.body.id}`), { status: 200, body: { id: made.body.id } });
  const key = { 'idempotency-key': 'once' };
  const first = await send(key);
  t.equal(first.status, 201);
  t.equal((await send(key)).body.id, first.body.id, 'a retry makes nothing again');
});

t.test('an imported image is on one host, which lists and creates find', async (t) => {
  const fleet = await startFleet(t);
  const stores = [new FakeImages(), new FakeImages()];
  const [a, b] = stores;
  await fleet.host('h0', { services: { images: a?.store as never } });
  await fleet.host('h1', { services: { images: b?.store as never } });
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const send = (accept: string) =>
    fetch(`${url}/images/import?tag=nginx:alpine`, {
      method: 'POST',
      body: 'an archive',
      headers: { accept },
    });
  const answer = await send('application/json');
  t.equal(answer.status, 201);
  const { digest } = (await answer.json()) as { digest: string };
  t.equal(stores.flatMap(({ asked }) => asked).length, 1, 'one host');
  const lines = (await (await send('application/x-ndjson')).text()).trim().split('\n');
  t.match(JSON.parse(lines.at(-1) ?? ''), { image: { digest } });
});

t.test('hosts check the keys', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const view = await keyring.make({ policy: { operations: ['view'] } });
  const services = { images: new FakeImages().store as never };
  await fleet.host('h0', { authenticator: keyring.authenticator, services });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const authorization = `Bearer ${view}`;
  t.equal((await ask(url, 'GET', '/images', undefined, { authorization })).status, 200);
  t.equal((await ask(url, 'POST', '/images', { ref: 'nginx:alpine' }, { authorization })).status, 403);
  t.equal((await ask(url, 'DELETE', '/images/nginx:alpine', undefined, { authorization })).status, 403);
  t.equal((await ask(url, 'GET', '/images')).status, 401);
});
