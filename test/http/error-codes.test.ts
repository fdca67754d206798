// Every refusal has a code of the catalogue beside its words: of each route, and of what never reaches one.
import { readFileSync } from 'node:fs';
import {
  type ApiErrorCode,
  ERRORS,
  EXEC_FRAME,
  encodeExecFrame,
  errorResponse,
  toOpenApi,
} from '@sandboxd/api';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { AppError, type ErrorCode } from '../../host-agent/src/lib/errors.ts';
import { BODY, head, serveCat } from './cat.ts';
import { FakeImages } from './fake-images.ts';
import { allSamples, openKeyring, READ_ONLY } from './keyed.ts';
import { ask, decodeFrames, makeApp, RawClient, serve, summarize } from './support.ts';

t.setTimeout(120_000);
const strict = errorResponse.strict();

/** Status and code of the one answer in what came over a connection. */
function codeOf(text: string): string {
  const answer = text.replace(/^HTTP\/1.1 100 Continue\r\n\r\n/, '');
  const [line = ''] = answer.split('\r\n', 1);
  const { code } = strict.parse(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)));
  if (ERRORS[code].status !== Number(line.split(' ')[1])) throw new Error(`${line} with ${code}`);
  return code;
}

async function send(t: Test, port: number, bytes: string): Promise<string> {
  const client = new RawClient(t, port);
  client.write(bytes);
  await client.ended();
  return codeOf(client.text);
}

t.test(
  'of every route in every form: no key, a wrong key, a key without permission, an unknown id',
  async (t) => {
    const keyring = await openKeyring(t);
    const { port } = await serve(t, { authenticator: keyring.authenticator });
    const [reader, all] = [await keyring.make({ policy: READ_ONLY }), await keyring.make()];
    const close = 'Connection: close\r\n';
    const expected = new Set(['invalid_argument', 'not_found', 'unsupported', 'timeout', 'upgrade_required']);
    for (const { name, transport, route, bytes } of allSamples()) {
      // Neither has a body that could say anything.
      if (transport === 'head' || route.access === 'public') continue;
      const asked = (more: string) =>
        send(
          t,
          port,
          bytes(`${transport === 'websocket' ? '' : close}${more}`).replace('Length: 5', 'Length: 0'),
        );
      const what = `${name} ${transport}`;
      t.equal(await asked(''), 'unauthenticated', what);
      t.equal(await asked('Authorization: Bearer wrong\r\n'), 'unauthenticated', what);
      t.equal(await asked('Origin: http://evil.example\r\n'), 'forbidden', what);
      const needsMore = !['read', 'view', 'metrics', 'any-key'].includes(route.access);
      if (needsMore) t.equal(await asked(`Authorization: Bearer ${reader}\r\n`), 'forbidden', what);
      if (route.params === undefined || route.tag === 'images') continue;
      const found = await asked(`Authorization: Bearer ${all}\r\n`);
      t.ok(expected.has(found), `${what}: ${found}`);
    }
  },
);

t.test('of each failure of an operation, also in lines of a pull', async (t) => {
  const codes = Object.keys(ERRORS) as ErrorCode[];
  const images = new FakeImages();
  const { app, sandboxes } = makeApp({ images: images.store as never });
  for (const code of codes) {
    sandboxes.onCreate = () => Promise.reject(new AppError(code, 'no'));
    t.match(await ask(app, 'POST', '/sandboxes'), { body: { error: 'no', code } });
    images.store.pull = () => Promise.reject(new AppError(code, 'no'));
    const response = await app.request('/images', {
      method: 'POST',
      headers: { accept: 'application/x-ndjson' },
      body: '{"ref":"nginx"}',
    });
    const last = (await response.text()).trim().split('\n').at(-1) ?? '';
    t.same(JSON.parse(last), { error: 'no', code, status: ERRORS[code].status });
  }
  sandboxes.onCreate = () => Promise.reject(new TypeError('secret'));
  t.match(await ask(app, 'POST', '/sandboxes'), { status: 500, body: { code: 'internal' } });
});

