// Routes that hold a connection or a place, what they do when their client or the daemon goes, and who may have what.
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import t from 'tap';
import type { Images } from '../../../../../host-agent/src/images/index.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { IMAGE } from '../../../../http/fake-images.ts';
import { outflow } from '../../../../http/fake-sandboxes.ts';
import { ask, decodeFrames, makeApp, summarize, UNKNOWN_ID } from '../../../../http/support.ts';
import { settle } from '../../../../support/fake-clock.ts';
import { authenticatorOf, KEY, CALLER as TENANT } from '../callers.ts';

t.test('a tenant brings and takes no image, and imports no snapshot', async (t) => {
  const images = {
    list: () => [
      {
        ...IMAGE,
        sourceRef: undefined,
        refs: [],
        config: { ...IMAGE.config, cmd: [], entrypoint: [], exposedPorts: [], labels: {} },
      },
    ],
    import: async () => IMAGE,
    delete: async () => undefined,
  } as unknown as Images;
  const { app } = makeApp({ authenticator: authenticatorOf(TENANT), images });
  const status = async (method: string, path: string) => {
    const response = await app.request(path, { method, ...KEY });
    return `${response.status} ${await response.text()}`;
  };
  t.match(
    await status('POST', '/images/import?tag=a'),
    /^403 .*a key of tenant acme neither imports, changes nor deletes/,
  );
  t.match(await status('DELETE', '/images/a'), /^403 .*tenant acme/);
  t.match(await status('POST', '/snapshots/import'), /^403 .*a key of tenant acme imports no snapshots/);
  t.match(await status('GET', '/metrics'), /^403 .*so a key of tenant acme has none/);
  t.match(await status('GET', '/host/checks'), /^403 .*so a key of tenant acme has none/);
  t.match(await status('GET', '/images'), /^200/);
  const [image] = JSON.parse((await status('GET', '/images')).slice(4)).images;
  t.same(Object.keys(image).sort(), [
    'content_bytes',
    'convert_mode',
    'converted_at_unix_ms',
    'digest',
    'entries',
    'size_bytes',
  ]);
  const plain = makeApp({ authenticator: authenticatorOf({ kind: 'key', id: 'k', key: 'ci' }), images });
  t.equal((await plain.app.request('/images/a', { method: 'DELETE', ...KEY })).status, 204);
});

t.test('an exec whose client has left is cancelled, and one with stdin needs a connection', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const body = '{"cmd":["x"]}';
  sandboxes.script = (exec) => exec.events.started?.(1);
  const path = `/sandboxes/${id}/exec`;
  const left = new AbortController();
  const response = await app.request(
    new Request(`http://x${path}`, { method: 'POST', body, signal: left.signal }),
  );
  t.equal(response.headers.get('content-type'), 'application/octet-stream');
  const [exec] = sandboxes.execs;
  t.same([exec?.hasStdin, exec?.isCancelled], [false, false]);
  left.abort();
  await settle();
  t.equal(exec?.isCancelled, true);
  t.match(await ask(app, 'POST', `${path}?stdin=1`, body), {
    status: 501,
    error: /stdin=1 needs a connection/,
  });
  sandboxes.script = (exec) => {
    exec.output('stdout', 'hello');
    exec.exit({ exitCode: 3 });
  };
  for (const [accept, type] of [
    ['application/json', 'application/json'],
    ['application/x-ndjson', 'application/x-ndjson'],
  ] as const) {
    const answer = await app.request(path, { method: 'POST', body, headers: { accept } });
    t.match(answer.headers.get('content-type'), type);
    t.match(
      await answer.text(),
      accept === 'application/json' ? /"stdout":"hello".*"exit_code":3/ : /"data":"hello".*\n.*"exit_code":3/,
    );
  }
});

t.test('a daemon that stops ends its commands, and says so', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => exec.events.started?.(1);
  const ending = new AbortController();
  const env = { ending: ending.signal };
  const path = `/sandboxes/${id}/exec`;
  const running = await app.request(path, { method: 'POST', body: '{"cmd":["x"]}' }, env as never);
  sandboxes.script = (exec) => exec.exit();
  await (await app.request(path, { method: 'POST', body: '{"cmd":["x"]}' }, env as never)).text();
  await settle();
  ending.abort();
  const frames = decodeFrames(new Uint8Array(await running.arrayBuffer()));
  t.match(summarize(frames).result, { exit_code: -1, error: 'the daemon stopped while the command ran' });
  t.same(
    sandboxes.execs.map(({ isCancelled }) => isCancelled),
    [true, false],
  );
});

