// Events as a client follows them: from where it was, only what is its own, at its own pace.
import { connect, createServer, type Server } from 'node:net';
import { EVENT_KINDS, MAX_EVENT_FILTERS } from '@sandboxd/api';
import { Client, type SandboxEvent } from '@sandboxd/client';
import t, { type Test } from 'tap';
import type { StoredEvent } from '../../host-agent/src/sandboxes/lifecycle-events.ts';
import { runCommand } from '../support/command.ts';
import { type MemoryDaemon, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';
import { ask, RawClient, serve } from './support.ts';

const ID = 'sbx_0123456789abc';
const OTHER = 'sbx_0123456789abd';

function happen(kind: StoredEvent['kind'], sandbox = ID, tenant?: string): StoredEvent {
  return { kind, sandbox, atMs: Date.now(), ...(tenant !== undefined && { owner: { key: 'k', tenant } }) };
}

async function open(t: Test, changes: Parameters<typeof serve>[1] = {}) {
  const daemon: MemoryDaemon = await startMemoryDaemon(t);
  const { journal } = daemon;
  return { journal, ...(await serve(t, { events: journal, ...changes })) };
}

/** Data of the server-sent events in a text. */
const dataOf = (text: string): SandboxEvent[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json));
const request = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

t.test('from now on by default, and from where it was with Last-Event-ID', async (t) => {
  const { journal, port } = await open(t);
  await journal.append(happen('created'));
  const client = new RawClient(t, port);
  client.write(request('/events'));
  await until(() => client.text.includes('id: '), 'the position');
  t.match(client.text, /content-type: text\/event-stream/i);
  t.match(client.text, new RegExp(`retry: \\d+\nid: ${journal.toId(1)}\n\n`));
  await journal.append(happen('hung'));
  await journal.append(happen('deleted'));
  await until(() => dataOf(client.text).length === 2, 'two events');
  t.same(
    dataOf(client.text).map(({ kind }) => kind),
    ['hung', 'deleted'],
  );
  const again = new RawClient(t, port);
  again.write(request('/events', `Last-Event-ID: ${journal.toId(2)}\r\n`));
  await until(() => dataOf(again.text).length === 1, 'the last event');
  t.match(dataOf(again.text), [{ kind: 'deleted', sandbox: ID, id: journal.toId(3) }]);
});

t.test('up to the present, as lines, narrowed down', async (t) => {
  const { journal, app } = await open(t);
  for (const kind of ['created', 'hung', 'deleted'] as const)
    for (const id of [ID, OTHER]) await journal.append(happen(kind, id));
  const lines = async (query: string) => {
    const answer = await app.request(`/events?follow=0&${query}`, {
      headers: { accept: 'application/x-ndjson' },
    });
    const text = await answer.text();
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as SandboxEvent);
  };
  t.equal((await lines('')).length, 6);
  t.same(
    (await lines(`sandbox=${OTHER}&kind=created,deleted`)).map(({ sandbox, kind }) => `${sandbox} ${kind}`),
    [`${OTHER} created`, `${OTHER} deleted`],
  );
  t.equal((await lines(`last_event_id=${journal.toId(4)}`)).length, 2);
  t.equal((await lines('last_event_id=0&kind=hung')).length, 2);
});