t.test('of requests that no operation sees', async (t) => {
  const { port, id } = await serve(t, { bodyIdleMs: 50, headersTimeoutMs: 200 }).then((served) => ({
    ...served,
    id: served.sandboxes.add().id,
  }));
  const more = 'Host: x\r\nConnection: close\r\n';
  const cases: readonly (readonly [ApiErrorCode, string])[] = [
    ['malformed', 'garbage\r\n\r\n'],
    ['malformed', 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['malformed', `GET \\x HTTP/1.1\r\n${more}\r\n`],
    ['headers_too_large', `GET /healthz HTTP/1.1\r\n${more}a: ${'b'.repeat(20_000)}\r\n\r\n`],
    ['headers_too_large', `GET /healthz HTTP/1.1\r\n${more}${'a: b\r\n'.repeat(2000)}\r\n`],
    ['timeout', 'GET /healthz HTTP/1.1\r\nHost: x\r\n'],
    ['timeout', `POST /sandboxes HTTP/1.1\r\n${more}Content-Length: 5\r\n\r\n{`],
    ['expectation_failed', `GET /healthz HTTP/1.1\r\n${more}Expect: magic\r\n\r\n`],
    ['method_not_allowed', `CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['method_not_allowed', `TRACE /healthz HTTP/1.1\r\n${more}\r\n`],
    ['method_not_allowed', `PUT /healthz HTTP/1.1\r\n${more}Content-Length: 0\r\n\r\n`],
    ['unknown_path', `GET /nope HTTP/1.1\r\n${more}\r\n`],
    ['forbidden', 'GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n'],
    ['too_large', `POST /sandboxes HTTP/1.1\r\n${more}Content-Length: 2000000\r\n\r\n`],
    [
      'unsupported_media',
      `POST /sandboxes HTTP/1.1\r\n${more}Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 2\r\n\r\n{}`,
    ],
    ['upgrade_required', `GET /sandboxes/${id}/exec HTTP/1.1\r\n${more}\r\n`],
    [
      'malformed',
      `GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n`,
    ],
  ];
  for (const [code, bytes] of cases) t.equal(await send(t, port, bytes), code, bytes.slice(0, 60));
  const { app, sandboxes } = makeApp();
  const path = `/sandboxes/${sandboxes.add().id}/exec?stdin=1`;
  t.match(await ask(app, 'POST', path, BODY), { status: 501, body: { code: 'not_implemented' } });
});

t.test('of commands: before the start, and after it', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const exec = async (bytes: string | Buffer, more?: Buffer) => {
    const client = new RawClient(t, port);
    client.write(bytes);
    if (more) client.write(more);
    await client.ended();
    return client;
  };
  const raw = await exec(head(id) + BODY, Buffer.from([9, 0, 0, 0, 255, 0, 0, 0]));
  const bytes = raw.received.subarray(raw.received.indexOf('\r\n\r\n') + 4);
  t.match(summarize(decodeFrames(bytes)).result, { exit_code: -1, error: /65536/, code: 'invalid_argument' });
  sandboxes.script = (command) =>
    command.exit({ exitCode: -1, error: 'lost', code: 'guest_unreachable', isLost: true });
  t.equal(codeOf((await exec(head(id) + BODY)).text), 'guest_unreachable');
});

t.test('of a WebSocket: a frame before the close, because a close frame is too small for it', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const talk = async (...messages: (string | Buffer)[]) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/sandboxes/${id}/exec`);
    t.teardown(() => socket.terminate());
    const received: Buffer[] = [];
    socket.on('message', (data: Buffer) => void received.push(data));
    socket.on('open', () => {
      for (const message of messages) socket.send(message);
    });
    const closeCode = await new Promise<number>((resolve) => socket.on('close', resolve));
    const frames = decodeFrames(Buffer.concat(received)).filter(({ type }) => type === EXEC_FRAME.error);
    return { closeCode, bodies: frames.map(({ payload }) => strict.parse(JSON.parse(payload.toString()))) };
  };
  const refused = await talk('{"cmd":[],"env":1,"cwd":1,"user":1,"timeout_s":"x","tty":1}');
  t.match(refused, { closeCode: 1008, bodies: [{ code: 'invalid_argument' }] });
  t.ok(refused.bodies[0]!.error.length > 123, 'all of it, though a close holds its beginning only');
  t.match(await talk(BODY, 'text'), { closeCode: 1003, bodies: [{ code: 'invalid_argument' }] });
  const signal = encodeExecFrame(EXEC_FRAME.signal, Buffer.from('{"signal":"SIGNOPE"}'));
  const closeStdin = encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0));
  t.match(await talk(BODY, signal, closeStdin), { closeCode: 1000, bodies: [{ code: 'invalid_argument' }] });
  sandboxes.exec = () => {
    throw new AppError('exhausted', 'too many commands');
  };
  t.match(await talk(BODY), {
    closeCode: 1011,
    bodies: [{ error: 'too many commands', code: 'exhausted' }],
  });
  sandboxes.exec = () => {
    throw new Error('secret');
  };
  t.match(await talk(BODY), { closeCode: 1011, bodies: [{ error: 'internal error', code: 'internal' }] });
});

t.test('every code is in the document and on the page, with its status', (t) => {
  const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');
  const { description = '' } = toOpenApi().info as { description?: string };
  for (const [code, { status }] of Object.entries(ERRORS)) {
    t.ok(description.includes(`| \`${code}\` | ${status} |`), code);
    t.match(page, new RegExp(`^\\| \`${code}\` \\| ${status} \\| .`, 'm'), code);
  }
  t.end();
});
