// The library over TLS with a private authority and keys, against the daemon's real server.
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import {
  ApiError,
  CertificateError,
  Client,
  ConnectionError,
  ForbiddenError,
  SandboxdError,
  UnauthorizedError,
} from '@sandboxd/client';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { makeAuthority } from '../certificates.ts';
import { outflow } from '../fake-sandboxes.ts';
import { READ_ONLY } from '../keyed.ts';
import { serveSecurely } from '../secure.ts';
import { serve, UNKNOWN_ID } from '../support.ts';

async function connect(t: Test) {
  const served = await serveSecurely(t);
  const ca = readFileSync(served.authority.caPath, 'utf8');
  const { url: host, key: apiKey } = served;
  return { ...served, ca, options: { host, apiKey, ca, retries: 0 } };
}

const reasonOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'nothing was wrong',
    (reason: unknown) => reason,
  );

t.test('requests, commands both ways, files', async (t) => {
  const { options, sandboxes, id } = await connect(t);
  const client = new Client(options);
  await client.health();
  t.match(await client.whoami(), { scoped: false });
  await using made = await client.sandboxes.create({ vcpus: 2 });
  t.match(await made.info(), { id: made.id });
  const sandbox = client.sandboxes.get(id);
  const big = 'x'.repeat(300_000);
  t.match(await sandbox.exec(['cat'], { stdin: big }).output(), { stdout: big, result: { exit_code: 4 } });
  await using terminal = sandbox.terminal({ size: { cols: 99, rows: 9 } });
  await terminal.resize({ cols: 90, rows: 20 });
  await until(() => sandboxes.execs.at(-1)?.calls.includes('resize 90x20') === true, 'the new size');
  await terminal.closeStdin();
  t.match(await terminal.result(), { exit_code: 4 });
  sandboxes.script = (exec) => {
    exec.output('stdout', 'one-way');
    exec.exit();
  };
  t.equal(await sandbox.exec(['x']).text(), 'one-way');
  let pushed = 0;
  sandboxes.onPush = async (_, read) => {
    for (let part = await read(); part !== undefined; part = await read()) pushed += part.length;
    return { files: 1, bytes: pushed };
  };
  await sandbox.files.write('/srv/a', big);
  t.ok(pushed > big.length);
  sandboxes.onPull = async () => ({ sizeBytes: 3, contentBytes: 3, body: outflow('abc') });
  t.equal(await sandbox.files.readText('/srv/a'), 'abc');
});

t.test('a command that is left ends, over TLS as well', async (t) => {
  const { options, sandboxes, id } = await connect(t);
  const exec = new Client(options).sandboxes.get(id).exec(['cat'], { stdin: true });
  await exec.write('x');
  for await (const _ of exec) break;
  await until(() => sandboxes.execs[0]?.isCancelled === true, 'its end');
});

t.test('an untrusted daemon and an unreachable one give different errors', async (t) => {
  const { options, url, sandboxes } = await connect(t);
  const stranger = readFileSync(makeAuthority(t).caPath, 'utf8');
  const without = { host: url, apiKey: options.apiKey };
  for (const each of [without, { ...without, ca: stranger }]) {
    const client = new Client(each);
    for (const work of [() => client.health(), () => client.sandboxes.get(UNKNOWN_ID).terminal().result()]) {
      const error = await reasonOf(work());
      t.ok(error instanceof CertificateError && error instanceof ConnectionError);
      t.match(error, {
        message: /^cannot trust the daemon at https:\/\/127[^;]*certificate[^;]*$/,
      });
    }
  }
  t.match(await reasonOf(new Client({ ...options, ca: 'nonsense' }).health()), { name: 'CertificateError' });
  const plain = await serve(t);
  t.match(await reasonOf(new Client({ ...options, host: plain.url.replace('http', 'https') }).health()), {
    name: 'ConnectionError',
    message: /^cannot speak TLS with the daemon at https.*is it http:\/\/\?$/,
  });
  t.match(await reasonOf(new Client({ ...options, host: url.replace('https', 'http') }).health()), {
    name: 'ConnectionError',
    message: /^lost the daemon at http:/,
  });
  t.same(sandboxes.execs, []);
});

t.test('a key that is missing, wrong, expired, revoked or too narrow is an error of its own', async (t) => {
  const { options, keyring, id } = await connect(t);
  const expired = await keyring.make({ expiresAtMs: Date.now() - 1000 });
  const revoked = await keyring.make({ name: 'gone' });
  await keyring.registry.revoke('gone');
  const cases: [string, RegExp][] = [
    ['', /no key came/],
    ['sbk_wrong', /no such key/],
    [expired, /expired/],
    [revoked, /revoked/],
  ];
  for (const [apiKey, message] of cases) {
    const client = new Client({ ...options, apiKey });
    const sandbox = client.sandboxes.get(id);
    const calls = [
      () => client.sandboxes.list(),
      () => sandbox.exec(['x']).text(),
      () => sandbox.terminal().result(),
    ];
    for (const work of calls) {
      const error = await reasonOf(work());
      t.ok(error instanceof UnauthorizedError, String(error));
      t.match(error, { status: 401, requestId: /^req_/, message });
    }
  }
  const narrow = new Client({ ...options, apiKey: await keyring.make({ policy: READ_ONLY }) });
  t.equal((await narrow.sandboxes.list()).length, 1);
  for (const work of [() => narrow.sandboxes.create(), () => narrow.sandboxes.get(id).terminal().result()]) {
    const error = await reasonOf(work());
    t.ok(error instanceof ForbiddenError && error instanceof ApiError, String(error));
  }
  t.match(await narrow.whoami(), { scoped: true, policy: { operations: ['read'] } });
});

t.test('a malformed host is refused before anything is sent', (t) => {
  for (const host of ['localhost:7878', 'example.org', '', 'ftp://a', 'http://'])
    t.throws(() => new Client({ host }), SandboxdError, host);
  t.end();
});

t.test('a daemon beneath a path of a proxy', async (t) => {
  const { url, sandboxes } = await serve(t);
  const proxy = createServer((incoming, outgoing) => {
    const { method, url: path = '' } = incoming;
    const headers = { ...incoming.headers, host: new URL(url).host };
    if (!path.startsWith('/box/')) return void outgoing.writeHead(418).end();
    incoming.pipe(
      request(`${url}${path.slice(4)}`, { method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(outgoing);
      }),
    );
  });
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
  t.teardown(() => proxy.close());
  const { port } = proxy.address() as { port: number };
  const client = new Client({ host: `http://127.0.0.1:${port}/box/` });
  const { id } = sandboxes.add();
  t.match(await client.sandboxes.get(id).info(), { id });
});