t.test('by labels, in the syntax of lists', async (t) => {
  const { journal, app, url } = await open(t);
  await journal.append({ ...happen('created'), labels: { team: 'x', tier: '' } });
  await journal.append({ ...happen('hung'), labels: { team: 'y', constructor: 'z' } });
  await journal.append(happen('deleted'));
  const read = async (query: string) =>
    dataOf(await (await app.request(`/events?follow=0&last_event_id=0&${query}`)).text()).map(
      ({ kind }) => kind,
    );
  for (const [query, kinds] of [
    ['label=team', ['created', 'hung']],
    ['label=team=x', ['created']],
    ['label=team%3Dx&label=tier', ['created']],
    ['label=tier=', ['created']],
    ['label=team=x&label=team=y', []],
    ['label=constructor', ['hung']],
    ['label=toString', []],
    ['label=team&kind=hung', ['hung']],
  ] as const)
    t.same(await read(query), kinds, query);
  const many = Array.from({ length: 65 }, () => 'label=a').join('&');
  for (const query of ['label=', 'label=a%20b', 'label=__proto__', 'label=a=b=c', 'label=a,b', many])
    t.match(await ask(app, 'GET', `/events?${query}`), { status: 400, error: /^query label must be/ }, query);
  const client = new Client({ host: url });
  const found: SandboxEvent[] = [];
  const stream = client.events({ labels: ['team=x', 'tier'], after: '0', follow: false });
  for await (const event of stream) found.push(event);
  t.match(found, [{ kind: 'created', labels: { team: 'x', tier: '' } }]);
  const shown = await runCommand(['events', '--no-follow', '--json', '--after', '0', '-l', 'team=y'], {
    SANDBOXD_HOST: url,
  });
  t.match(JSON.parse(shown.stdout), { kind: 'hung' });
});

t.test('filters and ids of any length and kind get a clear answer', async (t) => {
  const { journal, app } = await open(t);
  await journal.append(happen('created'));
  const refusals: [string, number, RegExp][] = [
    ['kind=born', 400, /kind must be some of created, .*, got/],
    ['kind=created,', 400, /kind must be/],
    ['sandbox=x', 400, /sandbox must be ids of sandboxes/],
    [`sandbox=${`${ID},`.repeat(MAX_EVENT_FILTERS)}${ID}`, 400, /64 at most/],
    [`sandbox=${','.repeat(10_000)}`, 400, /64 at most/],
    ['last_event_id=x', 400, /malformed/],
    [`last_event_id=${journal.toId(9)}`, 410, /not an event of this daemon/],
    ['last_event_id=00000000-1', 410, /not an event of this daemon/],
  ];
  for (const [query, status, error] of refusals)
    t.match(await ask(app, 'GET', `/events?${query}`), { status, error }, query.slice(0, 40));
  t.equal((await ask(app, 'GET', `/events?follow=0&kind=${EVENT_KINDS.join(',')}`)).status, 200);
  const many = Array.from({ length: MAX_EVENT_FILTERS }, () => ID).join(',');
  t.equal((await ask(app, 'GET', `/events?follow=0&sandbox=${many}`)).status, 200);
});

t.test('a pruned position is 410, at the start and during a stream', async (t) => {
  const { journal, app, port } = await open(t);
  for (let count = 0; count < 3; count++) await journal.append(happen('created'));
  const client = new RawClient(t, port);
  client.write(request(`/events?last_event_id=${journal.toId(1)}`));
  await until(() => dataOf(client.text).length === 2);
  t.intercept(Date, 'now', { value: () => 1e13 });
  await journal.prune();
  t.match(await ask(app, 'GET', `/events?last_event_id=${journal.toId(1)}`), {
    status: 410,
    error: /not kept any more, the oldest that is there comes behind \w+-3;/,
  });
  t.equal((await ask(app, 'GET', `/events?follow=0&last_event_id=${journal.toId(3)}`)).status, 200);
  t.notOk(client.isEnded, 'one that has read all missed nothing');
});

t.test('a tenant sees its own, whatever it asks for; others of no tenant see all', async (t) => {
  const keyring = await openKeyring(t);
  const { journal, url } = await open(t, { authenticator: keyring.authenticator });
  await journal.append(happen('created', ID, 'acme'));
  await journal.append(happen('created', OTHER, 'other'));
  await journal.append(happen('created', OTHER));
  const read = async (key: string, query = '') => {
    const headers = { authorization: `Bearer ${key}` };
    return dataOf(await (await fetch(`${url}/events?follow=0&${query}`, { headers })).text());
  };
  const own = await keyring.make({ tenant: 'acme' });
  t.same(
    (await read(own)).map(({ sandbox }) => sandbox),
    [ID],
  );
  t.same(await read(own, `sandbox=${OTHER}`), []);
  t.equal((await read(await keyring.make())).length, 3);
  const writer = await keyring.make({ policy: { operations: ['exec'] } });
  t.equal((await fetch(`${url}/events`, { headers: { authorization: `Bearer ${writer}` } })).status, 403);
});

