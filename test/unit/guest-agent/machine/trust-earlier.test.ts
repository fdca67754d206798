// Authorities of other sandboxes in the bundles of a guest that was forked from them.
import '../support/addon-dir.ts';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { installAuthority } from '../../../../guest-agent/src/machine/trust/install.ts';
import { makeAuthority } from '../../../../host-agent/src/network/authority/index.ts';
import { DEBIAN, makeRoot, stateOf, toTrust } from '../support/roots.ts';

const ours = await toTrust('sbx_1');
const other = await toTrust('sbx_2');
const { certificate: ROOT } = await makeAuthority('root');
const MARK = '# sandboxd signs the inspected TLS connections of this sandbox with this certificate:\n';

const count = (text: string, part: string) => text.split(part).length - 1;
const read = (root: string, path: string) => readFileSync(join(root, path), 'utf8');

t.test('another authority takes the place of ours', async (t) => {
  const root = makeRoot(t, { [DEBIAN]: ROOT, 'usr/local/share/x': '' });
  installAuthority(ours, root);
  installAuthority(other, root);
  t.equal(count(read(root, DEBIAN), '-----BEGIN'), 2);
  t.equal(count(read(root, DEBIAN), other.certificate), 1);
  t.equal(read(root, 'usr/local/share/ca-certificates/sandboxd-egress.crt'), other.certificate);
  t.equal(
    read(root, `etc/ssl/certs/${ours.subjectHash}.0`),
    other.certificate,
    'the earlier link finds nothing',
  );
  const added = `# Ünïcode\n${ROOT}`;
  writeFileSync(join(root, DEBIAN), `${read(root, DEBIAN)}${added}`);
  installAuthority(ours, root);
  t.ok(read(root, DEBIAN).startsWith(`${ROOT}${added}`), 'what the image added behind it stays');
  t.equal(count(read(root, DEBIAN), other.certificate), 0);
  t.equal(count(read(root, DEBIAN), '-----BEGIN'), 3);
});

t.test('an earlier authority goes from a bundle that the image has made again', async (t) => {
  for (const isRestarted of [false, true]) {
    const root = makeRoot(t, { [DEBIAN]: ROOT, 'usr/local/share/x': '' });
    installAuthority(other, root);
    // As update-ca-certificates does: what is in /usr/local/share/ca-certificates without our mark.
    writeFileSync(join(root, DEBIAN), `${ROOT}${other.certificate}${ROOT}`);
    if (isRestarted) rmSync(join(root, 'run/sandbox/sandboxd-egress.crt'));
    t.same(installAuthority(ours, root).problems, []);
    t.equal(count(read(root, DEBIAN), other.certificate), 0);
    t.equal(count(read(root, DEBIAN), '-----BEGIN'), 3);
    const before = stateOf(root);
    installAuthority(ours, root);
    t.same(stateOf(root), before, 'a second time nothing changes');
  }
});

t.test('a mark without a certificate of ours, as a guest can write it', async (t) => {
  for (const tail of [
    MARK,
    `${MARK}x\n${ROOT}`,
    `${MARK}${MARK}`,
    `${MARK}-----BEGIN CERTIFICATE-----\n${ROOT}`,
  ]) {
    const root = makeRoot(t, { [DEBIAN]: `${ROOT}${tail}` });
    t.same(installAuthority(ours, root).problems, []);
    t.equal(count(read(root, DEBIAN), ours.certificate), 1);
    t.ok(read(root, DEBIAN).startsWith(ROOT));
    t.equal(count(read(root, DEBIAN), ROOT), count(`${ROOT}${tail}`, ROOT), 'no other certificate goes');
  }
});
