// Webhooks: signed, persistent, in order, dead-lettered and resent; and the effects of misbehaving receivers on others.
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Journal } from '../../../../host-agent/src/events/journal.ts';
import type { StoredEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { Dispatcher, WebhookRegistry } from '../../../../host-agent/src/webhooks/index.ts';
import { send } from '../../../../host-agent/src/webhooks/sender.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const MAIN = resolve(import.meta.dirname, '../../../../host-agent/src/main.ts');
const run = promisify(execFile);

type Received = {
  readonly id: string;
  readonly body: Record<string, unknown>;
  readonly headers: IncomingMessage['headers'];
};

/** A receiver; `answer` handles the request, 204 by default. */
async function receive(
  t: Test,
  answer: (received: Received, response: ServerResponse) => void = (_, r) => void r.writeHead(204).end(),
) {
  const received: Received[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const raw = (await buffer(incoming)).toString();
    const each = {
      id: String(incoming.headers['webhook-id']),
      body: JSON.parse(raw),
      headers: incoming.headers,
      raw,
    };
    received.push(each);
    answer(each, outgoing);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

async function open(t: Test, dir?: string) {
  const dataDir = dir ?? (await mkdtemp(join(tmpdir(), 'webhooks-')));
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const journal = await Journal.open<StoredEvent>(store, { keepMs: 1e12, maxBytes: 2 ** 24, log });
  const registry = new WebhookRegistry(store);
  let dispatcher: Dispatcher | undefined;
  const begin = (options = {}) => {
    dispatcher = new Dispatcher({
      registry,
      journal,
      log,
      firstWaitMs: 10,
      maxAttempts: 4,
      pollMs: 30,
      ...options,
    });
    return dispatcher;
  };
  let isOpen = true;
  const close = async () => {
    if (!isOpen) return;
    isOpen = false;
    await dispatcher?.stop();
    await journal.close();
    await store.close();
  };
  t.teardown(async () => {
    await close();
    if (dir === undefined) await rm(dataDir, { recursive: true, force: true });
  });
  const happen = (sandbox: string, kind: StoredEvent['kind'] = 'created', tenant?: string) =>
    journal.append({
      kind,
      sandbox,
      atMs: Date.now(),
      ...(tenant !== undefined && { owner: { key: 'k', tenant } }),
    });
  return { dataDir, store, journal, registry, begin, close, happen, lines };
}

t.test('an event is signed, as Standard Webhooks has it', async (t) => {
  const { registry, begin, happen, lines } = await open(t);
  const { received, url } = await receive(t);
  await happen('before');
  const secret = await registry.add({ name: 'one', url });
  t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  begin();
  await happen('sbx_0123456789abc', 'deleted');
  await until(() => received.length === 1);
  const { id, body, headers } = received[0] as Received;
  t.match(body, { id, kind: 'deleted', sandbox: 'sbx_0123456789abc' });
  const raw = (received[0] as unknown as { raw: string }).raw;
  const signed = createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
    .update(`${id}.${headers['webhook-timestamp']}.${raw}`)
    .digest('base64');
  t.equal(headers['webhook-signature'], `v1,${signed}`);
  t.ok(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000) < 60);
  t.notOk(lines.join('').includes(secret.slice(6)), 'no secret in the log');
  t.notOk(JSON.stringify(registry.list()).includes(secret.slice(6)), 'nor in the list');
  await until(() => registry.list()[0]?.queued === 0);
});

t.test('only what was asked for', async (t) => {
  const { registry, begin, happen } = await open(t);
  const { received, url } = await receive(t);
  await registry.add({ name: 'one', url, kinds: ['died', 'deleted'], tenant: 'acme' });
  begin();
  await happen('a', 'deleted', 'acme');
  await happen('b', 'deleted', 'other');
  await happen('c', 'created', 'acme');
  await happen('d', 'deleted');
  await happen('e', 'died', 'acme');
  await until(() => received.length === 2);
  t.same(
    received.map(({ body }) => body.sandbox),
    ['a', 'e'],
  );
});

t.test('what fails is tried again, in order for each sandbox, and holds up no other', async (t) => {
  const { registry, begin, happen } = await open(t);
  let failures = 2;
  const { received, url } = await receive(t, ({ body }, response) => {
    const fails = body.sandbox === 'a' && failures-- > 0;
    response.writeHead(fails ? 500 : 200).end('{}');
  });
  await registry.add({ name: 'one', url });
  begin({ firstWaitMs: 100 });
  for (const kind of ['created', 'hung', 'deleted'] as const)
    for (const id of ['a', 'b']) await happen(id, kind);
  await until(() => received.length === 8);
  const of = (id: string) => received.filter(({ body }) => body.sandbox === id).map(({ body }) => body.kind);
  t.same(of('b'), ['created', 'hung', 'deleted']);
  t.same(of('a'), ['created', 'created', 'created', 'hung', 'deleted'], 'none overtakes another');
  const firstA = received.findLastIndex(({ body }) => body.sandbox === 'a' && body.kind === 'created');
  t.ok(received.findLastIndex(({ body }) => body.sandbox === 'b') < firstA, 'b did not wait for a');
});

t.test('an undelivered event becomes a dead letter, is listed, and sent again on request', async (t) => {
  const { registry, begin, happen, lines } = await open(t);
  let isDown = true;
  const { received, url } = await receive(
    t,
    (_, response) => void response.writeHead(isDown ? 503 : 200).end(),
  );
  await registry.add({ name: 'one', url });
  begin();
  await happen('a');
  await happen('a', 'deleted');
  await until(() => registry.dead('one').length === 2, 'dead letters');
  t.match(registry.dead('one')[0], { kind: 'created', subject: 'a', attempts: 4, problem: 'status 503' });
  t.equal(received.length, 8);
  t.match(lines.join(''), /is now a dead letter/);
  isDown = false;
  await t.rejects(registry.resend('one', ['x']), { code: 'not_found' });
  t.equal(await registry.resend('one'), 2);
  await until(() => received.length === 10, 'them again');
  t.same(
    received.slice(-2).map(({ body }) => body.kind),
    ['created', 'deleted'],
  );
  await until(() => registry.list()[0]?.queued === 0);
  t.same(registry.dead('one'), []);
});

t.test('the next daemon sends what this one did not', async (t) => {
  const first = await open(t);
  const gone = await receive(t, () => undefined);
  await first.registry.add({ name: 'one', url: gone.url });
  first.begin();
  await first.happen('a');
  await until(() => gone.received.length === 1, 'one that hangs');
  await first.happen('b');
  await first.close();
  // The receiver works again; for the webhook, it has the same address.
  const second = await open(t, first.dataDir);
  const well: string[] = [];
  second.begin({
    send: async ({ body }: { body: string }) => {
      well.push(JSON.parse(body).sandbox);
      return undefined;
    },
  });
  await second.happen('c');
  await until(() => well.length === 3);
  t.same(well.toSorted(), ['a', 'b', 'c']);
  await second.close();
  await rm(first.dataDir, { recursive: true, force: true });
});

t.test('receivers that hang, redirect, answer without end or nonsense cost the others nothing', async (t) => {
  const { registry, begin, happen } = await open(t);
  let leaked = 0;
  const other = await receive(t, (_, response) => {
    leaked++;
    response.writeHead(200).end();
  });
  let open_ = 0;
  let most = 0;
  const hangs = await receive(t, (_, response) => {
    most = Math.max(most, ++open_);
    response.once('close', () => open_--);
  });
  const redirects = await receive(t, (_, r) => void r.writeHead(307, { location: other.url }).end());
  const endless = await receive(t, (_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write(Buffer.alloc(2 ** 16)), 1);
    response.once('close', () => clearInterval(timer));
  });
  const fine = await receive(t);
  for (const [name, { url }] of Object.entries({ hangs, redirects, endless, fine }))
    await registry.add({ name, url });
  await registry.add({ name: 'nobody', url: 'http://127.0.0.1:1/' });
  begin();
  for (let at = 0; at < 30; at++) await happen(`s${at}`);
  await until(() => fine.received.length === 30, 'all for the one that is well');
  t.ok(most <= 4, `${most} requests to one that hangs`);
  await until(
    () =>
      endless.received.length === 30 && registry.list().find(({ name }) => name === 'endless')?.queued === 0,
  );
  await until(() => registry.dead('redirects').length === 30, 'redirects are failures');
  t.match(registry.dead('redirects')[0]?.problem, 'status 307: redirects are not followed');
  t.equal(leaked, 0, 'nothing went to where it was redirected');
  await until(() => registry.dead('nobody').length === 30);
  t.equal(registry.dead('nobody')[0]?.problem, 'ECONNREFUSED');
});

t.test('one attempt is bounded in time, and reports nothing of the response', async (t) => {
  const hangs = await receive(t, () => undefined);
  const message = { url: hangs.url, secret: 'whsec_AAAA', id: 'e-1', body: '{}' };
  t.equal(await send(message, undefined, 100), 'no answer within 0.1 s');
  const says = await receive(t, (_, response) => void response.writeHead(400, 'SECRET').end('SECRET'));
  t.equal(await send({ ...message, url: says.url }), 'status 400');
});

t.test(
  'an answer that changes the protocol is a failure, and holds up neither its sandbox nor the end of the daemon',
  async (t) => {
    const { registry, begin, happen } = await open(t);
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.once(
        'data',
        () => void socket.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nmore'),
      );
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    t.teardown(() => void server.close());
    const { port } = server.address() as AddressInfo;
    await registry.add({ name: 'changes', url: `http://127.0.0.1:${port}/` });
    const dispatcher = begin();
    await happen('a');
    await until(() => registry.dead('changes').length === 1, 'it is tried again, and given up');
    t.equal(registry.dead('changes')[0]?.problem, 'status 101');
    await dispatcher.stop();
  },
);

t.test(
  'a clock that was ahead and is right again makes nothing wait for longer than an hour and a quarter',
  async (t) => {
    const { registry, begin, happen } = await open(t);
    let isWell = false;
    const { received, url } = await receive(t, (_, r) => void r.writeHead(isWell ? 204 : 500).end());
    await registry.add({ name: 'hook', url });
    const first = begin({ maxAttempts: 1000 });
    await happen('a');
    await until(() => registry.queue.range().some(({ record }) => record.attempts > 0));
    await first.stop();
    const [row] = registry.queue.range();
    if (row === undefined) throw new Error('nothing waits');
    const inDays = Date.now() + 10 * 24 * 3_600_000;
    await registry.queue.put(row.id, { ...row.record, nextAtMs: inDays });
    isWell = true;
    const before = received.length;
    begin();
    await until(() => received.length > before && registry.list()[0]?.queued === 0);
    t.equal(received.at(-1)?.body.sandbox, 'a');
  },
);

t.test('a removed webhook gets nothing more, and its queue is removed', async (t) => {
  const { registry, begin, happen, store } = await open(t);
  const { received, url } = await receive(t, (_, response) => void response.writeHead(500).end());
  await registry.add({ name: 'one', url });
  begin({ firstWaitMs: 10_000 });
  await happen('a');
  await until(() => received.length === 1);
  await registry.remove('one');
  await happen('b');
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(received.length, 1);
  t.same(store.table('webhook_queue').all(), []);
  await t.rejects(registry.remove('one'), { code: 'not_found' });
});

t.test('the commands, beside what has the registry open', async (t) => {
  const { dataDir, registry, begin, happen } = await open(t);
  const { received, url } = await receive(t, (_, response) => void response.writeHead(500).end());
  begin({ maxAttempts: 1 });
  const sandboxd = (...words: string[]) =>
    run(process.execPath, [MAIN, 'webhooks', ...words, '--data-dir', dataDir]).catch((error) => error);
  t.match((await sandboxd('list')).stderr, /there are no webhooks; `sandboxd webhooks add <name> <url>`/);
  t.match((await sandboxd('add', 'one', url, '--kinds', 'created')).stdout, /^whsec_/);
  t.match((await sandboxd('add', 'one', url)).stderr, /there is a webhook one already/);
  for (const bad of ['ftp://x/', 'x', 'http://u:p@x/', 'https://x/#y', 'http://x\r\ny.example/'])
    t.match(await sandboxd('add', 'two', bad), { code: 2, stderr: /must be http/ }, bad);
  t.match(await sandboxd('add', 'two', url, '--kinds', 'born'), { code: 2, stderr: /no kind "born"/ });
  await new Promise((resolve) => setTimeout(resolve, 100));
  await happen('a');
  await until(() => received.length === 1 && registry.dead().length === 1, 'a dead letter');
  t.match(JSON.parse((await sandboxd('list', '--json')).stdout), [{ name: 'one', queued: 0, dead: 1 }]);
  const [letter] = JSON.parse((await sandboxd('dead', '--json')).stdout);
  t.match(letter, { webhook: 'one', kind: 'created', subject: 'a', problem: 'status 500' });
  t.match((await sandboxd('resend', 'one', letter.event)).stdout, 'one: 1 events are queued again');
  await until(() => received.length === 2, 'it again');
  t.equal((await sandboxd('rm', 'one')).stdout, '');
  t.same(registry.list(), []);
});
