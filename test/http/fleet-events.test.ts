// Events of a fleet: one stream of all hosts, whose position any gateway understands, and which says what is missing.
import { Client, type SandboxEvent } from '@sandboxd/client';
import t, { type Test } from 'tap';
import type { StoredEvent } from '../../host-agent/src/sandboxes/lifecycle-events.ts';
import { ask, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';
import { RawClient } from './support.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

let last = 0;
/** Each is at another time. */
function happen(sandbox: string, changes: Partial<StoredEvent> = {}): StoredEvent {
  last = Math.max(last + 1, Date.now());
  return { kind: 'hung', sandbox, atMs: last, reason: 'a test', ...changes } as StoredEvent;
}
const idOf = (n: number) => `sbx_${String(n).padStart(13, '0')}`;
const append = ({ daemon }: FleetHost, n: number, changes?: Partial<StoredEvent>) =>
  daemon.journal.append(happen(idOf(n), changes));
const namesOf = (events: readonly SandboxEvent[]) =>
  events.map(({ sandbox = '' }) => Number(sandbox.slice(4)));

async function openFleet(t: Test, names: readonly string[]) {
  const fleet = await startFleet(t);
  const hosts = await Promise.all(names.map((name) => fleet.host(name)));
  await fleet.ready(names.length);
  return { fleet, hosts, ...(await fleet.gateway()) };
}

async function readPast(url: string, after?: string, apiKey?: string): Promise<SandboxEvent[]> {
  const client = new Client({ host: url, ...(apiKey !== undefined && { apiKey }) });
  const found: SandboxEvent[] = [];
  const options = { follow: false, ...(after !== undefined && { after }) };
  for await (const event of client.events(options)) found.push(event);
  return found;
}

/** What a reader gets until the test ends, or `close` is called. */
function follow(t: Test, url: string, after?: string) {
  const ended = new AbortController();
  const found: SandboxEvent[] = [];
  let opened = 0;
  const reading = (async () => {
    const options = {
      signal: ended.signal,
      ...(after !== undefined && { after }),
      onConnection: (isOpen: boolean) => {
        if (isOpen) opened += 1;
      },
    };
    for await (const event of new Client({ host: url }).events(options)) found.push(event);
  })().catch((error: unknown) => {
    if (!ended.signal.aborted) throw error;
  });
  const close = async (): Promise<void> => {
    ended.abort();
    await reading;
  };
  t.teardown(close);
  return { found, close, opened: () => opened, begun: () => until(() => opened > 0, 'an open stream') };
}

t.test('past events are in order, and each position continues at any gateway', async (t) => {
  const { fleet, hosts, url } = await openFleet(t, ['h0', 'h1', 'h2']);
  const other = await fleet.gateway();
  for (let n = 0; n < 30; n++) await append(hosts[(n * n) % 3]!, n);
  const all = await readPast(url);
  t.same(
    namesOf(all),
    Array.from({ length: 30 }, (_, n) => n),
  );
  t.same(new Set(all.map(({ host }) => host)), new Set(['h0', 'h1']));
  for (const { id } of all) t.match(id, /^[0-9a-v]{8}-\d+\.[\w-]+$/);
  t.same(new Set(all.map(({ id }) => id.split('.')[0])).size, 30, 'the id at the host, which stays');
  for (const [at, { id }] of all.entries())
    if (at % 7 === 0)
      t.same(namesOf(await readPast(other.url, id)), namesOf(all.slice(at + 1)), `after ${at}`);
  const lines = await fetch(`${url}/events?follow=0&sandbox=${idOf(4)},${idOf(9)}`, {
    headers: { accept: 'application/x-ndjson' },
  });
  t.equal(lines.headers.get('content-type'), 'application/x-ndjson');
  t.equal(lines.headers.get('sandboxd-unreachable-hosts'), null);
  const parsed = (await lines.text()).trim().split('\n');
  t.same(namesOf(parsed.map((line) => JSON.parse(line))), [4, 9]);
  const head = await fetch(`${url}/events`, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(await head.text(), '');
  for (const [query, status] of [
    ['kind=born', 400],
    ['last_event_id=x', 400],
    ['last_event_id=0.AQ', 400],
    [`last_event_id=${all[0]?.id.split('.')[0]}`, 410],
    ['last_event_id=00000000-1', 410],
  ] as const)
    t.match(await ask(url, 'GET', `/events?${query}`), { status, body: { error: /./ } }, query);
});

t.test('a reader follows all hosts, those that join, and those that come back', async (t) => {
  const { fleet, hosts, url } = await openFleet(t, ['h0', 'h1']);
  const [h0, h1] = hosts as [FleetHost, FleetHost];
  await append(h0, 0);
  const reader = follow(t, url);
  await reader.begun();
  await append(h0, 1);
  await append(h1, 2);
  await until(() => reader.found.length === 2, 'two events');
  t.same(namesOf(reader.found).toSorted(), [1, 2], 'from now on');

  // From before the next stream.
  await append(h1, 6, { atMs: Date.now() - 60_000 });
  await until(() => reader.found.length === 3, 'an old event');
  await h1.crash();
  const lost = () => reader.found.find(({ kind }) => kind === 'host-unreachable');
  await until(() => lost() !== undefined, 'the lost host');
  t.match(lost(), { host: 'h1', reason: /h1/ });
  // A stream that begins now names it, too.
  const late = await fetch(`${url}/events?follow=0`);
  t.equal(late.headers.get('sandboxd-unreachable-hosts'), 'h1');
  t.match(await late.text(), /"kind":"host-unreachable","host":"h1"/);
  const filtered = await fetch(`${url}/events?follow=0&kind=created`);
  t.match(await filtered.text(), /^: host-unreachable h1$/m);
  const begun = follow(t, url);
  await begun.begun();
  await until(() => begun.found.length === 1, 'the lost host');
  const position = begun.found[0]!.id;

  await append(h0, 3);
  const again = await fleet.host('h1', { home: h1.daemon.home });
  await append(again, 4);
  const h2 = await fleet.host('h2');
  await append(h2, 5);
  const sandboxes = (found: readonly SandboxEvent[]) =>
    namesOf(found.filter(({ kind }) => kind === 'hung'))
      .filter((n) => n !== 6)
      .toSorted();
  await until(() => sandboxes(reader.found).length === 5, 'five events');
  t.same(sandboxes(reader.found), [1, 2, 3, 4, 5], 'no gap, no duplicate');
  t.ok(reader.found.some(({ kind, host }) => kind === 'host-reachable' && host === 'h1'));
  t.equal(reader.opened(), 1);
  // Also of hosts that were away when it began; what was just before may come, too.
  const since = (found: readonly SandboxEvent[]) => namesOf(found).filter((n) => n > 2);
  await until(() => since(begun.found).length >= 3, 'three events');
  t.same(since(begun.found).toSorted(), [3, 4, 5], 'and none from long before');
  t.same(since(await readPast(url, position)).toSorted(), [3, 4, 5]);
});

t.test('a gateway stops: its readers go on at another one', async (t) => {
  const { fleet, hosts, ...first } = await openFleet(t, ['h0', 'h1']);
  const [h0, h1] = hosts as [FleetHost, FleetHost];
  const second = await fleet.gateway();
  const reader = follow(t, first.url);
  await reader.begun();
  await append(h0, 1);
  await append(h1, 2);
  await until(() => reader.found.length === 2, 'two events');
  await first.stop();
  await reader.close();
  await append(h1, 3);
  await append(h0, 4);
  const next = follow(t, second.url, reader.found[1]!.id);
  await until(() => next.found.length === 2, 'two more events');
  t.same(namesOf(next.found).toSorted(), [3, 4]);
});

t.test('a position that one host does not keep is gone for all', async (t) => {
  const { fleet, hosts, url, map } = await openFleet(t, ['h0', 'h1']);
  const [h0, h1] = hosts as [FleetHost, FleetHost];
  await append(h0, 0);
  await append(h1, 1);
  const [, { id = '' } = {}] = await readPast(url);
  await h1.crash();
  t.match(await readPast(url, id), [{ kind: 'host-unreachable', host: 'h1' }]);
  // The host begins with empty directories: its former events are lost.
  fleet.api.objects.delete('nodes', '', 'h1', 0);
  const { url: address } = await fleet.host('h1');
  await until(() => map.host('h1')?.url.href === new URL(address).href, 'the new host');
  const answer = await ask(url, 'GET', `/events?follow=0&last_event_id=${id}`);
  t.match(answer, { status: 410, body: { code: 'gone', error: /by h1;/ } });
});

t.test('keys are checked by hosts, and tenants see their own', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const [acme = '', metrics = ''] = await Promise.all([
    keyring.make({ tenant: 'acme' }),
    keyring.make({ policy: { operations: ['metrics'] } }),
  ]);
  const { authenticator } = keyring;
  const hosts = await Promise.all(['h0', 'h1'].map((name) => fleet.host(name, { authenticator })));
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  for (const [n, tenant] of ['acme', 'other', 'acme', 'other'].entries())
    await append(hosts[n % 2]!, n, { owner: { key: 'k', tenant } });
  t.same(namesOf(await readPast(url, undefined, acme)), [0, 2]);
  t.equal((await ask(url, 'GET', '/events')).status, 401);
  t.equal((await ask(url, 'GET', '/events', undefined, { authorization: 'Bearer wrong' })).status, 401);
  t.equal((await ask(url, 'GET', '/events', undefined, { authorization: `Bearer ${metrics}` })).status, 403);
});

t.test('a client that reads slowly makes hosts wait, and misses nothing', async (t) => {
  const { hosts, port } = await openFleet(t, ['h0', 'h1']);
  const slow = new RawClient(t, port);
  slow.write('GET /events?last_event_id=0 HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => slow.text.includes('retry: '), 'the stream');
  slow.socket.pause();
  const COUNT = 6000;
  const reason = 'x'.repeat(2000);
  for (let n = 0; n < COUNT; n += 200)
    await Promise.all(
      Array.from({ length: 200 }, (_, at) => append(hosts[at % 2]!, n + at, { reason } as object)),
    );
  const seen = new Set<string>();
  let [count, rest] = [0, ''];
  slow.socket.removeAllListeners('data');
  slow.socket.on('data', (bytes) => {
    const lines = `${rest}${bytes.toString('latin1')}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter((each) => each.startsWith('data: '))) {
      count += 1;
      seen.add(/"sandbox":"(\w+)"/.exec(line)?.[1] ?? '');
    }
  });
  slow.socket.resume();
  await until(() => seen.size === COUNT, 'all events');
  t.equal(count, COUNT, 'each once');
});
