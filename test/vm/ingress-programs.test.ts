// Programs of others through the ingress with TLS, to servers in a real guest: curl, gRPC, a WebSocket of 10,000
// messages, and bodies of a GiB (LONG_TESTS=1).
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { get, request as send } from 'node:https';
import { createServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import { WebSocket } from 'ws';
import { Client } from '../../client/src/index.ts';
import { makeAuthority } from '../http/certificates.ts';
import { startDaemon } from '../support/daemon.ts';
import { installInGuest } from '../support/guest-node.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(1_800_000));
const run = promisify(execFile);
const MIB = 2 ** 20;
const BODY_BYTES = (process.env.LONG_TESTS === '1' ? 1024 : 32) * MIB;
const MESSAGES = 10_000;
const [APP, GRPC] = [3000, 50_051];

const probe = createServer().listen(0, '127.0.0.1');
await once(probe, 'listening');
const { port } = probe.address() as { port: number };
probe.close();
const authority = makeAuthority(t);
const { certPath, keyPath } = authority.issue('wildcard', 'DNS:*.boxes.test');
const daemon = await startDaemon(t, {
  flags: [
    ...['--ingress-listen', `127.0.0.1:${port}`, '--ingress-domain', 'boxes.test'],
    ...['--ingress-tls-cert', certPath, '--ingress-tls-key', keyPath],
  ],
});
const { id } = await daemon.api.create({ memory_mib: 512 });
const sandbox = new Client({ host: daemon.api.url }).sandboxes.get(id);
const node = await installInGuest(daemon.api, id, ['web-app', 'grpc-echo'], []);
for (const [script, at] of [
  ['web-app', APP],
  ['grpc-echo', GRPC],
] as const) {
  await sandbox.ports.open(at, { access: 'public' });
  await daemon.api.sh(id, `nohup ${node.command(script).join(' ')} ${at} > /root/log-${at} 2>&1 &`, {
    env: node.env,
  });
  await daemon.api.sh(id, `until grep -q listening /root/log-${at}; do sleep 0.2; done`);
}
const hostOf = (at: number): string => `${at}-${id.replace('_', '-')}.boxes.test`;
const APP_URL = `https://${hostOf(APP)}:${port}`;
const TLS = {
  ...{ host: '127.0.0.1', port, servername: hostOf(APP), rejectUnauthorized: false },
  headers: { host: `${hostOf(APP)}:${port}` },
};

async function curl(...words: string[]): Promise<string> {
  const resolve = ['--resolve', `${hostOf(APP)}:${port}:127.0.0.1`, '--cacert', authority.caPath];
  return (await run('curl', ['-sS', '--max-time', '120', ...resolve, ...words])).stdout;
}

t.test('curl: both versions, a form, a range of headers, an upload', async (t) => {
  const size = String(3 * MIB);
  const wanted = ['-o', '/dev/null', '-w', '%{http_version} %{http_code} %{size_download}'];
  t.equal(await curl('--http2', ...wanted, `${APP_URL}/download`), `2 200 ${size}`);
  t.equal(await curl('--http1.1', ...wanted, `${APP_URL}/download`), `1.1 200 ${size}`);
  t.match(JSON.parse(await curl('--http2', '-H', 'X-Mine: yes', `${APP_URL}/headers`)), {
    'x-mine': 'yes',
    'x-forwarded-proto': 'https',
  });
  const text = 'a line\n'.repeat(20_000);
  const upload = run('curl', [
    ...['-sS', '--http2', '--data-binary', '@-', '--cacert', authority.caPath],
    ...['--resolve', `${hostOf(APP)}:${port}:127.0.0.1`, `${APP_URL}/upload`],
  ]);
  upload.child.stdin?.end(text);
  t.equal((await upload).stdout, createHash('sha256').update(text).digest('hex'));
});

t.test(`a WebSocket carries ${MESSAGES} messages there and back, in order`, async (t) => {
  const socket = new WebSocket(`wss://127.0.0.1:${port}/chat`, {
    ...TLS,
    headers: { host: `${hostOf(APP)}:${port}`, origin: APP_URL },
  });
  await once(socket, 'open');
  let at = 0;
  const done = new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('message', (data) => {
      if (String(data) !== `message ${at}`) reject(new Error(`${data} came in place of message ${at}`));
      if (++at === MESSAGES) resolve();
    });
  });
  for (let number = 0; number < MESSAGES; number++) socket.send(`message ${number}`);
  await done;
  t.equal(at, MESSAGES);
  socket.close();
});

/** A message of gRPC. */
function toMessage(text: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

t.test('gRPC: each message is answered while the call is open, and the status is a trailer', async (t) => {
  const createConnection = () =>
    connectTls({ ...TLS, servername: hostOf(GRPC), ALPNProtocols: ['h2'] }) as Duplex;
  const session = connect(`https://${hostOf(GRPC)}:${port}`, { createConnection });
  t.teardown(() => session.destroy());
  const call = session.request({
    ...{ ':method': 'POST', ':path': '/test.Echo/Chat', te: 'trailers' },
    'content-type': 'application/grpc',
  });
  let received = Buffer.alloc(0);
  call.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
  });
  const trailers = once(call, 'trailers');
  let sent = Buffer.alloc(0);
  for (let number = 0; number < 50; number++) {
    const message = toMessage(`message ${number}`);
    call.write(message);
    sent = Buffer.concat([sent, message]);
    while (received.length < sent.length) await sleep(2);
  }
  call.end();
  t.match((await trailers)[0], { 'grpc-status': '0', 'grpc-message': 'done' });
  t.ok(received.equals(sent));
});

t.test(`${BODY_BYTES / MIB} MiB up and down have their hashes`, async (t) => {
  const hash = createHash('sha256');
  const upload = send({ ...TLS, path: '/upload', method: 'PUT' });
  const answered = once(upload, 'response');
  const piece = Buffer.alloc(MIB);
  for (let left = BODY_BYTES; left > 0; left -= MIB) {
    piece.writeUInt32BE(left / MIB);
    const own = Buffer.from(piece);
    hash.update(own);
    if (!upload.write(own)) await once(upload, 'drain');
  }
  upload.end();
  const [answer] = await answered;
  let digest = '';
  for await (const chunk of answer) digest += chunk;
  t.equal(digest, hash.digest('hex'), 'up');

  const download = get({ ...TLS, path: `/bytes/${BODY_BYTES}` });
  const [body] = await once(download, 'response');
  const received = createHash('sha256');
  let bytes = 0;
  for await (const chunk of body) {
    received.update(chunk);
    bytes += chunk.length;
  }
  t.equal(bytes, BODY_BYTES);
  t.equal(body.trailers['x-digest'], received.digest('hex'), 'down; its trailer says so');
});
