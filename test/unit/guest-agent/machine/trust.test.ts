// The authority of inspected TLS in root file systems of each kind, also hostile ones.
import '../support/addon-dir.ts';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { completeEnvironment } from '../../../../guest-agent/src/exec/environment.ts';
import {
  applyTrust,
  checkTrust,
  rehearseTrust,
  trustVariables,
} from '../../../../guest-agent/src/machine/trust/index.ts';
import { installAuthority, prepareForAuthority } from '../../../../guest-agent/src/machine/trust/install.ts';
import { makeAuthority } from '../../../../host-agent/src/network/authority/index.ts';
import { DEBIAN, makeRoot, mountLayer, stateOf, toTrust } from '../support/roots.ts';

const ours = await toTrust('sbx_1');
const other = await toTrust('sbx_2');
const { certificate: ROOT } = await makeAuthority('root');

const count = (text: string, part: string) => text.split(part).length - 1;
const read = (root: string, path: string) => readFileSync(join(root, path), 'utf8');

t.test('Debian: the bundle, a link by hash, and what makes the bundle again', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT, 'usr/local/share/x': '' });
  const { ownPath, bundlePath, problems } = installAuthority(ours, root);
  t.same(problems, []);
  t.equal(bundlePath, join(root, DEBIAN), 'no copy: what the image adds later is there, too');
  t.ok(read(root, DEBIAN).startsWith(ROOT));
  t.equal(count(read(root, DEBIAN), ours.certificate), 1);
  t.equal(readFileSync(ownPath, 'utf8'), ours.certificate);
  t.equal(statSync(ownPath).mode & 0o777, 0o644);
  t.equal(read(root, `etc/ssl/certs/${ours.subjectHash}.0`), ours.certificate);
  t.equal(read(root, 'usr/local/share/ca-certificates/sandboxd-egress.crt'), ours.certificate);
  const before = stateOf(root);
  t.same(installAuthority(ours, root).problems, []);
  t.same(stateOf(root), before, 'a second time nothing changes');
});

t.test('OpenSSL takes the bundle, and the directory alone', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT });
  const { bundlePath, ownPath } = installAuthority(ours, root);
  const verify = (...where: string[]) =>
    String(execFileSync('openssl', ['verify', '-x509_strict', ...where, ownPath]));
  t.match(verify('-no-CApath', '-CAfile', bundlePath), /: OK/);
  t.match(verify('-no-CAfile', '-CApath', join(root, 'etc/ssl/certs')), /: OK/);
});

t.test('other distributions', async (t) => {
  const pem = 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem';
  const rhel = makeRoot(t, {
    [pem]: ROOT,
    'etc/pki/ca-trust/source/anchors/x': '',
    'etc/pki/tls/certs/x': '',
  });
  symlinkSync(
    '../../ca-trust/extracted/pem/tls-ca-bundle.pem',
    join(rhel, 'etc/pki/tls/certs/ca-bundle.crt'),
  );
  mkdirSync(join(rhel, 'etc/ssl'));
  symlinkSync('../pki/tls/certs', join(rhel, 'etc/ssl/certs'));
  t.same(installAuthority(ours, rhel).problems, []);
  t.equal(count(read(rhel, pem), ours.certificate), 1, 'once, although two paths lead to it');
  t.equal(read(rhel, 'etc/pki/ca-trust/source/anchors/sandboxd-egress.crt'), ours.certificate);
  t.equal(read(rhel, `etc/pki/tls/certs/${ours.subjectHash}.0`), ours.certificate);
  const suse = makeRoot(t, { 'var/lib/ca-certificates/ca-bundle.pem': ROOT, 'etc/pki/trust/anchors/x': '' });
  mkdirSync(join(suse, 'etc/ssl'));
  symlinkSync('../../var/lib/ca-certificates/ca-bundle.pem', join(suse, 'etc/ssl/ca-bundle.pem'));
  t.equal(installAuthority(ours, suse).bundlePath, join(suse, 'etc/ssl/ca-bundle.pem'));
  t.equal(read(suse, 'etc/pki/trust/anchors/sandboxd-egress.crt'), ours.certificate);
  const alpine = makeRoot(t, { [DEBIAN]: ROOT.trim() });
  symlinkSync('certs/ca-certificates.crt', join(alpine, 'etc/ssl/cert.pem'));
  t.same(installAuthority(ours, alpine).problems, []);
  t.equal(count(read(alpine, DEBIAN), ours.certificate), 1);
  t.equal(count(read(alpine, DEBIAN), '\n-----BEGIN'), 1, 'a last line without an end gets one');
});

