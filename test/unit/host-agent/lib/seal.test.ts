// Records that are encrypted at rest.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { SEAL_KEY_NAME, Sealer } from '../../../../host-agent/src/lib/seal.ts';

const VALUE = Buffer.from('a value of a secret');

function makeDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'secrets-seal-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

t.test('what was sealed opens for its own record only', async (t) => {
  const dataDir = makeDir(t);
  const sealer = new Sealer({ dataDir });
  const sealed = sealer.seal('secrets/one', VALUE);
  t.notMatch(Buffer.from(sealed, 'base64').toString('latin1'), 'value');
  t.strictSame(sealer.open('secrets/one', sealed), VALUE);
  t.strictSame(new Sealer({ dataDir }).open('secrets/one', sealed), VALUE, 'by the next daemon, too');
  t.throws(() => sealer.open('secrets/two', sealed), { code: 'internal', message: /of another record/ });
  t.not(sealer.seal('secrets/one', VALUE), sealed, 'twice the same value looks different');
  t.strictSame(sealer.open('x', sealer.seal('x', Buffer.alloc(0))), Buffer.alloc(0));
});

t.test('a changed byte anywhere is found', async (t) => {
  const sealer = new Sealer({ dataDir: makeDir(t) });
  const bytes = Buffer.from(sealer.seal('id', VALUE), 'base64');
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
    t.throws(() => sealer.open('id', changed.toString('base64')), { code: 'internal' }, `byte ${at}`);
  }
  for (const text of ['', 'AAAA', '!', bytes.subarray(0, 30).toString('base64')])
    t.throws(() => sealer.open('id', text), { code: 'internal' });
});

t.test('the key is made beside the registry at the first use, for its user alone', async (t) => {
  const dataDir = makeDir(t);
  const sealer = new Sealer({ dataDir });
  t.strictSame(readdirSync(dataDir), []);
  t.equal(sealer.source, 'beside');
  t.strictSame(readdirSync(dataDir), [SEAL_KEY_NAME]);
  t.equal(statSync(join(dataDir, SEAL_KEY_NAME)).mode & 0o777, 0o600);
});

t.test('a key of the operator, or a credential of systemd, comes first', async (t) => {
  const [dataDir, credentialsDir] = [makeDir(t), makeDir(t)];
  const keyFile = join(makeDir(t), 'key');
  writeFileSync(keyFile, 'k'.repeat(32), { mode: 0o600 });
  const sealed = new Sealer({ dataDir, keyFile }).seal('id', VALUE);
  t.equal(new Sealer({ dataDir, keyFile, credentialsDir }).source, 'file', 'no such credential');
  writeFileSync(join(credentialsDir, SEAL_KEY_NAME), 'c'.repeat(44), { mode: 0o440 });
  const other = new Sealer({ dataDir, keyFile, credentialsDir });
  t.equal(other.source, 'credential');
  t.throws(() => other.open('id', sealed), { code: 'internal', message: /sealed with another key/ });
  t.strictSame(readdirSync(dataDir), [], 'none was made');
  t.equal(other.findUnusedKey(), undefined);
  const before = new Sealer({ dataDir });
  t.equal(before.source, 'beside');
  t.equal(before.findUnusedKey(), undefined);
  for (const options of [{ keyFile }, { credentialsDir }])
    t.equal(new Sealer({ dataDir, ...options }).findUnusedKey(), join(dataDir, SEAL_KEY_NAME));
  chmodSync(keyFile, 0o440);
  t.throws(() => new Sealer({ dataDir, keyFile }).source, { message: /chmod 600/ }, 'no credential');
});

t.test('the size of what was sealed is known without the key', async (t) => {
  const sealer = new Sealer({ dataDir: makeDir(t) });
  for (const size of [0, 1, 8, 100]) t.equal(Sealer.plainBytes(sealer.seal('x', Buffer.alloc(size))), size);
  t.equal(Sealer.plainBytes(''), 0);
});

t.test('a key file that is missing, short, or open to others is refused and says so', async (t) => {
  const dataDir = makeDir(t);
  const keyFile = join(makeDir(t), 'key');
  const open = () => new Sealer({ dataDir, keyFile }).source;
  t.throws(open, { code: 'internal', message: /ENOENT/ });
  writeFileSync(keyFile, 'short', { mode: 0o600 });
  t.throws(open, { message: /has 5 bytes/ });
  writeFileSync(keyFile, 'k'.repeat(5000));
  t.throws(open, { message: /has 5000 bytes/ });
  writeFileSync(keyFile, 'k'.repeat(32));
  chmodSync(keyFile, 0o644);
  t.throws(open, { message: /other users can read it/ });
  t.throws(() => new Sealer({ dataDir, keyFile: dataDir }).source, { message: /not a file/ });
});

t.test('the digest of a value needs the key', async (t) => {
  const [one, two] = [new Sealer({ dataDir: makeDir(t) }), new Sealer({ dataDir: makeDir(t) })];
  t.equal(one.digest(VALUE), one.digest(VALUE));
  t.not(one.digest(VALUE), two.digest(VALUE));
  t.not(one.digest(VALUE), one.digest(Buffer.from('another')));
});

t.test('a closed sealer has wiped its key, and reads it again', async (t) => {
  const dataDir = makeDir(t);
  const sealer = new Sealer({ dataDir });
  const sealed = sealer.seal('id', VALUE);
  const before = readFileSync(join(dataDir, SEAL_KEY_NAME));
  sealer.close();
  t.strictSame(sealer.open('id', sealed), VALUE);
  t.strictSame(readFileSync(join(dataDir, SEAL_KEY_NAME)), before);
});
