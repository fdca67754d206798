// Uploads to envd that are damaged, cut or abandoned: the daemon refuses them, and goes on. Clients that leave.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import type { ByteSource } from '../../host-agent/src/guest/files.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { until } from '../support/until.ts';
import { type Created, serveE2b } from './e2b-front.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test) {
  const uncaught: string[] = [];
  const note = (error: Error): void => void uncaught.push(error.message);
  process.on('uncaughtException', note);
  t.teardown(() => process.off('uncaughtException', note));
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const { sandboxes } = fixture;
  const e2b = await serveE2b(t, { ...fixture, keyring });
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const body = { templateID: 'base', allow_internet_access: false };
  const made: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  // The user of the guest is not known at once.
  sandboxes.onRead = async () => {
    await sleep(50);
    return { body: outflow('root:x:0:0::/root:/bin/sh\n'), sizeBytes: 26, contentBytes: 26, entry: FILE };
  };
  let open = 0;
  sandboxes.onWrite = async (_write, read: ByteSource) => {
    open += 1;
    try {
      while ((await read()) !== undefined);
      return FILE;
    } finally {
      open -= 1;
    }
  };
  const headers = {
    'x-access-token': made.envdAccessToken,
    'e2b-sandbox-id': made.sandboxID,
    'e2b-sandbox-port': '49983',
  };
  /** The beginning of a request, from a client that may leave. */
  const begin = async (line: string, more: object, bytes: string | Buffer = ''): Promise<Socket> => {
    const socket = connect(e2b.port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    const all = { host: `127.0.0.1:${e2b.port}`, ...more };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`${line} HTTP/1.1\r\n${lines.join('')}\r\n`);
    socket.write(bytes);
    return socket;
  };
  return { ...fixture, keyring, e2b, key, made, headers, uncaught, begin, writesOpen: () => open };
}

const OCTETS = { 'content-type': 'application/octet-stream' };
const FORM = { 'content-type': 'multipart/form-data; boundary=b' };
const GZIP = { 'content-encoding': 'gzip' };

function part(name: string, fileName: string, content = 'abc'): string {
  return `--b\r\nContent-Disposition: form-data; name="${name}"; filename="${fileName}"\r\n\r\n${content}`;
}

t.test('packed uploads that nothing reads are refused without an uncaught error', async (t) => {
  const { e2b, headers, uncaught, sandboxes } = await start(t);
  const packed = new Uint8Array(gzipSync('hello'));
  for (const [path, body, extra] of [
    ['/files?path=/x', packed, { 'content-type': 'text/plain' }],
    ['/files?path=/x', 'no gzip', { 'content-type': 'text/plain' }],
    ['/files', 'no gzip', OCTETS],
    ['/files', 'no gzip', { 'content-type': 'multipart/form-data' }],
    ['/files', 'no gzip', FORM],
    ['/files?path=x', 'no gzip', OCTETS],
    ['/files?path=/x', packed.subarray(0, 12), OCTETS],
  ] as const) {
    const all = { ...headers, ...GZIP, ...extra };
    const { status } = await e2b.ask('POST', path, { body, headers: all });
    t.equal(status, 400, JSON.stringify(extra));
  }
  const write = sandboxes.onWrite;
  sandboxes.onWrite = () => Promise.reject(new Error('no write'));
  const asked = { body: 'no gzip', headers: { ...headers, ...GZIP, ...OCTETS } };
  t.ok((await e2b.ask('POST', '/files?path=/x', asked)).status >= 400);
  sandboxes.onWrite = write;
  await sleep(100);
  t.same(uncaught, []);
});

t.test('forms that are cut within a part are refused without an uncaught error', async (t) => {
  const { e2b, headers, uncaught } = await start(t);
  for (const body of [
    part('other', 'f'),
    part('file', '/f'),
    `${part('file', '/f')}\r\n${part('file', '/g')}`,
    `${part('file', '/f')}\r\n${part('file', '/f', 'x'.repeat(300_000))}\r\n--b--\r\n`,
  ]) {
    const { status } = await e2b.ask('POST', '/files', { body, headers: { ...headers, ...FORM } });
    t.equal(status, 400);
  }
  await sleep(100);
  t.same(uncaught, []);
});

t.test('the write in the guest ends when the client leaves its upload', async (t) => {
  const { begin, headers, uncaught, writesOpen } = await start(t);
  const upload = { ...headers, 'content-length': 1_000_000 };
  const packed = gzipSync(randomBytes(100_000)).subarray(0, 50_000);
  for (const [path, extra, bytes] of [
    ['/files', FORM, part('file', '/f', 'x'.repeat(10_000))],
    ['/files?path=/x', OCTETS, 'abc'],
    ['/files?path=/x', { ...OCTETS, ...GZIP }, packed],
  ] as const) {
    const socket = await begin(`POST ${path}`, { ...upload, ...extra }, bytes);
    await until(() => writesOpen() === 1, JSON.stringify(extra));
    socket.destroy();
    await until(() => writesOpen() === 0, JSON.stringify(extra));
  }
  // Before the user is known.
  const early = { ...upload, ...OCTETS, ...GZIP };
  (await begin('POST /files?path=x', early, gzipSync('hello').subarray(0, 12))).destroy();
  await sleep(200);
  t.same(uncaught, []);
});

