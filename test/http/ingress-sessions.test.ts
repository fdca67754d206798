// Connections of HTTP/2 to the ingress: one without streams can be replaced, and a refused stream ends.
import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { makeAuthority } from './certificates.ts';
import { ask, serveIngress, serveRaw } from './ingress-host.ts';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const HEADERS = 1;
const SETTINGS = 4;
const END_STREAM = 1;
const END_HEADERS = 4;

async function dial(t: Test, url: string): Promise<ClientHttp2Session> {
  const client = connect(url, { rejectUnauthorized: false });
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  await new Promise((resolve) => client.once('remoteSettings', resolve));
  return client;
}

function toStatus(client: ClientHttp2Session, authority: string): Promise<unknown> {
  const stream = client.request({ ':path': '/', ':authority': authority });
  stream.resume();
  return new Promise((resolve, reject) => {
    stream.on('error', reject);
    stream.on('response', (headers) => stream.on('close', () => resolve(headers[':status'])));
  });
}

function toFrame(type: number, flags: number, id: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

/** Without compression. */
function toBlock(headers: Record<string, string>): Buffer {
  const sized = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), sized(name), sized(value)]),
  );
}

for (const scheme of ['http', 'https'] as const)
  t.test(
    `${scheme}: a connection without streams gives way to a new one, one with a stream does not`,
    async (t) => {
      const issued = scheme === 'https' ? makeAuthority(t).issue('server', 'DNS:*.localhost') : undefined;
      const served = await serveIngress(t, { maxConnections: 2, ...(issued && { issued }) });
      const sandbox = served.add(await serveRaw(t, (socket) => void socket.resume()), 'public');
      const url = `${scheme}://127.0.0.1:${served.port}`;
      const [idle, busy] = [await dial(t, url), await dial(t, url)];
      t.equal(await toStatus(idle, 'nothing.localhost'), 404);
      busy.request({ ':path': '/', ':authority': served.hostOf(sandbox) }).on('error', () => undefined);
      await until(() => sandbox.streams.size === 1);
      const next = await dial(t, url);
      t.equal(await toStatus(next, 'nothing.localhost'), 404);
      await until(() => idle.destroyed, 'the end of the idle one');
      t.equal(busy.destroyed, false);
      t.equal(sandbox.streams.size, 1);
      busy.destroy();
      await until(() => sandbox.streams.size === 0, 'the end of the stream to the guest');
    },
  );

t.test(
  'a refused stream ends, although its client has no window; a silent connection is closed',
  async (t) => {
    const served = await serveIngress(t, { maxConnections: 1, silentMs: 2000 });
    const socket = connectSocket({ port: served.port, host: '127.0.0.1' });
    t.teardown(() => socket.destroy());
    socket.on('error', () => undefined).resume();
    socket.write(PREFACE);
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    socket.write(toFrame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])));
    const head = { ':method': 'GET', ':path': '/', ':scheme': 'http', ':authority': 'nothing.localhost' };
    socket.write(toFrame(HEADERS, END_STREAM | END_HEADERS, 1, toBlock(head)));
    await sleep(200);
    const isServed = async () => (await ask(served.port, 'nothing.localhost')).status === 404;
    t.equal(await isServed(), false);
    const begunAtMs = performance.now();
    while (performance.now() - begunAtMs < 9000 && !(await isServed())) await sleep(200);
    t.equal(await isServed(), true);
    t.ok(socket.destroyed);

    const silent = await dial(t, `http://127.0.0.1:${served.port}`);
    await until(() => silent.destroyed, 'the end of the silent one');
  },
);

t.test(
  'a client that reads nothing of its answers gives way to a new one, one that reads does not',
  async (t) => {
    const served = await serveIngress(t, { maxConnections: 2, slowReaderMs: 300 });
    const guest = await serveRaw(t, (socket) => {
      socket.resume().write('HTTP/1.1 200 OK\r\n\r\n');
      const timer = setInterval(() => socket.write(Buffer.alloc(20_000)), 20);
      socket.once('close', () => clearInterval(timer));
    });
    const sandbox = served.add(guest, 'public');
    const url = `http://127.0.0.1:${served.port}`;
    const [reading, stalled] = [await dial(t, url), await dial(t, url)];
    const head = { ':path': '/', ':authority': served.hostOf(sandbox) };
    reading
      .request(head)
      .on('error', () => undefined)
      .resume();
    for (let at = 0; at < 5; at++) stalled.request(head).on('error', () => undefined);
    await until(() => sandbox.streams.size === 6);
    const isServed = async () => (await ask(served.port, 'nothing.localhost')).status === 404;
    for (let isFree = false; !isFree; isFree = await isServed()) await sleep(200);
    await until(() => stalled.destroyed, 'the end of the client that does not read');
    t.equal(reading.destroyed, false);
    await until(() => sandbox.streams.size === 1, 'the end of its connections to the guest');
  },
);
