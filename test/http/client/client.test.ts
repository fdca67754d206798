// The library against the daemon's real server: sandboxes, snapshots, errors, repeats, limits in time.
import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ApiError,
  Client,
  ConflictError,
  ConnectionError,
  NotFoundError,
  TimeoutError,
  UnavailableError,
  UnsupportedError,
} from '@sandboxd/client';
import t, { type Test } from 'tap';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { until } from '../../support/until.ts';
import { serve, UNKNOWN_ID } from '../support.ts';

async function connect(t: Test) {
  const served = await serve(t);
  return { ...served, client: new Client({ host: served.url }) };
}

/** Answers what `answers` says in turn, the last for ever; counts requests. */
async function stub(
  t: Test,
  answers: readonly { status: number; headers?: Record<string, string>; body?: string }[],
) {
  const seen: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const answer = answers[Math.min(seen.length, answers.length - 1)];
    seen.push(`${incoming.method} ${incoming.url}`);
    if (answer?.status === 0) incoming.socket.destroy();
    else outgoing.writeHead(answer?.status ?? 500, answer?.headers).end(answer?.body ?? '{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

t.test('a sandbox is created, shown, listed and deleted', async (t) => {
  const { client, sandboxes } = await connect(t);
  await client.health();
  t.match(await client.profiles(), { profiles: ['base'] });
  t.same(await client.whoami(), { scoped: false });
  const sandbox = await client.sandboxes.create({ memory_mib: 1024, timeout_s: 60 });
  t.match(sandboxes.created[0], { memoryMib: 1024, timeoutS: 60 });
  t.match(await sandbox.info(), { id: sandbox.id, vcpus: 1 });
  t.match(await client.sandboxes.list(), [{ id: sandbox.id }]);
  t.match(await client.sandboxes.get(sandbox.id).info(), { id: sandbox.id });
  await sandbox.delete();
  t.same(await client.sandboxes.list(), []);
});

t.test('await using deletes it, also when the block fails, and when it is gone already', async (t) => {
  const { client, sandboxes } = await connect(t);
  const fail = async () => {
    await using _ = await client.sandboxes.create();
    t.equal(sandboxes.list().length, 1);
    throw new Error('mine');
  };
  await t.rejects(fail(), { message: 'mine' });
  t.equal(sandboxes.list().length, 0);
  await using sandbox = await client.sandboxes.create();
  await sandbox.delete();
});

t.test('snapshots are taken, forked and deleted', async (t) => {
  const { client, sandboxes } = await connect(t);
  await using sandbox = await client.sandboxes.create();
  {
    await using snapshot = await sandbox.snapshot();
    t.match(await snapshot.info(), { source_id: sandbox.id });
    t.match(await client.snapshots.list(), [{ id: snapshot.id }]);
    t.match(await client.snapshots.get(snapshot.id).info(), { id: snapshot.id });
    const forks = await snapshot.fork({ count: 3 });
    t.equal(forks.length, 3);
    t.match(await forks[2]?.info(), { id: forks[2]?.id });
  }
  t.equal(sandboxes.snapshots.size, 0);
});

t.test('what the daemon refuses is an error of a class of its own, with status and request id', async (t) => {
  const { client, sandboxes } = await connect(t);
  const error = await client.sandboxes
    .get(UNKNOWN_ID)
    .info()
    .catch((reason: unknown) => reason);
  t.ok(error instanceof NotFoundError && error instanceof ApiError);
  const message = `sandbox ${UNKNOWN_ID} does not exist`;
  t.match(error, { status: 404, code: 'not_found', requestId: /^req_/, message });
  await t.rejects(client.images.list(), UnsupportedError);
  sandboxes.onCreate = async () => {
    throw new AppError('conflict', 'port 80 is taken');
  };
  await t.rejects(client.sandboxes.create(), ConflictError);
  sandboxes.onCreate = async () => {
    throw new AppError('exhausted', 'no room', { retryAfterS: 7 });
  };
  const full = await client.sandboxes.create().catch((reason: unknown) => reason);
  t.ok(full instanceof UnavailableError);
  t.match(full, { status: 503, retryAfterMs: 7000 });
});

t.test('the delete at the end of a block is retried until the sandbox is gone', async (t) => {
  const down = { status: 503, headers: { 'retry-after': '0' } };
  const gone = { status: 404, body: '{"error":"there is no such sandbox"}' };
  const { seen, url } = await stub(t, [{ status: 0 }, down, gone]);
  const sandbox = new Client({ host: url }).sandboxes.get(UNKNOWN_ID);
  await sandbox[Symbol.asyncDispose]();
  t.same(
    seen,
    Array(3).fill(`DELETE /sandboxes/${UNKNOWN_ID}`),
    'also what a broken connection may have done',
  );
  const broken = await stub(t, [{ status: 0 }]);
  await t.rejects(new Client({ host: broken.url }).sandboxes.get(UNKNOWN_ID).delete(), {
    message: /it may or may not have been carried out/,
  });
  t.equal(broken.seen.length, 1, 'a delete that is asked for is sent once');
});

t.test('what changes nothing is repeated, what might have is not', async (t) => {
  const down = { status: 503, headers: { 'retry-after': '0' }, body: '{"error":"no"}' };
  const list = await stub(t, [down, { status: 0 }, { status: 200, body: '{"sandboxes":[]}' }]);
  t.same(await new Client({ host: list.url }).sandboxes.list(), []);
  t.equal(list.seen.length, 3);
  const give = await stub(t, [down]);
  await t.rejects(new Client({ host: give.url, retries: 1 }).sandboxes.list(), UnavailableError);
  t.equal(give.seen.length, 2);
  for (const answer of [down, { status: 0 }]) {
    const create = await stub(t, [answer]);
    await t.rejects(new Client({ host: create.url }).sandboxes.create());
    t.same(create.seen, ['POST /sandboxes'], 'a create is sent once');
  }
  const refused = await stub(t, [{ status: 404, body: '{"error":"no"}' }]);
  await t.rejects(new Client({ host: refused.url }).sandboxes.list(), NotFoundError);
  t.equal(refused.seen.length, 1, 'a refusal stays one');
});

t.test('a daemon that is not there is named, and a request that it never had is repeated', async (t) => {
  const { url } = await stub(t, []);
  const client = new Client({ host: 'http://127.0.0.1:1', retries: 0 });
  const error = await client.sandboxes.create().catch((reason: unknown) => reason);
  t.ok(error instanceof ConnectionError && error.isUnsent);
  t.match(error, { message: /cannot reach the daemon at http:\/\/127.0.0.1:1: .*ECONNREFUSED/ });
  t.ok(url);
});

t.test('a sandbox whose create was answered while it was aborted is deleted', async (t) => {
  let leave = new AbortController();
  let isLate = false;
  const broken = new Set<string>();
  const deleted: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const { method, url = '' } = incoming.resume();
    if (method === 'DELETE') {
      if (!broken.delete(url)) {
        broken.add(url);
        return void outgoing.destroy();
      }
      deleted.push(url);
      return void outgoing.writeHead(204).end();
    }
    const answer = () => outgoing.writeHead(201).end('{"id":"a","sandboxes":[{"id":"b"},{"id":"c"}]}');
    const give = () => leave.abort(new Error('enough'));
    if (isLate) {
      give();
      setTimeout(answer, 100);
    } else {
      answer();
      give();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const client = new Client({ host: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const makes: [(signal: AbortSignal) => Promise<unknown>, string[]][] = [
    [(signal) => client.sandboxes.create({ signal }), ['/sandboxes/a']],
    [(signal) => client.sandboxes.get('s').snapshot({ signal }), ['/snapshots/a']],
    [(signal) => client.snapshots.get('s').fork({ count: 2, signal }), ['/sandboxes/b', '/sandboxes/c']],
    [(signal) => client.snapshots.import(Buffer.from('x'), { signal }), ['/snapshots/a']],
  ];
  for (const [make, undone] of makes)
    for (isLate of [false, true]) {
      leave = new AbortController();
      await t.rejects(make(leave.signal), { message: 'enough' });
      t.same(deleted.splice(0).sort(), undone, `asked for again where it broke off, ${isLate}`);
    }
});

t.test('a call ends when its signal fires, and the daemon rolls back', async (t) => {
  const { client, sandboxes } = await connect(t);
  let isCancelled = false;
  sandboxes.onCreate = (_, signal) =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        isCancelled = true;
        reject(signal.reason);
      });
    });
  const leave = new AbortController();
  const creating = client.sandboxes.create({ signal: leave.signal });
  await until(() => sandboxes.created.length === 1, 'the create');
  leave.abort(new Error('enough'));
  await t.rejects(creating, { message: 'enough' });
  await until(() => isCancelled, 'the daemon to notice');
  await t.rejects(client.sandboxes.list({ signal: leave.signal }), { message: 'enough' });
});

t.test('the error of a timeout names the call', async (t) => {
  const { client, sandboxes } = await connect(t);
  sandboxes.onCreate = () => new Promise(() => {});
  await t.rejects(client.sandboxes.create({ timeoutMs: 50 }), {
    name: 'TimeoutError',
    message: 'no answer to POST /sandboxes (create a sandbox and wait until its guest responds) within 50 ms',
  });
  await t.rejects(client.sandboxes.create({ timeoutMs: 50 }), TimeoutError);
});

t.test('a host that would be read as another one is refused', (t) => {
  for (const host of [
    'http://a.exam\nple',
    ' http://a.example',
    'http://a.example\\@b.example',
    'a.example:1',
  ])
    t.throws(() => new Client({ host }), { name: 'SandboxdError', message: /^host must be http/ }, host);
  t.end();
});

t.test('it speaks over a Unix socket, with a key', async (t) => {
  // Not t.testdir: the path of a socket has at most 107 bytes.
  const directory = mkdtempSync(join(tmpdir(), 'client-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'd.sock');
  const seen: unknown[] = [];
  const server = createServer((incoming, outgoing) => {
    seen.push(incoming.headers.authorization, incoming.headers.host);
    outgoing.end('{"status":"ok"}');
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(() => server.close());
  await new Client({ host: `unix:${path}`, apiKey: 'sbk_1' }).health();
  t.same(seen, ['Bearer sbk_1', 'localhost']);
});

t.test('the durable log is read to the last record, page by page', async (t) => {
  const record = (text: string) => ({ source: 'exec', stream: 'stdout', text, timeMs: 1 }) as const;
  const pages = new Map([
    [0, { nextOffset: 10, records: [record('a')] }],
    [10, { nextOffset: 20, records: [record('b')] }],
    [20, { nextOffset: 20, records: [] }],
  ]);
  const { url, sandboxes } = await serve(t, {
    logs: { read: async (_, { since = 0 }) => pages.get(since) },
  });
  const { id } = sandboxes.add();
  const texts: string[] = [];
  for await (const { text } of new Client({ host: url }).sandboxes.logs(id, { since: 0 })) texts.push(text);
  t.same(texts, ['a', 'b']);
});

t.test('a follower of the durable log continues where it was when the daemon comes back', async (t) => {
  const page = (text: string, next_offset: number) =>
    JSON.stringify({ records: [{ source: 'exec', stream: 'stdout', text, time_ms: 1 }], next_offset });
  const away = Array.from({ length: 4 }, () => ({ status: 0 }));
  const { url, seen } = await stub(t, [
    { status: 200, body: page('a', 10) },
    ...away,
    { status: 503, body: '{"error":"it starts"}' },
    { status: 200, body: page('b', 20) },
  ]);
  const client = new Client({ host: url, retries: 0 });
  const texts: string[] = [];
  for await (const { text } of client.sandboxes.logs(UNKNOWN_ID, { since: 0, follow: true })) {
    texts.push(text);
    if (texts.length === 2) break;
  }
  t.same(texts, ['a', 'b']);
  t.match(seen.at(-1), /since=10/);
  t.equal(seen.length, 7);
});

t.test('following fails if the daemon cannot be reached at the start', async (t) => {
  const client = new Client({ host: 'http://127.0.0.1:1', retries: 0 });
  const log = client.sandboxes.logs(UNKNOWN_ID, { follow: true });
  await t.rejects(log.next(), ConnectionError);
  await t.rejects(client.events().next(), ConnectionError);
});

t.test('a signal that outlives its calls keeps nothing of them', async (t) => {
  const { client } = await connect(t);
  const { signal } = new AbortController();
  await using sandbox = await client.sandboxes.create({ signal });
  for (let count = 0; count < 20; count++) await sandbox.info({ signal });
  t.match(await sandbox.exec(['x'], { signal }).output(), { result: { exit_code: 0 } });
  await until(() => getEventListeners(signal, 'abort').length === 0, 'the end of all listeners');
});

t.test('lists are read page by page', async (t) => {
  const { client, sandboxes } = await connect(t);
  const made = Array.from({ length: 501 }, () => sandboxes.add().id);
  t.same(new Set((await client.sandboxes.list()).map(({ id }) => id)), new Set(made));
  const entry = (id: string) => `{"sandboxes":[{"id":"${id}"}],"next_cursor":"on"}`;
  const { seen, url } = await stub(t, [
    { status: 200, body: entry('a') },
    { status: 200, body: entry('b') },
    { status: 200, body: '{"sandboxes":[],"next_cursor":"on"}' },
  ]);
  t.match(await new Client({ host: url }).sandboxes.list(), [{ id: 'a' }, { id: 'b' }], 'and end');
  t.equal(seen[1], 'GET /sandboxes?limit=500&cursor=on');
});

t.test('an endless response is aborted at a memory limit', async (t) => {
  let sent = 0;
  const piece = Buffer.alloc(1 << 20, ' ');
  const server = createServer((incoming, outgoing) => {
    outgoing.writeHead(incoming.url?.startsWith('/whoami') ? 500 : 200);
    const send = () => {
      sent += piece.length;
      if (!outgoing.destroyed) outgoing.write(piece, () => setImmediate(send));
    };
    send();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  const client = new Client({
    host: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    retries: 0,
  });
  await t.rejects(client.profiles(), { message: /answer to GET \/profiles has more than \d+ characters/ });
  await t.rejects(client.images.pull('nginx', { onProgress: () => undefined }), {
    message: /a line of the answer has more than \d+ characters/,
  });
  sent = 0;
  await t.rejects(client.whoami(), ApiError);
  t.ok(sent < 32 << 20, `${sent} bytes of an error were sent`);
});
