// Names that are not this daemon's, on every transport: what the page of a site sends whose name has this host's address.
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { RawClient, type Served, serve } from './support.ts';

const BODY = '{"cmd":["true"]}';
const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** Status and error of the answer to bytes as they are. */
async function send(t: Test, port: number, bytes: string): Promise<[number, string]> {
  const client = new RawClient(t, port);
  client.write(bytes);
  await until(() => client.text.includes('\r\n\r\n'), `an answer to ${JSON.stringify(bytes)}`);
  const isWhole = () =>
    bytes.startsWith('HEAD') || !/application.json/.test(client.text) || /\}$/.test(client.text);
  await until(isWhole, 'its body');
  client.socket.destroy();
  return [Number(client.text.slice(9, 12)), /"error":"((?:[^"\\]|\\.)*)"/.exec(client.text)?.[1] ?? ''];
}

/** One request of each kind that there is. */
const requests = (id: string, host: string): readonly string[] => [
  `GET /healthz HTTP/1.1\r\n${host}\r\n`,
  `HEAD /healthz HTTP/1.1\r\n${host}\r\n`,
  `GET /healthz HTTP/1.0\r\n${host}\r\n`,
  `GET /nowhere HTTP/1.1\r\n${host}\r\n`,
  `PUT /healthz HTTP/1.1\r\n${host}\r\n`,
  `OPTIONS * HTTP/1.1\r\n${host}\r\n`,
  `POST /sandboxes HTTP/1.1\r\n${host}Content-Length: 1\r\n\r\n{`,
  `POST /sandboxes HTTP/1.1\r\n${host}Expect: magic\r\n\r\n`,
  `POST /sandboxes HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n`,
  `POST /sandboxes/${id}/exec HTTP/1.1\r\n${host}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\n${host}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `GET /sandboxes/${id}/exec HTTP/1.1\r\n${host}${UPGRADE}\r\n`,
  `CONNECT x:1 HTTP/1.1\r\n${host}\r\n`,
];

t.test('a Host that is not the daemon is refused before anything else', async (t) => {
  const { port, sandboxes, lines } = await serve(t);
  const { id } = sandboxes.add();
  const foreign = [
    'evil.example',
    `evil.example:${port}`,
    '127.0.0.1',
    'localhost',
    '[::1]',
    'x.localhost',
    'x:1',
  ];
  for (const name of foreign) {
    for (const bytes of requests(id, `Host: ${name}\r\n`)) {
      const [status, error] = await send(t, port, bytes);
      t.equal(status, 403, `${name}: ${bytes.slice(0, 50)}`);
      if (!bytes.startsWith('HEAD'))
        t.match(error, /is not a name of this daemon; use localhost:\d+, or allow it/);
    }
  }
  t.match(
    await send(
      t,
      port,
      `POST /sandboxes HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n`,
    ),
    [403, /host/],
    'an origin that equals it',
  );
  t.same([sandboxes.created.length, sandboxes.execs.length], [0, 0], 'nothing was done');
  t.ok(
    lines.some(({ reason }) => String(reason).includes('evil.example')),
    'the log says so',
  );
});

t.test('two Host headers are refused', async (t) => {
  const { port, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  for (const bytes of requests(id, `Host: 127.0.0.1:${port}\r\nhost: 127.0.0.1:${port}\r\n`)) {
    const [status] = await send(t, port, bytes);
    t.equal(status, 400, bytes.slice(0, 50));
  }
  for (const host of [
    'Host:\r\n',
    'Host: a b\r\n',
    `Host: me@127.0.0.1:${port}\r\n`,
    'Host: 127.0.0.1:99999\r\n',
    '',
  ]) {
    const [status] = await send(t, port, `GET /healthz HTTP/1.1\r\n${host}\r\n`);
    t.equal(status, 400, host);
  }
});

/** The answer to GET /healthz with each of these as its host. */
async function answers(t: Test, { port }: Served, names: readonly string[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const name of names)
    [found[name]] = await send(
      t,
      port,
      `GET /healthz HTTP/1.1\r\nHost: ${name.replace('PORT', String(port))}\r\n\r\n`,
    );
  return found;
}

t.test('loopback names and addresses with the port of the daemon are its own', async (t) => {
  const served = await serve(t);
  const { port } = served;
  const own = ['127.0.0.1:PORT', 'localhost:PORT', 'LocalHost.:PORT', '[::1]:PORT', '127.9.9.9:PORT'];
  const mapped = ['[::ffff:7f00:1]:PORT'];
  const found = await answers(t, served, [...own, ...mapped]);
  t.same(new Set(Object.values(found)), new Set([200]), JSON.stringify(found));
  t.match(await send(t, port, 'GET /healthz HTTP/1.0\r\n\r\n'), [200], 'no browser leaves it out');
});

t.test('a target that names a host goes before the header', async (t) => {
  const { port } = await serve(t);
  const own = `Host: 127.0.0.1:${port}\r\n\r\n`;
  t.match(await send(t, port, `GET http://127.0.0.1:${port}/healthz HTTP/1.1\r\n${own}`), [200]);
  for (const host of ['evil.example', `127.0.0.1:${port}@evil.example`, `127.0.0.1`]) {
    const [status] = await send(t, port, `GET http://${host}/healthz HTTP/1.1\r\n${own}`);
    t.ok(status === 403 || status === 400, `${host}: ${status}`);
  }
  const evil = 'Host: evil.example\r\n\r\n';
  t.match(await send(t, port, `GET http://127.0.0.1:${port}/healthz HTTP/1.1\r\n${evil}`), [403]);
});

