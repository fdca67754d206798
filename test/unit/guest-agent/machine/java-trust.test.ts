// The authority of inspected TLS in the root certificates of Java.
import '../support/addon-dir.ts';
import { createHash } from 'node:crypto';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { installAuthority } from '../../../../guest-agent/src/machine/trust/install.ts';
import { withAuthority } from '../../../../guest-agent/src/machine/trust/java.ts';
import { makeAuthority } from '../../../../host-agent/src/network/authority/index.ts';
import { DEBIAN, makeRoot, stateOf, toTrust } from '../support/roots.ts';

const ours = await toTrust('sbx_1');
const other = await toTrust('sbx_2');
const { certificate: ROOT } = await makeAuthority('root');

/** A store of Java with these certificates, as its format (JKS) has them. */
function makeStore(aliases: readonly string[], password = 'changeit'): Buffer {
  const text = (value: string) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(value.length);
    return Buffer.concat([length, Buffer.from(value)]);
  };
  const number = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    return bytes;
  };
  const der = Buffer.from('a certificate');
  const entries = aliases.map((alias) =>
    Buffer.concat([number(2), text(alias), Buffer.alloc(8), text('X.509'), number(der.length), der]),
  );
  const body = Buffer.concat([number(0xfeedfeed), number(2), number(entries.length), ...entries]);
  const key = Buffer.from(password, 'utf16le').swap16();
  const digest = createHash('sha1').update(key).update('Mighty Aphrodite').update(body).digest();
  return Buffer.concat([body, digest]);
}

t.test('Java: one more certificate in its store, once, and in place of an earlier one', async (t) => {
  const path = 'etc/ssl/certs/java/cacerts';
  const root = makeRoot(t, { [DEBIAN]: ROOT, [path]: '' });
  const before = makeStore(['debian:one.pem', 'debian:two.pem']);
  writeFileSync(join(root, path), before);
  t.same(installAuthority(ours, root).problems, []);
  const first = readFileSync(join(root, path));
  const der = (certificate: string) => Buffer.from(certificate.split('\n').slice(1, -2).join(''), 'base64');
  t.equal(first.readUInt32BE(8), 3);
  t.ok(first.includes(der(ours.certificate)) && first.includes('sandboxd-egress'));
  t.ok(first.subarray(12).indexOf(before.subarray(12, -20)) === 0, 'the others stay as they are');
  const state = stateOf(root);
  installAuthority(ours, root);
  t.same(stateOf(root), state, 'nothing is written twice');
  installAuthority(other, root);
  const second = readFileSync(join(root, path));
  t.equal(second.readUInt32BE(8), 3);
  t.notOk(second.includes(der(ours.certificate)));
  t.ok(second.includes(der(other.certificate)));
});

t.test('Java: what is in another format, cut off or false is left as it is', async (t) => {
  const good = makeStore(['a']);
  const lying = Buffer.from(good);
  lying.writeUInt32BE(9, 8);
  for (const store of [
    Buffer.alloc(0),
    Buffer.from('x'),
    good.subarray(0, -1),
    good.subarray(0, 40),
    lying,
    makeStore(['a'], 'another'),
    Buffer.concat([good, good]),
    Buffer.from([0x30, 0x82, 1, 2, ...good]),
  ]) {
    t.equal(withAuthority(store, Buffer.from('der')), undefined);
    const path = 'opt/java/openjdk/lib/security/cacerts';
    const root = makeRoot(t, { [DEBIAN]: ROOT, [path]: '' });
    writeFileSync(join(root, path), store);
    t.same(installAuthority(ours, root).problems, []);
    t.same(readFileSync(join(root, path)), store);
  }
  const link = makeRoot(t, { [DEBIAN]: ROOT, elsewhere: '', 'etc/ssl/certs/java/x': '' });
  writeFileSync(join(link, 'elsewhere'), good);
  symlinkSync('/elsewhere', join(link, 'etc/ssl/certs/java/cacerts'));
  t.same(installAuthority(ours, link).problems, []);
  t.same(readFileSync(join(link, 'elsewhere')), good);
});
