// The egress log over HTTP: pages, verdicts, a stream, tenants, and which records are kept.
import t from 'tap';
import type { EgressRecord } from '../../host-agent/src/network/index.ts';
import { scaled } from '../support/time-scale.ts';
import { startKeyed } from './keyed-daemon.ts';
import { makeApp, UNKNOWN_ID } from './support.ts';

t.setTimeout(scaled(60_000));

const DENIED: EgressRecord = {
  verdict: 'denied',
  reason: 'no',
  protocol: 'tcp',
  address: '192.0.2.1',
  port: 22,
};
const ALLOWED: EgressRecord = {
  ...{ verdict: 'allowed', reason: 'yes', protocol: 'tls', name: 'a.test' },
  ...{ rule: 'a.test', bytesUp: 1, bytesDown: 2, ms: 3 },
};
const NETWORK = { network: { enabled: true, allowlist: ['a.test'] } };

t.test('pages, by verdict, also after the end, and by tenant', async (t) => {
  const { as, root, daemon } = await startKeyed(t);
  const [a, b] = [await as({ tenant: 'a' }), await as({ tenant: 'b' })];
  const { id } = await a('POST', '/sandboxes', NETWORK);
  const path = `/sandboxes/${id}/egress`;
  t.match(await a('GET', path), { status: 200, next_offset: 0, records: [] });
  daemon.network.report(DENIED);
  daemon.network.report(ALLOWED);
  const page = await a('GET', path);
  t.match(page.records, [
    {
      at: /^20.*Z$/,
      verdict: 'denied',
      reason: 'no',
      protocol: 'tcp',
      address: '192.0.2.1',
      port: 22,
      generation: 1,
    },
    { verdict: 'allowed', name: 'a.test', rule: 'a.test', bytes_up: 1, bytes_down: 2, ms: 3 },
  ]);
  t.match(await a('GET', `${path}?since=${page.next_offset}`), {
    records: [],
    next_offset: page.next_offset,
  });
  t.equal((await a('GET', `${path}?verdict=denied`)).records.length, 1);
  t.match(await a('GET', `${path}?verdict=maybe`), { status: 400 });
  t.match(await a('GET', `${path}?since=x`), { status: 400 });
  t.match(await b('GET', path), { status: 404 });
  t.match(await root('GET', `/sandboxes/${UNKNOWN_ID}/egress`), { status: 404 });
  const viewer = await as({ tenant: 'a', policy: { operations: ['view'] } });
  t.match(await viewer('GET', path), { status: 403 }, 'names are data of the guest');
  await a('DELETE', `/sandboxes/${id}`);
  t.equal((await a('GET', path)).records.length, 2);
  t.match(await b('GET', path), { status: 404 });
  t.equal((await makeApp().app.request(path)).status, 501);
});

t.test('a stream goes on until the sandbox is deleted, and continues after an event', async (t) => {
  const { app, root, keyring, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes', NETWORK);
  const authorization = `Bearer ${await keyring.make({})}`;
  const follow = async (headers: Readonly<Record<string, string>>, query = '') => {
    const response = await app.request(`/sandboxes/${id}/egress?follow=1${query}`, {
      headers: { authorization, ...headers },
    });
    t.equal(response.status, 200);
    return { type: response.headers.get('content-type'), text: response.text() };
  };
  daemon.network.report(DENIED);
  const lines = await follow({ accept: 'application/x-ndjson' });
  const messages = await follow({});
  const denied = await follow({ accept: 'application/x-ndjson' }, '&verdict=denied');
  await new Promise((resolve) => setTimeout(resolve, 300));
  daemon.network.report(ALLOWED);
  await new Promise((resolve) => setTimeout(resolve, 300));
  await root('DELETE', `/sandboxes/${id}`);
  t.equal(lines.type, 'application/x-ndjson');
  const verdicts = (text: string) => text.match(/"verdict":"[a-z]+"/g)?.map((each) => each.slice(11, -1));
  t.same(verdicts(await lines.text), ['denied', 'allowed']);
  t.same(verdicts(await denied.text), ['denied']);
  t.equal(messages.type, 'text/event-stream');
  const text = await messages.text;
  t.same(verdicts(text), ['denied', 'allowed']);
  const [first, last] = [...text.matchAll(/^id: (\d+)$/gm)].map(([, each]) => each ?? '');
  t.same(verdicts(await (await follow({ 'last-event-id': first ?? '' })).text), ['allowed']);
  t.equal(await (await follow({ 'last-event-id': last ?? '' })).text, '');
});

t.test('log: which records are kept, at a create and in changes', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const made = await root('POST', '/sandboxes', { network: { ...NETWORK.network, log: 'off' } });
  t.match(made, { status: 201, network: { log: 'off' } });
  const path = `/sandboxes/${made.id}/network`;
  daemon.network.report(DENIED);
  t.match(await root('PATCH', path, { log: 'denied' }), {
    generation: 2,
    log: 'denied',
    allowlist: ['a.test'],
  });
  for (const each of [DENIED, ALLOWED]) daemon.network.report(each);
  t.match(await root('PATCH', path, { rules: [] }), { generation: 2, log: 'denied' }, 'stays');
  t.match(await root('PUT', path, { allowlist: ['a.test'] }), { generation: 3, log: 'all' });
  t.match((await root('GET', `/sandboxes/${made.id}/egress`)).records, [
    { verdict: 'denied', generation: 2 },
  ]);
  t.match(await root('PATCH', path, { log: 'some' }), {
    status: 400,
    error: /log must be one of all, denied, off/,
  });
  const plain = await root('POST', '/sandboxes', NETWORK);
  t.notOk('log' in plain.network, 'as before');
  const changed = daemon.happened.filter(({ kind }) => kind === 'network-changed');
  t.match(changed, [{ changed: ['log'] }, { changed: ['log'] }]);
});
