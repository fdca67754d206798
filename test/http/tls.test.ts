// The interface over TLS, as curl, openssl, Node's fetch and WebSockets speak it; certificates that change meanwhile.
import { execFile } from 'node:child_process';
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Agent, fetch } from 'undici';
import { WebSocket } from 'ws';
import { Certificate, type HttpServer } from '../../host-agent/src/http/index.ts';
import { until } from '../support/until.ts';
import { BODY, head, serveCat, stdin, stdinClose } from './cat.ts';
import { type Authority, type Issued, makeAuthority } from './certificates.ts';
import { openKeyring } from './keyed.ts';
import { decodeFrames, RawClient, summarize } from './support.ts';

const quiet = pino({ level: 'silent' });

async function start(t: Test, changes: { asksClients?: boolean; lookMs?: number } = {}) {
  const authority = makeAuthority(t);
  const issued = authority.issue('first');
  const certificate = new Certificate(
    { ...issued, ...(changes.asksClients && { clientCaPath: authority.caPath }) },
    quiet,
    changes.lookMs ?? 3_600_000,
  );
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const served = await serveCat(t, { certificate, authenticator: keyring.authenticator });
  return { ...served, authority, issued, certificate, key, ca: readFileSync(authority.caPath) };
}

/** Output and exit code of a program. */
function run(program: string, words: readonly string[], input = ''): Promise<{ code: number; text: string }> {
  return new Promise((resolve) => {
    const child = execFile(program, words, { encoding: 'latin1' }, (error, stdout, stderr) => {
      const code = error === null ? 0 : Number(error.code);
      resolve({ code, text: stdout + (code === 0 ? '' : stderr) });
    });
    child.stdin?.end(input);
  });
}

async function open(port: number, options: object): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port, servername: 'localhost', ...options });
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  return socket;
}

const names = (socket: TLSSocket): unknown => socket.getPeerCertificate().subject.CN;

t.test('curl: requests, errors, uploads that ask first, frames', async (t) => {
  const { url, id, key, authority, sandboxes } = await start(t);
  const curl = (...words: string[]) =>
    run('curl', ['-sS', '--cacert', authority.caPath, '-H', `Authorization: Bearer ${key}`, ...words]);
  t.match(await curl(`${url}/sandboxes`), { code: 0, text: id });
  t.match(await curl('-w', ' %{http_code}', `${url}/nowhere`), { text: / 404$/ });
  t.match(await curl('-I', `${url}/sandboxes`), { text: /^HTTP\/1.1 200/ });
  t.match(
    await run('curl', ['-sS', '-w', ' %{http_code}', '--cacert', authority.caPath, `${url}/sandboxes`]),
    { text: / 401$/ },
  );
  t.match(await run('curl', ['-sS', `${url}/healthz`]), { code: 60 }, 'who does not trust it leaves');
  const pushed: number[] = [];
  sandboxes.onPush = async (_path, read) => {
    let bytes = 0;
    for (let chunk = await read(); chunk !== undefined; chunk = await read()) bytes += chunk.length;
    pushed.push(bytes);
    return { files: 1, bytes };
  };
  writeFileSync(`${authority.dir}/large`, Buffer.alloc(3_000_000, 7));
  const upload = ['-T', `${authority.dir}/large`, '-X', 'POST', `${url}/sandboxes/${id}/files?path=/tmp`];
  t.match(await curl('-H', 'Expect: 100-continue', '-v', ...upload), { code: 0, text: /"bytes":3000000/ });
  t.same(pushed, [3_000_000]);
  const refused = await run('curl', [
    '-sS',
    '-v',
    '--cacert',
    authority.caPath,
    '-H',
    'Expect: 100-continue',
    '-w',
    ' %{http_code}',
    ...upload,
  ]);
  t.match(refused.text, / 401$/);
  t.equal(pushed.length, 1, 'and its body was not asked for');
  sandboxes.script = (exec) => {
    exec.output('stdout', 'out');
    exec.exit({ exitCode: 7 });
  };
  const exec = await curl('-d', '{"cmd":["x"]}', `${url}/sandboxes/${id}/exec`);
  t.match(summarize(decodeFrames(Buffer.from(exec.text, 'latin1'))), {
    stdout: 'out',
    result: { exit_code: 7 },
  });
});

