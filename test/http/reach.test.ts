// Ways to the daemon beside TCP on loopback: a socket in the file system, and pages that the operator lets in. And what is open
// with a key when that is revoked.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { HttpServer } from '../../host-agent/src/http/index.ts';
import { until } from '../support/until.ts';
import { BODY, head, serveCat, stdin } from './cat.ts';
import { openKeyring } from './keyed.ts';
import { makeApp, RawClient, serve, UNGUARDED } from './support.ts';

async function listenAt(t: Test, path: string, more: { mode?: number; owner?: string } = {}) {
  const { app, log } = makeApp();
  const server = new HttpServer({ ...UNGUARDED, app, log });
  t.teardown(() => server.close());
  await server.listen({ path, ...more });
  return server;
}

const temporary = (t: Test): string => {
  const dir = mkdtempSync(join(tmpdir(), 'socket-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  return dir;
};

/** Status of GET /sandboxes over a socket. */
function ask(path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request({ socketPath: path, path: '/sandboxes', headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

t.test('a socket in the file system, with its mode', async (t) => {
  const path = join(temporary(t), 'api.sock');
  await listenAt(t, path, { mode: 0o660 });
  t.equal(statSync(path).mode & 0o777, 0o660);
  t.equal(await ask(path, 'localhost'), 200);
  t.equal(await ask(path, 'localhost:80'), 200);
  t.equal(await ask(path, 'evil.example'), 403, 'what a proxy in front of it was called by');
});

t.test('the socket belongs to its owner by default, or to another by name or number', async (t) => {
  const dir = temporary(t);
  await listenAt(t, join(dir, 'a'));
  t.equal(statSync(join(dir, 'a')).mode & 0o777, 0o600);
  if (process.getuid?.() !== 0) return;
  await listenAt(t, join(dir, 'b'), { owner: 'daemon', mode: 0o600 });
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'daemon'])));
  t.match(statSync(join(dir, 'b')), { uid, gid });
  await listenAt(t, join(dir, 'c'), { owner: '12345:daemon' });
  t.match(statSync(join(dir, 'c')), { uid: 12_345, gid });
  await t.rejects(listenAt(t, join(dir, 'd'), { owner: 'nobody-of-that-name' }), {
    code: 'conflict',
    message: /has no user/,
  });
});

t.test('the socket that a killed daemon left is taken, anything else is not', async (t) => {
  const dir = temporary(t);
  const path = join(dir, 'api.sock');
  const program = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 9))`;
  t.throws(() => execFileSync(process.execPath, ['-e', program]), /Command failed/);
  t.ok(statSync(path).isSocket(), 'it is still there');
  await listenAt(t, path);
  t.equal(await ask(path, 'localhost'), 200);
  await t.rejects(listenAt(t, path), { code: 'conflict', message: /another process listens there/ });
  writeFileSync(join(dir, 'file'), 'x');
  await t.rejects(listenAt(t, join(dir, 'file')), { code: 'conflict', message: /there is something else/ });
  await t.rejects(listenAt(t, join(dir, 'no/where')), {
    code: 'conflict',
    message: /directory does not exist/,
  });
});

t.test('pages of an origin that was let in, and of no other', async (t) => {
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const { url, port } = await serve(t, {
    corsOrigins: ['https://app.example'],
    authenticator: keyring.authenticator,
  });
  const from = (origin: string, init: RequestInit = {}, path = '/sandboxes') =>
    fetch(`${url}${path}`, { ...init, headers: { origin, ...init.headers } });
  const asked = {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  };
  const preflight = await from('https://app.example', { method: 'OPTIONS', headers: asked });
  t.equal(preflight.status, 204, 'it has no key');
  t.match(Object.fromEntries(preflight.headers), {
    'access-control-allow-origin': 'https://app.example',
    'access-control-allow-methods': /POST/,
    'access-control-allow-headers': /Authorization/,
    vary: 'Origin',
  });
  const listed = await from('https://app.example', { headers: { authorization: `Bearer ${key}` } });
  t.same([listed.status, listed.headers.get('access-control-allow-origin')], [200, 'https://app.example']);
  t.match(listed.headers.get('access-control-expose-headers'), /X-Request-Id.*X-File-Size/);
  const refused = await from('https://app.example');
  t.same(
    [refused.status, refused.headers.get('access-control-allow-origin')],
    [401, 'https://app.example'],
    'a page can read why',
  );
  for (const origin of ['https://evil.example', 'http://app.example', 'https://app.example:444', 'null']) {
    const foreign = await from(origin, { method: 'OPTIONS', headers: asked });
    t.same([foreign.status, foreign.headers.get('access-control-allow-origin')], [403, null], origin);
    t.equal((await from(origin, { headers: { authorization: `Bearer ${key}` } })).status, 403, origin);
  }
  t.equal((await fetch(`${url}/healthz`)).headers.get('access-control-allow-origin'), null);
  const plain = new RawClient(t, port);
  plain.write('OPTIONS /sandboxes HTTP/1.1\r\nHost: x\r\nOrigin: https://app.example\r\n\r\n');
  await until(() => plain.text.includes('\r\n\r\n'), 'an answer');
  t.match(plain.text, /^HTTP\/1.1 401/, 'a question that no browser asks beforehand is a request');
});

t.test('a page of another site cannot load an answer as its script', async (t) => {
  const { url } = await serve(t);
  const own = await fetch(`${url}/healthz`);
  t.equal(own.headers.get('cross-origin-resource-policy'), 'same-origin');
  t.equal(own.headers.get('x-content-type-options'), 'nosniff');
});

t.test('without allowed origins there are no CORS headers', async (t) => {
  const { url } = await serve(t);
  const { headers } = await fetch(`${url}/healthz`);
  t.same(
    [...headers.keys()].filter((name) => name.startsWith('access-control')),
    [],
  );
});

t.test('revoking a key ends its open requests, and no others', async (t) => {
  const keyring = await openKeyring(t);
  const { port, id, sandboxes } = await serveCat(t, { authenticator: keyring.authenticator });
  const [bad, good] = [await keyring.make({ name: 'bad' }), await keyring.make({ name: 'good' })];
  const open = async (key: string, raw: boolean) => {
    const client = new RawClient(t, port);
    const more = `Content-Length: ${BODY.length}\r\nAuthorization: Bearer ${key}\r\n`;
    client.write((raw ? head(id, more) : head(id, more).replace('?stdin=1', '')) + BODY);
    await until(() => client.text.includes('200 OK'), 'the reply');
    return client;
  };
  const [first, second, third] = [await open(bad, true), await open(bad, false), await open(good, true)];
  await keyring.registry.revoke('bad');
  await Promise.all([first?.ended(), second?.ended()]);
  await until(
    () => sandboxes.execs.filter(({ isCancelled }) => isCancelled).length === 2,
    'the end of their commands',
  );
  third?.write(stdin('still here'));
  await until(() => third?.text.includes('still here') === true, 'an echo');
  t.notOk(third?.isEnded);
});

t.test('a create in progress is aborted when its key is revoked', async (t) => {
  const keyring = await openKeyring(t);
  const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator });
  const key = await keyring.make({ name: 'bad' });
  const creating = Promise.withResolvers<AbortSignal>();
  sandboxes.onCreate = (_, signal) =>
    new Promise((_resolve, reject) => {
      if (signal === undefined) return reject(new Error('there is no signal'));
      creating.resolve(signal);
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  const client = new RawClient(t, port);
  client.write(
    `POST /sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Length: 0\r\n\r\n`,
  );
  const signal = await creating.promise;
  t.notOk(signal.aborted);
  await keyring.registry.revoke('bad');
  await client.ended();
  await until(() => signal.aborted, 'its end');
  t.same(sandboxes.list(), []);
});
