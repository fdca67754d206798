// Certificates of inspection, as strict clients verify them.
import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import t from 'tap';
import {
  type Leaf,
  Leaves,
  makeAuthority,
  subjectHash,
} from '../../../../host-agent/src/network/authority/index.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const ID = 'sbx_0123456789abc';
const authority = await makeAuthority(ID);
const dir = mkdtempSync(join(tmpdir(), 'authority-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const ca = join(dir, 'ca.pem');
writeFileSync(ca, authority.certificate);

const run = (program: string, ...words: string[]) => {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  return { status, out: `${stdout}${stderr}` };
};
const verify = ({ cert }: Leaf, name: string, authorityFile = ca) => {
  const file = join(dir, 'leaf.pem');
  writeFileSync(file, cert);
  const words = ['-x509_strict', '-purpose', 'sslserver', '-verify_hostname', name, '-CAfile', authorityFile];
  return run('openssl', 'verify', '-no-CApath', ...words, file);
};

t.test('an authority names its sandbox, and signs leaves but no authorities', async (t) => {
  const certificate = new X509Certificate(authority.certificate);
  t.equal(certificate.subject, `O=sandboxd\nCN=egress of ${ID}`);
  t.equal(certificate.issuer, certificate.subject);
  t.ok(certificate.verify(certificate.publicKey));
  t.equal(certificate.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
  const text = execFileSync('openssl', ['x509', '-in', ca, '-noout', '-text'], { encoding: 'utf8' });
  t.match(text, /Basic Constraints: critical\s+CA:TRUE, pathlen:0\n/);
  t.match(text, /Key Usage: critical\s+Certificate Sign\n/);
  t.match(text, /Subject Key Identifier:/);
  t.equal(run('openssl', 'verify', '-x509_strict', '-no-CApath', '-CAfile', ca, ca).status, 0);
  const other = await makeAuthority(ID);
  t.not(other.key, authority.key);
  t.not(new X509Certificate(other.certificate).serialNumber, certificate.serialNumber);
  for (const id of ['', 'Sbx_1', 'a b', 'a\n', 'é', 'x'.repeat(49)])
    await t.rejects(makeAuthority(id), { code: 'internal' }, JSON.stringify(id));
});

t.test('OpenSSL finds the certificate by its hash', async (t) => {
  for (let count = 0; count < 20; count++) {
    const { certificate } = await makeAuthority(`sbx_${count}`);
    writeFileSync(join(dir, 'other.pem'), certificate);
    const { out } = run('openssl', 'x509', '-in', join(dir, 'other.pem'), '-noout', '-subject_hash');
    t.equal(subjectHash(certificate), out.trim());
  }
});

t.test('a leaf is for one server', async (t) => {
  const leaf = await new Leaves(authority).get('api.example.com');
  writeFileSync(join(dir, 'leaf.pem'), leaf.cert);
  const text = run('openssl', 'x509', '-in', join(dir, 'leaf.pem'), '-noout', '-text').out;
  t.match(text, /Subject Alternative Name: \n\s+DNS:api\.example\.com\n/);
  t.match(text, /Extended Key Usage: \n\s+TLS Web Server Authentication\n/);
  t.match(text, /Basic Constraints: critical\s+CA:FALSE\n/);
  t.match(text, /Authority Key Identifier:/);
  const { validFromDate, validToDate, serialNumber } = new X509Certificate(leaf.cert);
  t.ok(validFromDate.getTime() < Date.now() - DAY_MS + 60_000, 'guests with a slow clock take it');
  t.ok(validToDate.getTime() - validFromDate.getTime() <= 99 * DAY_MS);
  t.equal(serialNumber.length, 32);
  t.equal(verify(leaf, 'api.example.com').status, 0);
  t.match(verify(leaf, 'example.com').out, /hostname mismatch/i);
  t.match(verify(leaf, 'www.api.example.com').out, /hostname mismatch/i);
  const stranger = join(dir, 'stranger.pem');
  writeFileSync(stranger, (await makeAuthority(ID)).certificate);
  t.not(verify(leaf, 'api.example.com', stranger).status, 0, 'an authority of the same name has another key');
});

t.test('names of each shape', async (t) => {
  const leaves = new Leaves(authority);
  const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`;
  for (const name of ['a.b', 'xn--bcher-kva.example', 'x_y.example.com', '1.2.3.4.example', long])
    t.match(verify(await leaves.get(name), name), { status: 0 }, name);
  const wildcard = await leaves.getBelow('example.com');
  t.equal(verify(wildcard, 'any.example.com').status, 0);
  for (const name of ['example.com', 'a.b.example.com', 'any.example.org'])
    t.match(verify(wildcard, name).out, /hostname mismatch/i, name);
});

t.test('hostile names get no certificate', async (t) => {
  const leaves = new Leaves(authority);
  const hostile = [
    ...[
      '',
      '.',
      '*',
      '*.',
      '*.com',
      '*.example.com',
      'a.*.com',
      'localhost',
      '10.0.0.1',
      '1.1',
      '[::1]',
      '::1',
    ],
    ...['a..b', '.a.b', 'a.b.', 'A.b', 'ü.example', 'a b.c', 'a.b\0.c', 'a.b\n', 'a/b.c', 'a,b.c', 'a.b:443'],
    ...[
      `${'a'.repeat(64)}.b`,
      `${'a.'.repeat(127)}bc`,
      'x'.repeat(300),
      'a@b.c',
      'a.b%00',
      'a．b.c',
      '-a.b',
      'a-.b',
    ],
  ];
  for (const name of hostile) {
    await t.rejects(leaves.get(name), { code: 'invalid_argument' }, JSON.stringify(name));
    if (name !== 'a.b') await t.rejects(leaves.getBelow(name), JSON.stringify(name));
  }
  await t.rejects(leaves.getBelow('com'), { code: 'invalid_argument' });
  t.equal(leaves.kept, 0);
});

t.test('leaves are kept, within a bound, and renewed before they end', async (t) => {
  let now = Date.now();
  const leaves = new Leaves(authority, { maxKept: 3, now: () => now });
  const first = await leaves.get('a.test');
  t.equal(await leaves.get('a.test'), first);
  const [one, two] = await Promise.all([leaves.get('b.test'), leaves.get('b.test')]);
  t.equal(one, two);
  t.equal(one?.key, first.key, 'one key for all');
  t.not(one?.cert, first.cert);
  await leaves.get('c.test');
  await leaves.get('a.test');
  await leaves.get('d.test');
  t.equal(leaves.kept, 3);
  t.equal(await leaves.get('a.test'), first, 'what is used stays');
  for (let count = 0; count < 100; count++) await leaves.get(`n${count}.test`);
  t.equal(leaves.kept, 3);
  const soon = await leaves.get('a.test');
  now += 80 * DAY_MS;
  t.equal(await leaves.get('a.test'), soon);
  now += 10 * DAY_MS;
  const renewed = await leaves.get('a.test');
  t.not(renewed.cert, soon.cert);
  t.ok(new X509Certificate(renewed.cert).validToDate.getTime() > now + 80 * DAY_MS);
  t.not((await new Leaves(authority).get('a.test')).key, first.key, 'the key of the leaves is never stored');
});

t.test('TLS clients that are strict connect', async (t) => {
  const leaf = await new Leaves(authority).get('ok.test');
  const server = createServer(leaf, (socket) => socket.on('error', () => undefined).end('hello'));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  t.teardown(() => new Promise((closed) => server.close(closed)));
  const { port } = server.address() as AddressInfo;
  const read = (servername: string) =>
    new Promise<string>((done) => {
      let text = '';
      const socket = connect({ port, host: '127.0.0.1', servername, ca: authority.certificate });
      socket.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      socket.on('end', () => done(text)).on('error', ({ message }) => done(message));
    });
  t.equal(await read('ok.test'), 'hello');
  t.match(await read('evil.test'), /does not match certificate/);
});

t.test('Python verifies as it does from 3.13 on', async (t) => {
  const leaf = await new Leaves(authority).get('ok.test');
  const [cert, key] = [join(dir, 'cert'), join(dir, 'key')];
  writeFileSync(cert, leaf.cert);
  writeFileSync(key, leaf.key);
  const handshake = `
import ssl, sys
ca, cert, key, name = sys.argv[1:]
outer = ssl.create_default_context(cafile=ca)
outer.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
inner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
inner.load_cert_chain(cert, key)
a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
client = outer.wrap_bio(a, b, server_hostname=name)
server = inner.wrap_bio(b, a, server_side=True)
for _ in range(4):
  for side in client, server:
    try: side.do_handshake()
    except ssl.SSLWantReadError: pass
print(client.version())
`;
  t.equal(run('python3', '-c', handshake, ca, cert, key, 'ok.test').out.trim(), 'TLSv1.3');
  t.match(run('python3', '-c', handshake, ca, cert, key, 'evil.test').out, /Hostname mismatch/);
});
