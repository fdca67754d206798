// The command where the daemon wants TLS of a private authority, and a key.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { COMMAND, runCommand } from '../../support/command.ts';
import { openPty } from '../../support/pty.ts';
import { makeAuthority } from '../certificates.ts';
import { READ_ONLY } from '../keyed.ts';
import { serveSecurely } from '../secure.ts';

t.setTimeout(120_000);

async function connect(t: Test) {
  const served = await serveSecurely(t);
  // Nothing of whoever runs the tests.
  const clean = { XDG_CONFIG_HOME: t.testdir({}), SANDBOXD_HOST: '', SANDBOXD_API_KEY: '', SANDBOXD_CA: '' };
  const given = { ...clean, SANDBOXD_HOST: served.url, SANDBOXD_API_KEY: served.key };
  const run = (words: readonly string[], env: Record<string, string> = {}, input?: string) =>
    runCommand(words, { ...given, ...env }, input);
  return { ...served, clean, given, run, ca: served.authority.caPath };
}

t.test('by variables, by flags before and behind the verb, in a terminal', async (t) => {
  const { run, ca, id, url, given, clean, key } = await connect(t);
  t.same(await run(['ps', '-q'], { SANDBOXD_CA: ca }), { code: 0, stdout: `${id}\n`, stderr: '' });
  t.match(await run(['ps', '-q', '--ca', ca]), { code: 0, stdout: `${id}\n` });
  t.match(await run(['--ca', ca, 'ps', '-q']), { code: 0, stdout: `${id}\n` });
  t.match(await runCommand([`--host=${url}`, '--ca', ca, 'ps', '-q'], { ...clean, SANDBOXD_API_KEY: key }), {
    code: 0,
    stdout: `${id}\n`,
  });
  t.match(await run(['--ca', ca, 'exec', '-i', id, 'cat'], {}, 'through TLS'), {
    code: 4,
    stdout: 'through TLS',
  });
  const pty = await openPty(t, [...COMMAND, 'exec', '-it', id, 'cat'], { ...given, SANDBOXD_CA: ca });
  pty.type('typed');
  await pty.shows('typed');
});

t.test('by a context, from another directory', async (t) => {
  const { clean, ca, url, key, id } = await connect(t);
  const run = (words: readonly string[], input?: string) => runCommand(words, clean, input);
  t.same(await run(['context', 'set', 'lab', '--host', url, '--ca', ca, '--key', '-'], `${key}\n`), {
    code: 0,
    stdout: '',
    stderr: '',
  });
  t.match(await run(['ps', '-q']), { code: 0, stdout: `${id}\n` });
  t.match(await run(['keys']), { code: 0, stdout: 'everything is allowed\n' });
  const other = await runCommand(['ps', '-q'], { ...clean, SANDBOXD_HOST: url });
  t.match(other, { code: 1, stderr: /cannot trust/ }, 'a host that is given has nothing of it');
  for (const [host, file] of [
    ['localhost:1', ca],
    [url, '/nonexistent'],
    [url, '/etc/hostname'],
  ] as const)
    t.match(await run(['context', 'set', 'bad', '--host', host, '--ca', file]), {
      code: 1,
      stderr: /^sandbox: (?:host must be|\/\S+ has no certificates).*\n$/,
    });
  t.notMatch((await run(['context'])).stdout, 'bad');
});

t.test('an error is one line, with what to do', async (t) => {
  const { run, ca, keyring, id } = await connect(t);
  const stranger = makeAuthority(t).caPath;
  const oneLine = (pattern: RegExp) => new RegExp(`^sandbox: ${pattern.source}[^\n]*\n$`);
  t.match(await run(['ps']), {
    code: 1,
    stdout: '',
    stderr: oneLine(/cannot trust the daemon at https.*certificate.*--ca/),
  });
  t.match(await run(['exec', id, 'x'], { SANDBOXD_CA: stranger }), {
    code: 1,
    stderr: oneLine(/cannot trust the daemon/),
  });
  const secure = { SANDBOXD_CA: ca };
  const cases: [string, RegExp][] = [
    ['', /no key came.*SANDBOXD_API_KEY/],
    ['sbk_wrong', /this daemon has no such key.*SANDBOXD_API_KEY/],
    [await keyring.make({ expiresAtMs: Date.now() - 1000 }), /.*expired.*SANDBOXD_API_KEY/],
  ];
  for (const [key, pattern] of cases)
    for (const words of [['ps'], ['exec', '-i', id, 'cat'], ['run', 'base', 'x']])
      t.match(await run(words, { ...secure, SANDBOXD_API_KEY: key }), { code: 1, stderr: oneLine(pattern) });
  const narrow = { ...secure, SANDBOXD_API_KEY: await keyring.make({ policy: READ_ONLY }) };
  t.match(await run(['ps', '-q'], narrow), { code: 0, stdout: `${id}\n` });
  t.match(await run(['exec', id, 'x'], narrow), { code: 1, stderr: oneLine(/.*exec/) });
  t.match((await run(['keys'], narrow)).stdout, /^key {14}key-\d+\noperations {7}read\n$/);
  t.match(await run(['keys', '--json'], narrow), {
    stdout:
      /^\{"scoped":true,"policy":\{"operations":\["read"\]\},"key":\{"name":"key-\d+"\},"usage":\[\]\}\n$/,
  });
});

t.test('a certificate that no --ca would make valid does not suggest --ca', async (t) => {
  const authority = makeAuthority(t);
  const cases: [string, number, RegExp][] = [
    ['DNS:localhost,IP:127.0.0.1', 0, /expired; it needs another one, unless the clock here is wrong\n$/],
    ['DNS:elsewhere.example', 2, /127\.0\.0\.1/],
  ];
  for (const [at, [hosts, days, pattern]] of cases.entries()) {
    const { certPath, keyPath } = authority.issue(`server-${at}`, hosts, days);
    const server = createServer({ cert: readFileSync(certPath), key: readFileSync(keyPath) });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => server.close());
    const { port } = server.address() as AddressInfo;
    const env = { SANDBOXD_HOST: `https://127.0.0.1:${port}`, SANDBOXD_CA: authority.caPath };
    const { code, stderr } = await runCommand(['ps'], env);
    t.equal(code, 1);
    t.match(stderr, /^sandbox: cannot trust the daemon/);
    t.match(stderr, pattern);
    t.notMatch(stderr, '--ca');
  }
});

t.test('keys are managed by sandboxd of the same machine, and of no other', async (t) => {
  const { run, url } = await connect(t);
  const dir = mkdtempSync(join(tmpdir(), 'keys-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const far = { SANDBOXD_HOST: 'https://box.example:7878' };
  t.match(await run(['keys', 'create', 'alice'], far), {
    code: 2,
    stderr:
      /at https:\/\/box\.example:7878 are managed on its own host: there, as root, `sandboxd keys create alice`/,
  });
  const env = { PATH: dir, SANDBOXD_HOST: url };
  t.match(await run(['keys', 'list'], env), { code: 2, stderr: /sandboxd, which is not in PATH here/ });
  t.match(await run(['keys', 'craete', 'x'], env), { code: 2, stderr: /did you mean create\?/ });
  writeFileSync(join(dir, 'sandboxd'), '#!/bin/sh\necho "$@"; exit 7\n');
  chmodSync(join(dir, 'sandboxd'), 0o755);
  t.same(await run(['keys', 'create', 'alice', '--expires', '30d', '--json'], env), {
    code: 7,
    stdout: 'keys create alice --expires 30d --json\n',
    stderr: '',
  });
});
