// HTTP/2, TLS and gRPC through the ingress.
import { execFile } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectSecurely } from 'node:tls';
import { promisify } from 'node:util';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { LINK_PARAMETER } from '../../host-agent/src/keys/index.ts';
import { until } from '../support/until.ts';
import { makeAuthority } from './certificates.ts';
import { serveGuest, serveIngress, serveRaw } from './ingress-host.ts';

const run = promisify(execFile);

t.test('curl speaks HTTP/2 over TLS and in the clear, WebSockets and HTTP/1.1 work beside it', async (t) => {
  const authority = makeAuthority(t);
  const issued = authority.issue('wildcard', 'DNS:*.boxes.test');
  const served = await serveIngress(t, { issued, domain: 'boxes.test' });
  const guest = createServer(async (request, response) => {
    if (request.method === 'POST')
      response.end(`${(await text(request)).length} ${request.headers['content-length']}`);
    else response.end(JSON.stringify({ version: request.httpVersion, headers: request.headers }));
  });
  new WebSocketServer({ server: guest }).on('connection', (socket) => socket.send('hello'));
  const sandbox = served.add(await serveGuest(t, guest));
  const key = await served.keyring.make();
  const name = `3000-${sandbox.id.replace('_', '-')}.boxes.test`;
  const url = `https://${name}:${served.port}/`;
  const resolve = ['--resolve', `${name}:${served.port}:127.0.0.1`, '--cacert', authority.caPath];
  const curl = async (...words: string[]) =>
    (
      await run('curl', [
        '-sS',
        ...resolve,
        '-H',
        `Authorization: Bearer ${key}`,
        '-w',
        ' %{http_version} %{http_code}',
        ...words,
      ])
    ).stdout;
  const plain = await curl('--http2', url);
  t.match(plain, / 2 200$/);
  const seen = JSON.parse(plain.slice(0, plain.lastIndexOf('}') + 1));
  t.equal(seen.version, '1.1');
  t.equal(seen.headers.host, `${name}:${served.port}`);
  t.equal(seen.headers['x-forwarded-proto'], 'https');
  const file = join(authority.dir, 'body');
  writeFileSync(file, 'x'.repeat(3_000_000));
  t.equal(await curl('--http2', '-d', `@${file}`, url), '3000000 3000000 2 200');
  t.match(await curl('--http1.1', url), / 1.1 200$/);
  t.match(
    await curl('--http2', '-H', 'X-Sandbox-Id: x', `https://${name}:${served.port}/a%20b?c`),
    / 2 200$/,
  );

  const { token } = await served.links.create({
    sandbox: sandbox.id,
    port: 3000,
    maker: undefined,
    expiresS: 60,
  });
  const visit = await run('curl', [
    '-sSi',
    ...resolve,
    '-H',
    'Accept: text/html',
    `${url}?${LINK_PARAMETER}=${token}`,
  ]);
  t.match(visit.stdout, /^HTTP\/2 303/);
  t.match(
    visit.stdout,
    /set-cookie: __Host-sandbox-link=sbl_\S+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=\d+; Secure/,
  );

  const socket = new WebSocket(`wss://127.0.0.1:${served.port}/`, {
    headers: { host: name, 'x-access-token': key },
    rejectUnauthorized: false,
  });
  t.equal(
    String(await new Promise((resolve, reject) => socket.on('message', resolve).on('error', reject))),
    'hello',
  );
  socket.close();

  const renewed = authority.issue('renewed', 'DNS:*.boxes.test,DNS:renewed.test');
  copyFileSync(renewed.keyPath, issued.keyPath);
  copyFileSync(renewed.certPath, issued.certPath);
  const names = () =>
    new Promise<string>((resolve) => {
      const tls = connectSecurely(
        { port: served.port, host: '127.0.0.1', rejectUnauthorized: false, servername: name },
        () => {
          resolve(tls.getPeerCertificate().subjectaltname ?? '');
          tls.destroy();
        },
      );
    });
  while (!(await names()).includes('renewed.test')) await sleep(50);

  const clear = await serveIngress(t);
  const open = clear.add(sandbox.ports.get(3000)!.to, 'public');
  const words = ['-sS', '-w', ' %{http_version} %{http_code}', '-H', `Host: ${clear.hostOf(open)}`];
  const known = await run('curl', [...words, '--http2-prior-knowledge', `http://127.0.0.1:${clear.port}/`]);
  t.match(known.stdout, / 2 200$/);
  const upgraded = await run('curl', [...words, '--http2', `http://127.0.0.1:${clear.port}/`]);
  t.match(upgraded.stdout, / 1.1 200$/);
});

t.test('gRPC: streams both ways, trailers, an error without a body, a server of HTTP/1.1', async (t) => {
  const served = await serveIngress(t);
  const guest = createHttp2Server();
  guest.on('stream', (stream: ServerHttp2Stream, headers) => {
    if (headers[':path'] === '/fails') {
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5' },
        { endStream: true },
      );
      return;
    }
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'x-te': String(headers.te) }));
    stream.pipe(stream);
  });
  const port = await serveRaw(t, (socket) => void guest.emit('connection', socket));
  const sandbox = served.add(port, 'public');
  const client = connect(`http://127.0.0.1:${served.port}`);
  t.teardown(() => client.destroy());
  const call = (path: string, to = sandbox) =>
    client.request({
      ':method': 'POST',
      ':path': path,
      ':authority': served.hostOf(to),
      'content-type': 'application/grpc+proto',
      te: 'trailers',
    });
  const echo = call('/echo');
  let received = '';
  let trailers: Record<string, unknown> = {};
  echo.setEncoding('utf8').on('data', (chunk: string) => {
    received += chunk;
  });
  echo.on('trailers', (given) => {
    trailers = given;
  });
  for (let at = 0; at < 20; at++) {
    echo.write(`message ${at};`);
    await until(() => received.endsWith(`message ${at};`), 'the echo, while the request is open');
  }
  echo.end();
  await new Promise((resolve) => echo.on('end', resolve));
  t.match(trailers, { 'grpc-status': '0', 'x-te': 'trailers' });

  const failing = call('/fails');
  failing.end();
  const [headers, flags] = await new Promise<[Record<string, unknown>, number]>((resolve) =>
    failing.on('response', (given, flags) => resolve([given, flags])),
  );
  t.match(headers, { ':status': 200, 'grpc-status': '5' });
  t.equal(flags & 1, 1, 'it ends with its head');
  failing.resume();
  await Promise.all(
    Array.from({ length: 50 }, async (_, at) => {
      const stream = call('/echo');
      stream.end(`${at}`);
      t.equal(await text(stream), `${at}`);
    }),
  );
  t.equal(sandbox.connects, 1);

  const old = served.add(await serveGuest(t, (_request, response) => void response.end('ok')), 'public');
  const refused = call('/echo', old);
  refused.end();
  const status = await new Promise((resolve) => refused.on('response', (given) => resolve(given[':status'])));
  t.equal(status, 502);
  const ordinary = client.request({ ':path': '/', ':authority': served.hostOf(old) });
  t.equal(await text(ordinary), 'ok');
  for (const [what, more] of Object.entries({
    'two hosts': { host: 'other' },
    'no host': { ':authority': 'nothing.example' },
  })) {
    const stream = client.request({ ':path': '/', ':authority': served.hostOf(old), ...more });
    const answer = await new Promise<unknown>((resolve) => {
      stream.on('response', (given) => resolve(given[':status']));
      stream.on('error', resolve);
    });
    t.ok(answer === 400 || answer === 404 || answer instanceof Error, `${what}: ${answer}`);
  }
});