t.test('openssl: TLS 1.2 and 1.3 with forward secrecy, and nothing older', async (t) => {
  const { port, authority } = await start(t);
  const client = (...words: string[]) =>
    run('openssl', [
      's_client',
      '-connect',
      `127.0.0.1:${port}`,
      '-CAfile',
      authority.caPath,
      '-verify_return_error',
      '-servername',
      'localhost',
      ...words,
    ]);
  t.match(await client('-tls1_3'), { code: 0, text: /TLSv1\.3, Cipher is TLS_.*Verify return code: 0/s });
  t.match(await client('-tls1_2'), {
    code: 0,
    text: /TLSv1\.2, Cipher is ECDHE-ECDSA-.*(?:GCM|POLY1305).*Verify return code: 0/s,
  });
  const old = ['-cipher', 'ALL:@SECLEVEL=0'];
  t.not((await client('-tls1_1', ...old)).code, 0);
  t.not((await client('-tls1', ...old)).code, 0);
  t.not((await client('-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-SHA256')).code, 0, 'no block ciphers');
  t.match(await client('-alpn', 'h2,http/1.1'), { text: /ALPN protocol: http\/1.1/ });
});

t.test('fetch, and connections that are kept', async (t) => {
  const { url, key, ca, server } = await start(t);
  const agent = new Agent({ connect: { ca }, connections: 1 });
  t.teardown(() => agent.close());
  for (let n = 0; n < 3; n++) {
    const response = await fetch(`${url}/whoami`, {
      dispatcher: agent,
      headers: { authorization: `Bearer ${key}` },
    });
    t.match([response.status, await response.json()], [200, { scoped: false }]);
  }
  t.equal(server.connectionCount, 1);
});