t.test('what the operator allows', async (t) => {
  const served = await serve(t, {
    allowedHosts: [
      { scheme: 'http', at: { host: 'box.example', port: undefined } },
      { scheme: 'https', at: { host: 'safe.example', port: undefined } },
      { scheme: 'http', at: { host: 'odd.example', port: 8080 } },
    ],
  });
  t.same(
    await answers(t, served, [
      'Box.Example',
      'box.example:80',
      'box.example.:PORT',
      'box.example:443',
      'safe.example:443',
      'safe.example:80',
      'odd.example:8080',
      'odd.example:PORT',
      'odd.example',
      'a.box.example',
    ]),
    {
      'Box.Example': 200,
      'box.example:80': 200,
      'box.example.:PORT': 200,
      'box.example:443': 403,
      'safe.example:443': 200,
      'safe.example:80': 403,
      'odd.example:8080': 200,
      'odd.example:PORT': 403,
      'odd.example': 403,
      'a.box.example': 403,
    },
  );
  const { port, sandboxes } = served;
  const from = (origin: string) =>
    send(t, port, `POST /sandboxes HTTP/1.1\r\nHost: localhost:${port}\r\nOrigin: ${origin}\r\n\r\n`);
  for (const origin of [`http://127.0.0.1:${port}`, 'http://box.example', 'https://safe.example'])
    t.match(await from(origin), [201], origin);
  for (const origin of [
    `https://127.0.0.1:${port}`,
    'https://box.example',
    'http://safe.example',
    'http://127.0.0.1',
  ])
    t.match(await from(origin), [403, /is foreign to this daemon/], origin);
  t.equal(sandboxes.created.length, 3);
});

t.test('a page of another site has no access, whatever it asks', async (t) => {
  const { port, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  for (const origin of ['http://evil.example', 'null', '%', `http://evil.example:${port}`, 'file://']) {
    const host = `Host: 127.0.0.1:${port}\r\nOrigin: ${origin}\r\n`;
    for (const bytes of requests(id, host)) {
      const [status] = await send(t, port, bytes);
      t.equal(status, 403, `${origin}: ${bytes.slice(0, 50)}`);
    }
  }
  t.same([sandboxes.created.length, sandboxes.execs.length], [0, 0]);
});
