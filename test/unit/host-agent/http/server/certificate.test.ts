// The certificate in use: which files it needs, when they are read again, and what stays when they make no sense.
import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SecureContextOptions } from 'node:tls';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Certificate } from '../../../../../host-agent/src/http/server/certificate.ts';
import { makeAuthority } from '../../../../http/certificates.ts';
import { FakeClock } from '../../../../support/fake-clock.ts';

function open(t: Test) {
  const authority = makeAuthority(t);
  const files = authority.issue('first');
  const next = authority.issue('second');
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  return { authority, files, next, lines, log };
}

t.test('it is read again when its files change, and listeners get it', async (t) => {
  const { files, next, lines, log, authority } = open(t);
  const timers = new FakeClock(t);
  const certificate = new Certificate(files, log);
  t.same(lines, []);
  t.notOk(certificate.asksClients);
  t.match(certificate.options, { minVersion: 'TLSv1.2' });
  t.notOk('ca' in certificate.options);
  t.same(String(certificate.options.ciphers).split(':').length, 9);
  t.match(
    certificate.options.ciphers,
    /^TLS_AES_128_GCM_SHA256:.*:ECDHE-ECDSA-AES128-GCM-SHA256:.*:ECDHE-RSA-CHACHA20-POLY1305$/,
  );
  const applied: SecureContextOptions[] = [];
  certificate.watch((options) => applied.push(options));
  t.equal(timers.keeping, 0);
  await timers.pass(4000);
  t.same([applied, lines], [[], []]);
  renameSync(next.certPath, files.certPath);
  await timers.pass(1999);
  t.equal(applied.length, 0);
  await timers.pass(1);
  t.equal(applied.length, 0, 'half a change');
  t.match(lines, [{ level: 50, msg: /cannot be used: .*; keeping the current certificate$/ }]);
  await timers.pass(2000);
  t.equal(lines.length, 1, 'said once');
  renameSync(next.keyPath, files.keyPath);
  await timers.pass(2000);
  t.equal(applied.length, 1);
  t.same(applied[0]?.cert, readFileSync(files.certPath));
  t.equal(certificate.options, applied[0]);
  t.match(lines[1], { level: 30, certificate: files.certPath, msg: 'certificate reloaded' });
  await timers.pass(2000);
  t.equal(applied.length, 1);
  rmSync(files.certPath);
  await timers.pass(2000);
  t.equal(applied.length, 1);
  t.match(lines[2], { level: 50 });
  certificate.close();
  t.equal(timers.count, 0);
  timers.restore();
  const again = authority.issue('third');
  const other = new Certificate(again, log);
  other.reload();
  t.match(lines.at(-1), { msg: 'certificate reloaded' });
});

t.test('clients are asked for one where their authority is known', async (t) => {
  const { files, log, authority } = open(t);
  const timers = new FakeClock(t);
  const clientCaPath = join(authority.dir, 'clients.pem');
  writeFileSync(clientCaPath, readFileSync(authority.caPath));
  const certificate = new Certificate({ ...files, clientCaPath }, log, 100);
  t.ok(certificate.asksClients);
  t.same(certificate.options.ca, readFileSync(authority.caPath));
  let applied = 0;
  certificate.watch(() => void applied++);
  writeFileSync(clientCaPath, `${readFileSync(authority.caPath)}\n`);
  await timers.pass(99);
  t.equal(applied, 0);
  await timers.pass(1);
  t.equal(applied, 1);
  certificate.close();
  timers.restore();
});

t.test('an unusable one is refused, and a key that other users can read gives a warning', async (t) => {
  const { files, next, lines, log } = open(t);
  const made = (changes: object) => () => new Certificate({ ...files, ...changes }, log);
  t.throws(made({ certPath: '/nowhere' }), {
    code: 'internal',
    message: /^the certificate \/nowhere with the key .*first.key cannot be used: ENOENT/,
    details: { stage: 'certificate' },
  });
  t.throws(made({ keyPath: next.keyPath }), { code: 'internal', cause: Error });
  t.throws(made({ clientCaPath: '/nowhere' }), { code: 'internal' });
  t.same(lines, []);
  for (const [mode, warned] of [
    [0o600, 0],
    [0o400, 0],
    [0o640, 1],
    [0o604, 2],
    [0o610, 3],
  ] as const) {
    chmodSync(files.keyPath, mode);
    made({})();
    t.equal(lines.length, warned, mode.toString(8));
  }
  t.match(lines[0], { level: 40, msg: /first.key, the key of the certificate; chmod 600 it$/ });
});