t.test('an image without roots gets those of Mozilla with ours, never ours alone', async (t) => {
  const root = makeRoot(t, {});
  const { bundlePath, problems } = installAuthority(ours, root);
  t.same(problems, []);
  const bundle = readFileSync(bundlePath, 'utf8');
  t.equal(count(bundle, ours.certificate), 1);
  t.ok(count(bundle, '-----BEGIN CERTIFICATE-----') > 100);
  t.same(readdirSync(root), ['run'], 'and no other file');
  t.match(
    String(execFileSync('openssl', ['storeutl', '-noout', '-certs', bundlePath])),
    /Total found: 1\d\d/,
  );
  const before = stateOf(root);
  installAuthority(ours, root);
  t.same(stateOf(root), before);
});

t.test('paths that are no files', async (t) => {
  const root = makeRoot(t, { 'etc/pki/tls/certs/x': '', 'etc/pki/ca-trust/extracted/pem/x': '' });
  const inCerts = join(root, 'etc/ssl/certs');
  mkdirSync(inCerts, { recursive: true });
  execFileSync('mkfifo', [join(root, DEBIAN), join(inCerts, 'sandboxd-egress.pem')]);
  symlinkSync('/dev/zero', join(root, 'etc/ssl/ca-bundle.pem'));
  symlinkSync('loop', join(inCerts, 'loop'));
  symlinkSync('certs/loop', join(root, 'etc/ssl/cert.pem'));
  symlinkSync('/proc/version', join(root, 'etc/pki/tls/certs/ca-bundle.crt'));
  symlinkSync('/sys/kernel/uevent_helper', join(root, 'etc/pki/tls/cert.pem'));
  mkdirSync(join(root, 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem'));
  symlinkSync('/etc/passwd', join(root, 'run/sandbox/sandboxd-egress.crt'));
  symlinkSync(join(root, 'victim'), join(inCerts, `${ours.subjectHash}.0`));
  const { bundlePath, ownPath, problems } = installAuthority(ours, root);
  t.same(problems, []);
  t.ok(bundlePath.startsWith(join(root, 'run/sandbox')));
  t.equal(lstatSync(ownPath).isFile(), true, 'a link is replaced, not followed');
  t.notMatch(readFileSync('/etc/passwd', 'utf8'), 'CERTIFICATE');
  t.notOk(existsSync(join(root, 'victim')));
  t.equal(readlinkSync(join(inCerts, `${ours.subjectHash}.1`)), 'sandboxd-egress.pem');
  t.equal(lstatSync(join(root, DEBIAN)).isFIFO(), true);
});

t.test('what is too large is not read', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT });
  truncateSync(join(root, DEBIAN), 2 ** 30);
  const before = process.memoryUsage.rss();
  const { problems, bundlePath } = installAuthority(ours, root);
  t.match(problems, [/ca-certificates\.crt" has more than 4194304 bytes/]);
  t.ok(bundlePath.startsWith(join(root, 'run/sandbox')));
  t.ok(process.memoryUsage.rss() - before < 2 ** 28);
});

t.test('hashes that are all taken, and a directory in the place of a file, are reported', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT, 'usr/local/share/ca-certificates/sandboxd-egress.crt/x': '' });
  for (let n = 0; n < 8; n++) writeFileSync(join(root, `etc/ssl/certs/${ours.subjectHash}.${n}`), '');
  const { problems } = installAuthority(ours, root);
  t.match(problems, [/sandboxd-egress\.crt" is a directory/, /8 certificates of the same hash/]);
  t.same(
    readdirSync(join(root, 'usr/local/share/ca-certificates')),
    ['sandboxd-egress.crt'],
    'nothing half-written is left',
  );
});