t.test('a WebSocket talks to a command', async (t) => {
  const { url, id, key, ca } = await start(t);
  const socket = new WebSocket(`${url.replace('https', 'wss')}/sandboxes/${id}/exec`, [`bearer.${key}`], {
    ca,
  });
  const decoder = new ExecFrameDecoder();
  const seen: [number, string][] = [];
  socket.on('message', (data: Buffer) => {
    for (const { type, payload } of decoder.push(data)) seen.push([type, payload.toString()]);
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send(BODY);
  socket.send(stdin('hello'));
  await until(() => seen.some(([type]) => type === EXEC_FRAME.stdout), 'an echo');
  socket.send(stdinClose);
  const code = await new Promise((resolve) => socket.once('close', resolve));
  t.equal(code, 1000);
  t.same(seen[0], [EXEC_FRAME.stdout, 'hello']);
  t.match(seen.at(-1)?.[1], /"exit_code":4/);
});

t.test(
  'a connection that is taken over: frames in the packet of the request, half-closed ends',
  async (t) => {
    const { port, id, key, ca, sandboxes } = await start(t);
    const authorization = `Content-Length: ${BODY.length}\r\nAuthorization: Bearer ${key}\r\n`;
    const client = new RawClient(t, port, await open(port, { ca }));
    client.write(Buffer.concat([Buffer.from(head(id, authorization) + BODY), stdin('hello'), stdinClose]));
    await client.ended();
    const [reply = '', ...rest] = client.text.split('\r\n\r\n');
    t.equal(reply, 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream');
    const frames = decodeFrames(Buffer.from(rest.join('\r\n\r\n'), 'latin1'));
    t.match(summarize(frames), { stdout: 'hello', result: { exit_code: 4 } });
    const leaving = new RawClient(t, port, await open(port, { ca, allowHalfOpen: true }));
    leaving.write(head(id, authorization) + BODY);
    await until(() => leaving.text.includes('200 OK'), 'the reply');
    leaving.socket.end();
    await until(() => sandboxes.execs.at(-1)?.isCancelled === true, 'the end of its command');
    const stranger = new RawClient(t, port, await open(port, { ca }));
    stranger.write(head(id));
    await stranger.ended();
    t.match(stranger.text, /^HTTP\/1.1 401 /, 'without a key not even the body is read');
  },
);

t.test('a client that ended its side gets its answer', async (t) => {
  const { port, key, ca } = await start(t);
  const client = new RawClient(t, port, await open(port, { ca, allowHalfOpen: true }));
  client.socket.end(`GET /whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await client.ended();
  t.match(client.text, /^HTTP\/1.1 200 /);
});

/** Puts other files in the places of the ones in use, one after the other. */
function replace({ dir }: Authority, { certPath, keyPath }: Issued, next: Issued): void {
  for (const [from, to] of [
    [next.keyPath, keyPath],
    [next.certPath, certPath],
  ] as const) {
    copyFileSync(from, `${dir}/next`);
    renameSync(`${dir}/next`, to);
  }
}

t.test('a certificate is replaced under open streams', async (t) => {
  const { port, id, key, ca, authority, issued, certificate } = await start(t);
  const request = head(id, `Content-Length: ${BODY.length}\r\nAuthorization: Bearer ${key}\r\n`) + BODY;
  const socket = await open(port, { ca });
  t.equal(names(socket), 'first');
  const client = new RawClient(t, port, socket);
  client.write(Buffer.concat([Buffer.from(request), stdin('before ')]));
  await until(() => client.text.includes('before '), 'an echo');
  replace(authority, issued, authority.issue('second'));
  certificate.reload();
  const next = await open(port, { ca });
  t.equal(names(next), 'second');
  next.destroy();
  client.write(Buffer.concat([stdin('after'), stdinClose]));
  await client.ended();
  t.match(client.text, /after.*"exit_code":4/s, 'the stream does not notice');
});

t.test('files that change are seen by themselves; half a change changes nothing', async (t) => {
  const { port, ca, authority, issued, certificate } = await start(t, { lookMs: 20 });
  const current = async () => {
    const socket = await open(port, { ca });
    const name = names(socket);
    socket.destroy();
    return name;
  };
  const second = authority.issue('second');
  renameSync(second.certPath, issued.certPath);
  const before = certificate.options;
  certificate.reload();
  t.equal(certificate.options, before, 'a certificate without its key is not used');
  t.equal(await current(), 'first');
  renameSync(second.keyPath, issued.keyPath);
  await until(() => certificate.options !== before, 'the new one');
  t.equal(await current(), 'second');
  writeFileSync(issued.certPath, 'nonsense');
  certificate.reload();
  t.equal(await current(), 'second');
});

t.test('clients without a certificate stay outside, where one is asked for', async (t) => {
  const { port, url, key, authority, ca } = await start(t, { asksClients: true });
  const curl = ['-sS', '--cacert', authority.caPath, '-H', `Authorization: Bearer ${key}`, `${url}/whoami`];
  t.not((await run('curl', curl)).code, 0);
  const { certPath, keyPath } = authority.issue('client');
  t.match(await run('curl', ['--cert', certPath, '--key', keyPath, ...curl]), {
    code: 0,
    text: /^\{"scoped":false,"key":\{"name":"[\w-]+"\},"usage":\[\]\}$/,
  });
  const stranger = makeAuthority(t).issue('stranger');
  t.not((await run('curl', ['--cert', stranger.certPath, '--key', stranger.keyPath, ...curl])).code, 0);
  const withKey = await open(port, { ca, cert: readFileSync(certPath), key: readFileSync(keyPath) });
  t.ok(withKey.authorized);
  withKey.destroy();
});

t.test('a client that speaks no TLS, or stops within the handshake, does not block others', async (t) => {
  const authority = makeAuthority(t);
  const certificate = new Certificate(authority.issue('first'), quiet, 3_600_000);
  const { port, url, server }: { port: number; url: string; server: HttpServer } = await serveCat(t, {
    certificate,
    maxConnections: 16,
  });
  const plain = new RawClient(t, port);
  plain.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await plain.ended();
  t.notMatch(plain.text, /HTTP/);
  const silent: Socket[] = Array.from({ length: 12 }, () => connectPlain({ host: '127.0.0.1', port }));
  t.teardown(() => {
    for (const socket of silent) socket.destroy();
  });
  let closed = 0;
  for (const socket of silent) {
    socket.on('close', () => closed++);
    socket.on('error', () => undefined);
    socket.resume();
  }
  await until(() => closed >= 8, 'the end of those beyond a quarter of the connections');
  t.match(await run('curl', ['-sS', '--cacert', authority.caPath, `${url}/healthz`]), { code: 0 });
  t.ok(server.connectionCount <= 1);
});

t.test('an unusable certificate or key is reported at the start', async (t) => {
  const authority = makeAuthority(t);
  const [a, b] = [authority.issue('a'), authority.issue('b')];
  const make = (files: Issued) => () => new Certificate(files, quiet);
  t.throws(make({ ...a, certPath: '/nonexistent' }), { code: 'internal', message: /cannot be used: ENOENT/ });
  t.throws(make({ ...a, keyPath: b.keyPath }), { code: 'internal', message: /key values mismatch/ });
  t.end();
});