t.test('a connection that was taken for an exec has its reply once the command is there', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const duplex = Object.assign(new PassThrough(), { remoteAddress: '::1' });
  const incoming = { headers: {}, socket: duplex } as unknown as IncomingMessage;
  const takeover: {
    incoming: IncomingMessage;
    socket: PassThrough;
    head: Buffer;
    lingerMs: number;
    run?: () => void;
  } = { incoming, socket: duplex, head: Buffer.alloc(0), lingerMs: 1 };
  sandboxes.script = (exec) => exec.exit({ exitCode: -1, isLost: true, error: 'no guest' });
  const path = `/sandboxes/${id}/exec?stdin=1`;
  const request = () =>
    app.request(path, { method: 'POST', body: '{"cmd":["x"]}' }, { incoming, takeover } as never);
  t.equal((await request()).status, 502);
  t.equal(takeover.run, undefined);
  sandboxes.script = (exec) => exec.events.started?.(1);
  t.equal((await request()).status, 200);
  t.type(takeover.run, 'function');
  t.equal(sandboxes.execs.at(-1)?.hasStdin, true);
  for (const [connection, told] of [
    ['keep-alive', 'Upgrade'],
    ['Close', 'Upgrade, close'],
    ['x-closed', 'Upgrade'],
  ] as const) {
    const { status, headers } = await app.request(`/sandboxes/${id}/exec`, { headers: { connection } });
    t.match([status, headers.get('upgrade'), headers.get('connection')], [426, 'websocket', told]);
  }
  duplex.destroy();
});

t.test('paths and methods that there are not', async (t) => {
  const { app } = makeApp();
  t.match(await ask(app, 'GET', '/nothing'), { status: 404, error: /^no such path: "\/nothing"; README.md/ });
  const wrong = await ask(app, 'PATCH', '/sandboxes');
  t.match(wrong, { status: 405, error: 'PATCH is not allowed on /sandboxes; use DELETE, GET, HEAD, POST' });
  t.equal(wrong.headers.get('allow'), 'DELETE, GET, HEAD, POST');
  t.equal((await ask(app, 'GET', '/snapshots/import')).status === 200, false);
  t.match((await ask(app, 'PUT', '/images/import')).headers.get('allow'), /POST/);
  const only = await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}/snapshot`);
  t.match([only.status, only.headers.get('allow')], [405, 'POST']);
});

t.test('an export gives its place back however it ends, and HEAD takes none', async (t) => {
  const { app, sandboxes } = makeApp({ authenticator: authenticatorOf(TENANT) });
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const path = `/snapshots/${id}/export`;
  const open = (method = 'GET') => app.request(path, { method, ...KEY });
  const held: Response[] = [];
  let response = await open();
  for (; response.status === 200; response = await open()) held.push(response);
  t.equal(response.status, 503);
  t.ok(held.length > 0);
  t.equal((await open('HEAD')).status, 200);
  await held.pop()?.text();
  response = await open();
  t.equal(response.status, 200, 'its end gave it back');
  await response.body?.cancel();
  sandboxes.exportSnapshot = () => outflow(new AppError('internal', 'disk'));
  response = await open();
  t.equal(response.status, 200, 'so did its client');
  await t.rejects(response.text());
  t.equal((await open()).status, 200, 'and a failure');
  t.equal((await open()).status, 503);
});

t.test('what a service says is followed until the daemon stops or its client leaves', async (t) => {
  const stop = new AbortController();
  const { app, sandboxes } = makeApp({ stopping: stop.signal });
  const { id } = sandboxes.add();
  let cancels = 0;
  sandboxes.serviceCalls.output = (_, events) => {
    queueMicrotask(() => events.records([{ kind: 'ring', seq: 0, id: 'r' }], 1));
    return { consumed: () => undefined, cancel: () => void cancels++ };
  };
  const path = `http://x/sandboxes/${id}/service/logs`;
  const left = new AbortController();
  await app.request(new Request(path, { signal: left.signal }));
  left.abort();
  t.equal(cancels, 1);
  const response = await app.request(path);
  t.equal(cancels, 1);
  stop.abort();
  t.equal(await response.text(), '');
  t.equal(cancels, 2);
});