t.test('reads in the guest end with a HEAD, and with a client that leaves before the answer', async (t) => {
  const { e2b, begin, headers, sandboxes } = await start(t);
  let [reads, cancelled] = [0, 0];
  sandboxes.onRead = async () => {
    reads += 1;
    await sleep(200);
    const cancel = (): void => {
      cancelled += 1;
    };
    const body = { ...outflow('abc', 'def'), cancel };
    return { body, sizeBytes: 6, contentBytes: 6, entry: FILE };
  };
  t.equal((await e2b.ask('HEAD', '/files?path=/x', { headers })).status, 200);
  await until(() => cancelled === 1);
  const socket = await begin('GET /files?path=/x', headers);
  await until(() => reads === 2);
  socket.destroy();
  await until(() => cancelled === 2);
});

t.test('a download whose sandbox goes is cut, and says nothing on stderr', async (t) => {
  const { e2b, headers, sandboxes } = await start(t);
  const printed: unknown[] = [];
  const { error: print } = console;
  console.error = (...all) => void printed.push(...all);
  t.teardown(() => {
    console.error = print;
  });
  sandboxes.onRead = async () => {
    const { next } = outflow('abc');
    let isFirst = true;
    const fail = async () => {
      if (!isFirst) throw new AppError('not_found', 'the sandbox is gone');
      isFirst = false;
      return await next();
    };
    const body = { next: fail, cancel: () => undefined };
    return { body, sizeBytes: 3000, contentBytes: 3000, entry: FILE };
  };
  await t.rejects(e2b.ask('GET', '/files?path=/x', { headers }));
  t.same(printed, []);
});

t.test('work for a client that has left ends, but for creates with an Idempotency-Key', async (t) => {
  const { begin, headers, key, sandboxes } = await start(t);
  const signals: (AbortSignal | undefined)[] = [];
  const wait = async (signal: AbortSignal | undefined): Promise<void> => {
    signals.push(signal);
    await sleep(1000, undefined, { signal });
  };
  sandboxes.onCreate = (_options, signal) => wait(signal);
  const body = JSON.stringify({ templateID: 'base', allow_internet_access: false });
  const create = { 'x-api-key': key, 'content-length': body.length };
  const plain = await begin('POST /v2/sandboxes', create, body);
  await until(() => signals.length === 1);
  plain.destroy();
  await until(() => signals[0]?.aborted === true);
  const keyed = await begin('POST /v2/sandboxes', { ...create, 'idempotency-key': 'k' }, body);
  await until(() => signals.length === 2);
  keyed.destroy();

  const running = {
    ...{ id: 'cmd_0123456789abc', cmd: ['x'], isCmdCut: false, isDetached: true, hasStdin: true, pid: 7 },
    startedUnixMs: 1000,
  };
  sandboxes.commandCalls.list = async () => [running];
  sandboxes.commandCalls.write = async (_id, _read, _close, signal) => {
    await wait(signal);
    return running;
  };
  const input = JSON.stringify({ process: { pid: 7 }, input: { stdin: 'YQ==' } });
  const call = { ...headers, 'content-type': 'application/json', 'content-length': input.length };
  const sender = await begin('POST /process.Process/SendInput', call, input);
  await until(() => signals.length === 3);
  sender.destroy();
  await until(() => signals[2]?.aborted === true);
  await sleep(200);
  t.notOk(signals[1]?.aborted, 'a retry gets the answer');
});

t.test('an upload in work is cut when its key is revoked', async (t) => {
  const { begin, headers, keyring, writesOpen } = await start(t);
  const upload = { ...headers, ...OCTETS, 'content-length': 1_000_000 };
  const socket = await begin('POST /files?path=/x', upload, 'abc');
  await until(() => writesOpen() === 1);
  for (const { id } of keyring.registry.list()) await keyring.registry.revoke(id);
  await until(() => socket.closed && writesOpen() === 0);
});

t.test('a client that waits to be asked for its upload is asked', async (t) => {
  const { begin, headers } = await start(t);
  const upload = { ...headers, ...OCTETS, 'content-length': 3, expect: '100-continue' };
  const socket = await begin('POST /files?path=/x', upload);
  let answer = '';
  socket.on('data', (bytes) => {
    answer += String(bytes);
  });
  await until(() => answer.startsWith('HTTP/1.1 100 Continue\r\n\r\n'), 'the word to go on');
  socket.write('abc');
  await until(() => answer.includes('HTTP/1.1 200 OK'));
});
