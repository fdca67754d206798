// Webhooks with killed daemons, receivers that are down for long, slow answers, and clock steps.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { json } from 'node:stream/consumers';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Journal } from '../../../../host-agent/src/events/journal.ts';
import type { StoredEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { Dispatcher, WebhookRegistry } from '../../../../host-agent/src/webhooks/index.ts';
import { send, sign } from '../../../../host-agent/src/webhooks/sender.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

async function makeHome(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'hooks-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

async function openStore(dir: string) {
  const store = await Store.open(join(dir, 'state.lmdb'));
  const log = pino({ level: 'silent' });
  const journal = await Journal.open<StoredEvent>(store, { keepMs: 1e9, maxBytes: 2 ** 24, log });
  const close = async () => {
    await journal.close();
    await store.close();
  };
  return { store, log, journal, registry: new WebhookRegistry(store), close };
}

async function listen(
  t: Test,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer(handle);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

t.test(
  'over daemons killed in the middle of deliveries, none is missing and each sandbox’s are in order',
  async (t) => {
    const dir = await makeHome(t);
    const received: { sandbox: string; at: number }[] = [];
    let asked = 0;
    const url = await listen(t, async (request, response) => {
      const { sandbox, reason } = (await json(request)) as { sandbox: string; reason: string };
      received.push({ sandbox, at: Number(reason) });
      // One in five is refused, one in seven is never answered.
      asked++;
      if (asked % 7 === 0) response.destroy();
      else setTimeout(() => response.writeHead(asked % 5 === 0 ? 500 : 204).end(), asked % 4);
    });
    const first = await openStore(dir);
    await first.registry.add({ name: 'one', url });
    await first.close();
    const program = resolve(import.meta.dirname, 'killed-hooks.ts');
    const begin = async (events: number) => {
      const child = spawn(process.execPath, [program, dir, `${events}`], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await once(child.stdout, 'data');
      return child;
    };
    for (let round = 0; round < 5; round++) {
      const child = await begin(1000);
      const before = received.length;
      await until(() => received.length > before + 10 + 7 * round, 'deliveries');
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    const last = await begin(0);
    const known = await openStore(dir);
    t.teardown(known.close);
    const { last: total } = known.journal;
    const seen = () => new Set(received.map(({ at }) => at)).size;
    await until(() => seen() === total, `all of ${total}`, 60_000);
    last.kill('SIGTERM');
    await once(last, 'exit').catch(() => undefined);
    t.ok(total > 50, `${total} events, ${received.length} deliveries`);
    for (const sandbox of new Set(received.map((each) => each.sandbox))) {
      const order = received.filter((each) => each.sandbox === sandbox).map(({ at }) => at);
      t.same(
        order,
        order.toSorted((a, b) => a - b),
        `${sandbox}: none after a later one`,
      );
    }
  },
);

t.test(
  'of thousands of undelivered events the newest thousand are kept, listed, and sent again',
  async (t) => {
    const { registry, journal, store, log, close } = await openStore(await makeHome(t));
    t.teardown(close);
    let isDown = true;
    const taken: string[] = [];
    const dispatcher = new Dispatcher({
      ...{ registry, journal, log, pollMs: 20, maxAttempts: 1 },
      send: async ({ body }) => {
        if (isDown) return 'ECONNREFUSED';
        taken.push((JSON.parse(body) as { reason: string }).reason);
        return undefined;
      },
    });
    t.teardown(() => dispatcher.stop());
    await registry.add({ name: 'one', url: 'http://127.0.0.1:1/' });
    await registry.add({ name: 'two', url: 'http://127.0.0.1:1/' });
    await store.atomically(() => {
      for (let at = 0; at < 2500; at++)
        journal.put({ kind: 'hung', sandbox: `s${at % 50}`, reason: `${at}`, atMs: Date.now() });
    });
    journal.refresh();
    const dead = () =>
      registry.dead('one').map(({ body }) => Number((JSON.parse(body) as StoredEvent).reason));
    await until(
      () => registry.list().every((hook) => hook.queued === 0 && hook.dead === 1000 && hook.cursor === 2500),
      'the end of all',
      60_000,
    );
    t.same(
      dead(),
      Array.from({ length: 1000 }, (_, at) => 1500 + at),
    );
    isDown = false;
    t.equal(await registry.resend('one'), 1000);
    await until(() => taken.length === 1000, 'all of them', 60_000);
    t.same(new Set(taken).size, 1000);
    await registry.remove('two');
    await until(() => registry.list()[0]?.queued === 0);
    t.same([store.table('webhook_dead').all(), store.table('webhook_queue').all()], [[], []]);
  },
);

t.test('an answer whose head comes byte by byte has no longer than any other', async (t) => {
  const server = createTcpServer((socket) => {
    const head = 'HTTP/1.1 204 No Content\r\nx: ';
    let at = 0;
    const timer = setInterval(() => socket.write(head[at++] ?? 'x'), 20);
    socket.on('error', () => undefined);
    socket.on('close', () => clearInterval(timer));
    socket.resume();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  t.equal(
    await send({ url, secret: SECRET, id: 'e-1', body: '{}' }, undefined, 300),
    'no answer within 0.3 s',
  );
  const isAlone = () =>
    new Promise<boolean>((done) => server.getConnections((_, count) => done(count === 0)));
  while (!(await isAlone())) await new Promise((resolve) => setTimeout(resolve, 5));
});

t.test('each attempt is signed at its own time, whatever the clock does in between', async (t) => {
  const heads: IncomingMessage['headers'][] = [];
  const url = await listen(t, (request, response) => {
    heads.push(request.headers);
    response.writeHead(500).end();
  });
  const clock = Date.now;
  t.teardown(() => {
    Date.now = clock;
  });
  for (const stepMs of [0, 86_400_000, -86_400_000]) {
    Date.now = () => clock() + stepMs;
    await send({ url, secret: SECRET, id: 'e-1', body: '{}' });
    const { 'webhook-timestamp': timestamp, 'webhook-signature': signature } = heads.at(-1) ?? {};
    t.ok(Math.abs(Number(timestamp) * 1000 - Date.now()) < scaled(60_000), `${stepMs}`);
    t.equal(signature, sign(SECRET, 'e-1', Number(timestamp), '{}'));
  }
});