t.test('a disk that is full or read-only leaves every file whole', async (t) => {
  const root = makeRoot(t, {});
  const etc = join(root, 'etc');
  mkdirSync(etc);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', etc]);
  t.teardown(() => execFileSync('umount', [etc]));
  mkdirSync(join(etc, 'ssl/certs'), { recursive: true });
  writeFileSync(join(root, DEBIAN), ROOT.padEnd(4096, '#'));
  try {
    writeFileSync(join(etc, 'filler'), Buffer.alloc(2 ** 20));
  } catch {
    // Until it is full.
  }
  const full = installAuthority(ours, root);
  t.match(full.problems, [
    /ca-certificates\.crt" cannot be written: the guest's disk is full/,
    /sandboxd-egress\.pem" cannot/,
  ]);
  t.equal(read(root, DEBIAN), ROOT.padEnd(4096, '#'));
  t.match(readFileSync(full.bundlePath, 'utf8'), ours.certificate);
  t.same(readdirSync(join(etc, 'ssl/certs')), ['ca-certificates.crt']);
  rmSync(join(etc, 'filler'));
  execFileSync('mount', ['-o', 'remount,ro', etc]);
  t.match(installAuthority(ours, root).problems, [/read-only/, /read-only/]);
  execFileSync('mount', ['-o', 'remount,rw', etc]);
  const later = installAuthority(ours, root);
  t.same(later.problems, []);
  t.equal(later.bundlePath, join(root, DEBIAN));
});

t.test('a rehearsal changes nothing and trusts nothing', async (t) => {
  const files = { [DEBIAN]: ROOT, 'usr/local/share/x': '', 'etc/ssl/ca-bundle.pem': 'no certificates' };
  const root = makeRoot(t, files);
  symlinkSync('/dev/zero', join(root, 'etc/ssl/cert.pem'));
  const before = stateOf(root).filter(([path]) => path !== 'run/sandbox');
  rehearseTrust(root);
  t.same(
    stateOf(root).filter(([path]) => path !== 'run/sandbox'),
    before,
  );
  t.same(trustVariables(), []);
  const broken = makeRoot(t, { 'run/sandbox/rehearsal': '' });
  t.doesNotThrow(() => rehearseTrust(broken), 'a guest that cannot is saved without');
  t.same(readdirSync(join(broken, 'run/sandbox')), []);
  rehearseTrust(root);
  t.same(applyTrust(other, { isThorough: false, root }), { problems: [] });
  rehearseTrust(root);
  t.equal(count(read(root, DEBIAN), other.certificate), 1, 'what is trusted stays so');
  t.ok(trustVariables().length > 0);
  applyTrust(undefined, { isThorough: false, root });
});

t.test('a rehearsal has bundles on the writable layer, as far as they are small', async (t) => {
  const base = makeRoot(t, {
    [DEBIAN]: ROOT,
    'etc/ssl/ca-bundle.pem': `${ROOT}${'#'.repeat(3 * 2 ** 20)}`,
    'etc/ssl/cert.pem': `${ROOT}${'#'.repeat(2 ** 20)}`,
    'etc/pki/tls/cert.pem': `${ROOT}${'#'.repeat(2 ** 20)}`,
    'usr/local/share/ca-certificates/x': '',
  });
  const { root, upper } = mountLayer(t, base);
  const of = (path: string) => {
    const { mtimeMs, mode, uid, gid } = lstatSync(path);
    return { mtimeMs, mode, uid, gid };
  };
  prepareForAuthority(root);
  const own = (readdirSync(upper, { recursive: true }) as string[]).sort();
  const files = own.filter((path) => !lstatSync(join(upper, path)).isDirectory());
  t.same(files, ['etc/pki/tls/cert.pem', DEBIAN]);
  t.ok(own.includes('usr/local/share/ca-certificates'));
  for (const path of own) t.same(of(join(upper, path)), of(join(base, path)), path);
  // One that has no space for them stays as it is.
  const full = mountLayer(t, base, 256);
  writeFileSync(join(full.disk, 'filler'), Buffer.alloc(100 * 1024));
  prepareForAuthority(full.root);
  t.notOk(existsSync(join(full.upper, 'etc/pki/tls/cert.pem')));
  t.same(readdirSync(join(full.disk, 'work/work')), [], 'nothing half-copied is left');
  t.equal(read(full.root, DEBIAN), ROOT);
});

