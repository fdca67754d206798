// The ingress before a web app in a real guest without a network: links, cookies, events, WebSockets, uploads, HTTP/2,
// public ports, what sleeps; and a browser that develops the app.
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { WebSocket } from 'ws';
import { Client } from '../../client/src/index.ts';
import { script } from '../support/browser-library.ts';
import { openPage } from '../support/chromium.ts';
import { startDaemon } from '../support/daemon.ts';
import { installInGuest } from '../support/guest-node.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));
const run = promisify(execFile);
const MIB = 2 ** 20;
const PORT = 5173;

/** A free port of this host. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

const ingress = await freePort();
const daemon = await startDaemon(t, { flags: ['--ingress-listen', `127.0.0.1:${ingress}`] });
const { api } = daemon;
const client = new Client({ host: api.url });
const { id } = await api.create({ memory_mib: 512 });
const sandbox = client.sandboxes.get(id);
const node = await installInGuest(api, id, ['web-app'], []);
await api.sh(id, `nohup ${node.command('web-app').join(' ')} ${PORT} > /root/log 2>&1 &`, { env: node.env });

/** curl resolves names below localhost by itself. Resolves with its output. */
async function curl(...args: string[]): Promise<string> {
  const { stdout } = await run('curl', ['-sS', '--max-time', '120', ...args], {
    maxBuffer: 64 * MIB,
    encoding: 'latin1',
  });
  return stdout;
}

const { url } = await sandbox.ports.link(PORT);
const origin = new URL(url).origin;
const token = new URL(url).searchParams.get('sandbox_link') ?? '';
const auth = ['-H', `X-Access-Token: ${token}`];
while ((await curl(...auth, '-o', '/dev/null', '-w', '%{http_code}', origin)) !== '200') await sleep(500);

t.test('a link opens a private port, and leaves a cookie', async (t) => {
  const visit = await curl('-i', '-H', 'Accept: text/html', url);
  t.match(visit, /^HTTP\/1.1 303 /);
  t.match(visit, /set-cookie: sandbox-link=\S+; Path=\/; HttpOnly; SameSite=Lax/i);
  t.match(visit, /location: \/\r/i);
  const cookie = ['-b', `sandbox-link=${token}`];
  t.match(await curl(...cookie, origin), '<title>app</title>');
  t.match(JSON.parse(await curl(...auth, `${origin}/headers`)), {
    host: new URL(origin).host,
    'x-forwarded-host': new URL(origin).host,
    cookie: undefined,
    'x-access-token': undefined,
  });
  const foreign = ['-H', 'Origin: http://evil.example'];
  t.equal(await curl(...cookie, ...foreign, '-o', '/dev/null', '-w', '%{http_code}', origin), '403');
});

t.test('events, a WebSocket of 500 messages, an upload, HTTP/2', async (t) => {
  const portal = { 'x-access-token': token, 'x-sandbox-id': id, 'x-sandbox-port': String(PORT) };
  const { body: stream } = await fetch(`http://127.0.0.1:${ingress}/events`, { headers: portal });
  let events = '';
  for await (const chunk of stream as ReadableStream<Uint8Array>) {
    events += Buffer.from(chunk).toString();
    if (events.includes('data: event 2')) break;
  }
  t.match(events, /data: event 1\n\nid: 2\ndata: event 2/);

  const socket = new WebSocket(`ws://127.0.0.1:${ingress}/chat`, {
    headers: { 'x-access-token': token, host: new URL(origin).host },
  });
  await new Promise((resolve) => socket.once('open', resolve));
  const got: string[] = [];
  const all = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      got.push(String(data));
      if (got.length === 500) resolve();
    });
  });
  const sent = Array.from({ length: 500 }, (_, at) => `message ${at} ${'x'.repeat(at)}`);
  for (const text of sent) socket.send(text);
  await all;
  t.same(got, sent);
  const closed = new Promise((resolve) => socket.once('close', resolve));

  const body = randomBytes(8 * MIB);
  const answer = await fetch(`http://127.0.0.1:${ingress}/upload`, {
    method: 'PUT',
    body,
    headers: portal,
  });
  t.equal(await answer.text(), createHash('sha256').update(body).digest('hex'));

  for (const way of ['--http2-prior-knowledge', '--http1.1']) {
    const [, version, size] =
      /(\S+) (\d+)$/.exec(
        await curl(
          way,
          ...auth,
          '-o',
          '/dev/null',
          '-w',
          '%{http_version} %{size_download}',
          `${origin}/download`,
        ),
      ) ?? [];
    t.same([version, size], [way === '--http1.1' ? '1.1' : '2', String(3 * MIB)]);
  }
  await sandbox.ports.close(PORT);
  await closed;
  t.pass('a closed port ends the WebSocket');
  await sandbox.ports.open(PORT, { access: 'public' });
  t.match(await curl(origin), '<title>app</title>', 'a public port asks for nothing');
});

t.test('a request wakes what sleeps', async (t) => {
  await sandbox.pause();
  t.match(await curl(origin), '<title>app</title>');
  t.equal((await sandbox.info()).state, 'running');
});

/** In the app's page: what a developer sees, waits for and does. */
const USE = `
  const until = async (isTrue) => { while (!isTrue()) await new Promise((done) => setTimeout(done, 50)); };
  await until(() => window.hmr === 'open');
  const socket = (name) => new Promise((open) => {
    const one = new WebSocket(location.origin.replace('http', 'ws') + '/chat');
    one.heard = []; one.onmessage = ({ data }) => one.heard.push(data); one.onopen = () => open(one);
  });
  const [ann, bob] = [await socket(), await socket()];
  ann.send('hello'); await until(() => bob.heard.length > 0);
  const events = [];
  const source = new EventSource('/events');
  source.onmessage = ({ data }) => events.push(data);
  await until(() => events.length >= 3);
  source.close();
  const file = await (await fetch(document.getElementById('file').href)).arrayBuffer();
  const upload = await (await fetch('/upload', { method: 'POST', body: file })).text();
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', file));
  return {
    href: location.href, cookie: document.cookie, heard: bob.heard, events: events.slice(0, 3),
    color: getComputedStyle(document.getElementById('version')).color,
    logo: document.getElementById('logo').naturalWidth,
    bytes: file.byteLength, isWhole: upload === Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join(''),
  };`;

for (const access of ['private', 'public'] as const)
  t.test(`a browser develops the app on a ${access} port`, async (t) => {
    await sandbox.ports.open(PORT, { access });
    const start = access === 'private' ? (await sandbox.ports.link(PORT)).url : `${origin}/`;
    const page = await openPage(t, start);
    t.same(await page.evaluate(script(USE)), {
      href: `${origin}/`,
      cookie: '',
      heard: ['hello'],
      events: ['event 1', 'event 2', 'event 3'],
      color: 'rgb(1, 2, 3)',
      logo: 8,
      bytes: 3 * MIB,
      isWhole: true,
    });
    /** While the page reloads there is no document. */
    const read = () => page.evaluate(`document.getElementById('version').textContent`).catch(() => '');
    const before = String(await read());
    await page.evaluate(`fetch('/edit', { method: 'POST' })`).catch(() => undefined);
    const next = before.replace(/\d+/, (number) => String(Number(number) + 1));
    while ((await read()) !== next) await sleep(100);
    t.pass(`a change reloads it: ${next}`);
    await page.evaluate('window.isOld = true; location.reload()');
    while ((await page.evaluate('window.isOld === true').catch(() => true)) === true) await sleep(100);
    while ((await read()) !== next) await sleep(100);
    t.pass('a reload needs no link');
  });