/** Forwards to a port, and can cut all connections. */
async function proxy(t: Test) {
  const sockets = new Set<ReturnType<typeof connect>>();
  let count = 0;
  let target = 0;
  const server: Server = createServer((incoming) => {
    count++;
    const outgoing = connect({ host: '127.0.0.1', port: target });
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  t.teardown(() => {
    cut();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    port,
    cut,
    count: () => count,
    to: (wanted: number) => {
      target = wanted;
    },
  };
}

t.test('the library goes on over lost connections, without gap or duplicate', async (t) => {
  const line = await proxy(t);
  const { journal, port } = await open(t, {
    allowedHosts: [{ scheme: 'http', at: { host: '127.0.0.1', port: line.port } }],
  });
  line.to(port);
  const client = new Client({ host: `http://127.0.0.1:${line.port}` });
  const total = 60;
  const leave = new AbortController();
  const seen: string[] = [];
  const states: boolean[] = [];
  const following = (async () => {
    const onConnection = (isOpen: boolean): void => void states.push(isOpen);
    for await (const { id } of client.events({ after: '0', onConnection, signal: leave.signal })) {
      seen.push(id);
      if (seen.length % 15 === 0) line.cut();
      if (seen.length >= total) return;
    }
  })();
  for (let count = 0; count < total; count++) {
    await journal.append(happen('created'));
    if (count % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await following;
  t.same(
    seen,
    Array.from({ length: total }, (_, at) => journal.toId(at + 1)),
  );
  t.ok(line.count() > 1);
  t.same(states.slice(0, 3), [true, false, true], 'open, lost, and open again');
  const late = client.events({ after: journal.toId(1) });
  t.intercept(Date, 'now', { value: () => 1e13 });
  await journal.prune();
  t.match(await late.next().catch((error: unknown) => error), { status: 410 });
});

t.test('the command prints events, and with --no-follow ends after the newest', async (t) => {
  const { journal, url } = await open(t);
  await journal.append(happen('created'));
  await journal.append({ ...happen('died'), reason: 'the guest panicked' });
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir({}) };
  const { stdout, code } = await runCommand(['events', '--no-follow'], env);
  t.equal(code, 0);
  t.match(stdout, new RegExp(`^\\S+Z created +${ID}\n\\S+Z died +${ID} reason="the guest panicked"\n$`));
  const json = await runCommand(['events', '--no-follow', '--json', '--kind', 'died'], env);
  t.match(JSON.parse(json.stdout), { kind: 'died' });
  t.match(await runCommand(['events', '--kind', 'x'], env), { code: 2 });
});

t.test('readers that read nothing cost the others nothing', async (t) => {
  const { journal, port, server } = await open(t, { maxConnections: 300 });
  const slow = Array.from({ length: 200 }, () => {
    const client = new RawClient(t, port);
    client.write(request('/events?last_event_id=0'));
    return client;
  });
  await until(() => slow.every(({ text }) => text.includes('retry: ')), 'all streams');
  for (const { socket } of slow) socket.pause();
  const reader = new RawClient(t, port);
  reader.write(request('/events'));
  await until(() => reader.text.includes('retry: '));
  const before = process.memoryUsage();
  // Far more than what fits between two sockets; nothing of it waits in the daemon for each reader.
  const text = 'x'.repeat(20_000);
  for (let count = 0; count < 60; count++) await journal.append({ ...happen('hung'), reason: text });
  await until(() => dataOf(reader.text).length === 60, 'all events for one who reads');
  const after = process.memoryUsage();
  const grownMib = (after.rss - before.rss) / 2 ** 20;
  t.comment(`${Math.round(grownMib)} MiB for 200 readers that are 1.2 MB behind`);
  t.ok(grownMib < 300, `${grownMib} MiB`);
  for (const { socket } of slow) socket.destroy();
  await until(() => server.connectionCount <= 1, 'their end');
  const last = new RawClient(t, port);
  last.write(request('/events'));
  await until(() => last.text.includes('HTTP/1.1 200'), 'a place');
});