t.test('a bundle that is as the guest was saved is not read again', async (t) => {
  const large = `${ROOT}${'#'.repeat(2 ** 20)}\n`;
  const pem = 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem';
  const make = (text: string) => {
    const root = makeRoot(t, { [pem]: text, 'etc/pki/tls/certs/x': '' });
    const link = '../../ca-trust/extracted/pem/tls-ca-bundle.pem';
    symlinkSync(link, join(root, 'etc/pki/tls/certs/ca-bundle.crt'));
    prepareForAuthority(root, { isOwn: true });
    return root;
  };
  const readBytes = () => Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
  const install = (root: string) => {
    const before = readBytes();
    t.same(installAuthority(ours, root).problems, []);
    return readBytes() - before;
  };
  const root = make(large);
  t.ok(install(root) < 2 ** 19);
  t.equal(read(root, pem), `${large}${read(root, pem).slice(large.length)}`);
  t.equal(count(read(root, pem), ours.certificate), 1, 'once, although two paths lead to it');
  t.ok(install(root) >= 2 ** 20, 'control: it is read then');
  t.equal(count(read(root, pem), ours.certificate), 1);
  installAuthority(other, root);
  t.equal(count(read(root, pem), '-----BEGIN'), 2, 'another takes its place');

  const changed = make(large);
  const ownRoot = `${large.slice(0, -ROOT.length)}${ROOT}`;
  // Stamps of changes have the resolution of the kernel's tick.
  const stamp = () => statSync(join(changed, pem), { bigint: true }).ctimeNs;
  for (const before = stamp(); stamp() === before; ) writeFileSync(join(changed, pem), ownRoot);
  t.ok(install(changed) >= 2 ** 20, 'one that was changed since, to the same size, is');
  t.ok(read(changed, pem).startsWith(ownRoot));
  t.equal(count(read(changed, pem), ours.certificate), 1);

  const open = make(large.trim());
  t.ok(install(open) >= 2 ** 20);
  t.equal(count(read(open, pem), '\n-----BEGIN'), 1, 'a last line without an end gets one');

  const special = make(large);
  rmSync(join(special, pem));
  execFileSync('mkfifo', [join(special, pem)]);
  t.same(installAuthority(ours, special).problems, []);
});

t.test('variables are there while something is inspected', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT });
  t.same(trustVariables(), []);
  t.same(applyTrust(ours, { isThorough: false, root }), { problems: [] });
  const surroundings = { user: { home: '/h' }, hasTerminal: false, isExact: true };
  const of = (env: string[]) => completeEnvironment(env, { ...surroundings, shared: trustVariables() });
  const env = of(['SSL_CERT_FILE=/mine', 'CURL_CA_BUNDLE=']);
  t.same(
    env.filter((entry) => /^(?:SSL_CERT_FILE|CURL_CA_BUNDLE)=/.test(entry)),
    ['SSL_CERT_FILE=/mine', 'CURL_CA_BUNDLE='],
    'those of the request stay',
  );
  t.ok(env.includes(`REQUESTS_CA_BUNDLE=${join(root, DEBIAN)}`));
  t.ok(env.includes(`NODE_EXTRA_CA_CERTS=${join(root, 'run/sandbox/sandboxd-egress.crt')}`));
  applyTrust(undefined, { isThorough: false, root });
  t.same(trustVariables(), []);
  rmSync(join(root, DEBIAN));
  t.same(applyTrust(ours, { isThorough: false, root }), { problems: [] });
  t.notOk(existsSync(join(root, DEBIAN)), 'a copy of the guest has the files already');
  applyTrust({ certificate: '', subjectHash: '' }, { isThorough: false, root });
  t.same(trustVariables(), []);
});

t.test('what is not one certificate is refused', async (t) => {
  for (const wrong of [
    { certificate: 'x' },
    { certificate: `${ours.certificate}${ours.certificate}` },
    { certificate: `${ours.certificate}\n` },
    { certificate: ours.certificate.replace('\n', '\n#\n') },
    { certificate: `-----BEGIN CERTIFICATE-----\n${'A'.repeat(9000)}\n-----END CERTIFICATE-----\n` },
    { subjectHash: '../../12' },
    { subjectHash: '' },
  ])
    t.throws(
      () => checkTrust({ ...ours, ...wrong }),
      { code: 'invalid' },
      JSON.stringify(wrong).slice(0, 60),
    );
  t.doesNotThrow(() => checkTrust({ certificate: '', subjectHash: '' }));
  const root = makeRoot(t, {});
  rmSync(join(root, 'run/sandbox'), { recursive: true });
  t.throws(() => applyTrust(ours, { isThorough: true, root }), {
    code: 'internal',
    message: /inspected TLS/,
  });
});
