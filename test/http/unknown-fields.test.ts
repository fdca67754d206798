// What a request says that means nothing: a warning of its answer, or 400 for a client that prefers that.
import { EXEC_FRAME, type ExecFrame } from '@sandboxd/api';
import t from 'tap';
import { WebSocket } from 'ws';
import { Client } from '../../client/src/index.ts';
import { BODY, serveCat, stdinClose } from './cat.ts';
import { FakeImages } from './fake-images.ts';
import { decodeFrames, makeApp, serve } from './support.ts';

const STRICT = { prefer: 'handling=strict' };

function setup() {
  const images = new FakeImages();
  const fixture = makeApp({ images: images.store as never });
  const { sandboxes, app } = fixture;
  const { id } = sandboxes.add();
  sandboxes.serviceCalls = {
    configure: async () => ({ state: 'running' }),
    start: async () => ({ state: 'running' }),
    stop: async () => ({ state: 'stopped' }),
    restart: async () => ({ state: 'running' }),
  };
  sandboxes.script = (exec) => exec.exit();
  const send = async (path: string, body: unknown, headers: Record<string, string> = {}, method = 'POST') => {
    const response = await app.request(path, { method, headers, body: JSON.stringify(body) });
    return { status: response.status, headers: response.headers, bytes: await response.bytes() };
  };
  const json = async (...asked: Parameters<typeof send>) => {
    const { bytes, ...answer } = await send(...asked);
    return { ...answer, body: JSON.parse(Buffer.from(bytes).toString()) };
  };
  return { ...fixture, id, send, json };
}

const exitOf = (frames: readonly ExecFrame[]) =>
  JSON.parse(frames.find(({ type }) => type === EXEC_FRAME.exit)?.payload.toString() ?? '{}');

t.test(
  'every response to a JSON body names unknown fields, and is 400 with Prefer: handling=strict',
  async (t) => {
    const { json, id, sandboxes } = setup();
    const snapshot = await sandboxes.snapshot(id);
    const accept = { accept: 'application/json' };
    const asked: readonly [path: string, body: object, warning: string, headers?: object, method?: string][] =
      [
        ['/sandboxes', { memory_mb: 1 }, 'unknown field memory_mb; did you mean memory_mib?'],
        [
          '/sandboxes',
          { network: { enabled: true, allowlist: ['a.b'], allowlst: [] } },
          'unknown field network.allowlst; did you mean network.allowlist?',
        ],
        [
          `/sandboxes/${id}/exec`,
          { cmd: ['x'], timeout: 1 },
          'unknown field timeout; did you mean timeout_s?',
          accept,
        ],
        [
          `/sandboxes/${id}/exec?max_output_byte=1`,
          { cmd: ['x'] },
          'unknown query parameter max_output_byte; did you mean max_output_bytes?',
          accept,
        ],
        [
          `/sandboxes/${id}/service`,
          { cmd: ['x'], envexact: true },
          'unknown field envexact; did you mean env_exact?',
          {},
          'PUT',
        ],
        [`/sandboxes/${id}/service/stop`, { grace: 1 }, 'unknown field grace; did you mean grace_s?'],
        [`/snapshots/${snapshot.id}/fork`, { cuont: 1 }, 'unknown field cuont; did you mean count?'],
        ['/images', { ref: 'nginx', pul: 'always' }, 'unknown field pul; did you mean pull?'],
      ];
    for (const [path, body, warning, headers = {}, method] of asked) {
      const lenient = await json(path, body, headers as Record<string, string>, method);
      t.match(lenient.body, { warnings: [warning] }, path);
      t.ok(lenient.status < 300);
      t.equal(lenient.headers.get('preference-applied'), null);
      const strict = await json(path, body, { ...headers, ...STRICT }, method);
      t.match(strict, { status: 400, body: { error: warning } }, path);
      t.equal(strict.headers.get('preference-applied'), 'handling=strict');
    }
  },
);

t.test('an answer of frames or lines has them in its result', async (t) => {
  const { send, id } = setup();
  const body = { cmd: ['x'], tiemout_s: 1 };
  const warnings = ['unknown field tiemout_s; did you mean timeout_s?'];
  const { bytes } = await send(`/sandboxes/${id}/exec`, body);
  t.match(exitOf(decodeFrames(bytes)), { exit_code: 0, warnings });
  const lines = await send(`/sandboxes/${id}/exec`, body, { accept: 'application/x-ndjson' });
  t.match(JSON.parse(Buffer.from(lines.bytes).toString()), { result: { warnings } });
  t.equal((await send(`/sandboxes/${id}/exec`, body, STRICT)).status, 400);
  const pulled = await send('/images', { ref: 'nginx', x: 1 }, { accept: 'application/x-ndjson' });
  t.match(JSON.parse(Buffer.from(pulled.bytes).toString().trim().split('\n').at(-1) ?? ''), {
    image: { warnings: ['unknown field x'] },
  });
});

t.test('a request without them is as before, strict or not', async (t) => {
  const { json, id } = setup();
  for (const headers of [{}, STRICT]) {
    const { status, body } = await json('/sandboxes', { memory_mib: 512 }, headers);
    t.equal(status, 201);
    t.notOk('warnings' in body);
  }
  const { body } = await json(
    `/sandboxes/${id}/exec`,
    { cmd: ['x'] },
    { accept: 'application/json', ...STRICT },
  );
  t.notOk('warnings' in body);
});

t.test('the ways to write the preference', async (t) => {
  const { json } = setup();
  const status = async (prefer: string) => (await json('/sandboxes', { colour: 1 }, { prefer })).status;
  for (const strict of [
    'HANDLING=Strict',
    'handling="strict"',
    'respond-async, handling = strict; x=1',
    'handling=strict, handling=lenient',
  ])
    t.equal(await status(strict), 400, strict);
  for (const lenient of [
    'handling=lenient',
    'handling',
    'x-handling=strict',
    'handling=lenient, handling=strict',
  ])
    t.equal(await status(lenient), 201, lenient);
});

t.test('fields of a body that a route does not take are named as unknown', async (t) => {
  const { json, send, app, id, sandboxes } = setup();
  const base = `/sandboxes/${id}`;
  for (const path of [`${base}/service/start`, `${base}/service/restart`, `${base}/snapshot`]) {
    t.match((await json(path, { grace_s: 1 })).body, { warnings: ['unknown field grace_s'] }, path);
    t.match(await json(path, { grace_s: 1 }, STRICT), {
      status: 400,
      body: { error: 'unknown field grace_s' },
    });
    t.match(
      (await json(`${path}?name=x`, {})).body,
      { warnings: ['unknown query parameter name'] },
      'of the query, too',
    );
    // What is no object says nothing, and was never read.
    for (const body of ['', 'null', '{}', '[1]', 'no JSON', '{"a":'])
      t.notMatch(await (await app.request(path, { method: 'POST', body })).text(), 'warnings', body);
    t.ok((await app.request(path, { method: 'POST', body: '{}', headers: STRICT })).ok);
    t.ok((await app.request(path, { method: 'POST', headers: STRICT })).ok);
  }
  t.equal((await send(base, { force: true }, STRICT, 'DELETE')).status, 400);
  t.equal(sandboxes.as(undefined).list().length, 1, 'it is still there');
  t.equal((await send(base, { force: true }, {}, 'DELETE')).status, 204);
});

t.test('so are parameters of a query beside a body of bytes', async (t) => {
  const { app, id, sandboxes } = setup();
  await sandboxes.snapshot(id);
  const post = async (path: string, headers = {}) => {
    const response = await app.request(path, { method: 'POST', body: 'x', headers });
    return { status: response.status, body: await response.json() };
  };
  const cases = [
    [`/sandboxes/${id}/files?path=/x&pth=/y`, 'unknown query parameter pth; did you mean path?'],
    ['/images/import?tga=x', 'unknown query parameter tga; did you mean tag?'],
    ['/snapshots/import?disk_olny=1', 'unknown query parameter disk_olny; did you mean disk_only?'],
  ] as const;
  for (const [path, warning] of cases) {
    t.match((await post(path)).body, { warnings: [warning] }, path);
    t.match(await post(path, STRICT), { status: 400, body: { error: warning } }, path);
  }
});

t.test('a misspelt query parameter is 400 for a client with Prefer: handling=strict', async (t) => {
  const { app, id } = setup();
  const ask = (path: string, headers = {}) => app.request(path, { headers });
  const path = `/sandboxes/${id}/files?path=/x&fromat=tar`;
  t.equal((await ask(path)).status, 200);
  const strict = await ask(path, STRICT);
  t.equal(strict.status, 400);
  t.match(await strict.json(), { error: 'unknown query parameter fromat; did you mean format?' });
  t.equal((await ask('/sandboxes?a=1', STRICT)).status, 400);
  t.equal((await ask(`/sandboxes/${id}?`, STRICT)).status, 200);
});

t.test('a WebSocket has them in its exit frame, or is closed with 1008', async (t) => {
  const { port, id } = await serveCat(t);
  const open = (headers: Record<string, string>) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/sandboxes/${id}/exec`, { headers });
    const received: Buffer[] = [];
    let applied: unknown;
    socket.on('upgrade', ({ headers: { 'preference-applied': said } }) => {
      applied = said;
    });
    socket.on('message', (data: Buffer) => void received.push(data));
    socket.on('open', () => {
      socket.send(BODY.replace('}', ',"usre":"a"}'));
      socket.send(stdinClose);
    });
    return new Promise<{ code: number; reason: string; applied: unknown; frames: ExecFrame[] }>((resolve) => {
      socket.on('close', (code, reason) =>
        resolve({ code, reason: reason.toString(), applied, frames: decodeFrames(Buffer.concat(received)) }),
      );
    });
  };
  const warning = 'unknown field usre; did you mean user?';
  const lenient = await open({});
  t.match(lenient, { code: 1000, applied: undefined });
  t.match(exitOf(lenient.frames), { exit_code: 4, warnings: [warning] });
  t.match(await open(STRICT), { code: 1008, reason: warning, applied: 'handling=strict' });
});

t.test('the library refuses them', async (t) => {
  const { url, sandboxes } = await serve(t);
  const client = new Client({ host: url });
  await t.rejects(client.sandboxes.create({ memory_mb: 512 } as never), {
    name: 'BadRequestError',
    message: 'unknown field memory_mb; did you mean memory_mib?',
  });
  t.equal(sandboxes.created.length, 0);
  const sandbox = await client.sandboxes.create({ memory_mib: 512 });
  await t.rejects(sandbox.service.configure({ cmd: ['x'], usr: 'a' } as never), { name: 'BadRequestError' });
});
