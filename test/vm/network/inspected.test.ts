// Inspected TLS with a real guest: its programs trust the authority of their sandbox, as do those of forks, and see what
// the gateway lets pass.
import '../../support/network/own-network.ts';
import { createPrivateKey } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Leaves, makeAuthority } from '../../../host-agent/src/network/authority/index.ts';
import { Store } from '../../../host-agent/src/store/store.ts';
import type { Api, SandboxJson } from '../../support/api.ts';
import { startDaemon } from '../../support/daemon.ts';
import { makeAuthorities } from '../../support/memory-host/authorities.ts';
import { Lab, WEB_IP } from '../../support/network/lab.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const lab = await Lab.open(t);
const world = await makeAuthority('world');
const { cert, key } = await new Leaves(world).get('api.test');
lab.names.set('api.test', [WEB_IP]);
const COMMIT = '0123456789'.repeat(4);
/** A server that git, pip and apt can ask. */
await lab.serve(
  lab.internet,
  `const files = { '/ok/repo/info/refs': '${COMMIT}\\trefs/heads/main\\n', '/ok/flat/Packages': '' };
   require('https').createServer(${JSON.stringify({ cert, key })}, (q, s) => {
     const path = q.url.split('?')[0];
     if (path === '/ok/hello') return s.end('hello');
     const text = files[path];
     s.writeHead(text === undefined ? 404 : 200, { 'content-type': 'text/plain' }).end(text);
   }).listen(443, '${WEB_IP}', () => console.log('up'));`,
);
const dir = mkdtempSync(join(tmpdir(), 'inspected-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const roots = join(dir, 'roots.pem');
writeFileSync(roots, world.certificate);

const PYTHON = `
import ssl, urllib.request
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
print(urllib.request.urlopen('https://api.test/ok/hello', context=context).read().decode())
`;
/** One line for each program, with what it got. A handshake must begin within 5 s: git reads its roots before. */
const PROGRAMS = `
for attempt in 1 2 3 4 5; do git ls-remote https://api.test/ok/repo > /dev/null 2>&1 && break; done
say() { echo "$1: $(shift; "$@" 2>&1 | tr '\\n' ' ')"; }
say curl curl -sS https://api.test/ok/hello
say secret curl -sS -o /dev/null -w '%{http_code}' https://api.test/secret
say python python3 -c "$PYTHON"
say git git ls-remote https://api.test/ok/repo
say openssl sh -c 'openssl s_client -verify_return_error -verify_hostname api.test -connect api.test:443 -servername api.test < /dev/null 2>&1 | grep -E "^(issuer|Verify return code|Verification)" | sort -u'
`;
/** By GnuTLS. */
const APT = `
echo 'deb [trusted=yes] https://api.test/ok flat/' > /tmp/sources
apt-get update -o Dir::Etc::sourcelist=/tmp/sources -o Dir::Etc::sourceparts=- -o Acquire::Languages=none 2>&1
`;
const CURL = 'curl -sS https://api.test/ok/hello';
const script = (text: string) => `PYTHON=$(cat <<'X'\n${PYTHON}\nX\n); export PYTHON\n${text}`;
const toResults = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  );
const EXPECTED = {
  curl: 'hello',
  secret: '403',
  python: 'hello ',
  git: `${COMMIT}\trefs/heads/main `,
  openssl: /^Verification: OK Verify return code: 0 .*issuer=O = sandboxd, CN = egress of sbx_/,
};

type Policy = { readonly ca?: { readonly fingerprint: string; readonly certificate: string } };
const policyOf = (api: Api, { id }: SandboxJson) => api.call<Policy>('GET', `/sandboxes/${id}/network`);
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt';

t.test('programs of a guest through an inspected rule, with variables and without', async (t) => {
  const flags = ['--dns-upstream', lab.names.address, '--egress-ca-file', roots];
  const daemon = await startDaemon(t, { flags });
  const { api } = daemon;
  const network = { enabled: true, rules: [{ host: 'api.test', paths: ['/ok/**'] }] };
  const sandbox = await api.create({ profile: 'python-3.11', memory_mib: 256, network });
  const { ca } = await policyOf(api, sandbox);
  t.ok(ca);
  t.match(toResults(await api.sh(sandbox.id, script(PROGRAMS))), EXPECTED, 'with variables');
  const bare = `env -i PATH="$PATH" sh -c '${CURL}; python3 -c "$1"' sh "$PYTHON"`;
  t.equal(await api.sh(sandbox.id, script(bare)), 'hellohello', 'by the files alone');
  const apt = await api.sh(sandbox.id, APT);
  t.match(apt, /Reading package lists/);
  t.notMatch(apt, /^[EW]:/m);

  const snapshot = await api.ask('takeSnapshot', { params: { id: sandbox.id } });
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
    { count: 1 },
  );
  const [fork] = sandboxes;
  if (fork === undefined) throw new Error('there is no fork');
  t.same((await policyOf(api, fork)).ca, ca, 'a fork has that of its source');
  t.equal(await api.sh(fork.id, CURL), 'hello');
  t.equal(await api.sh(fork.id, `grep -c ${ca?.certificate.split('\n')[1]} ${BUNDLE}`), '1', 'once');

  const store = await Store.open(join(daemon.directories.dataDir, 'state.lmdb'));
  const opened = makeAuthorities(store, daemon.directories.dataDir).open(sandbox.id);
  await store.close();
  const { d = '' } = createPrivateKey(opened.key).export({ format: 'jwk' });
  const needles = [Buffer.from(d, 'base64url'), ...opened.key.split('\n').slice(1, -2)];
  const registry = readFileSync(join(daemon.directories.dataDir, 'state.lmdb'));
  t.notOk(
    needles.some((each) => registry.includes(each)),
    'the registry has the key sealed',
  );
  t.ok(registry.includes(ca?.certificate.split('\n')[1] ?? ''), 'control: it has the certificate');

  await api.call('PATCH', `/sandboxes/${fork.id}/network`, { rules: [{ host: 'api.test' }] });
  t.equal(
    await api.sh(fork.id, 'env | grep -c sandboxd-egress || true'),
    '0',
    'no rule inspects, so no variables',
  );
  const read = await api.sh(
    fork.id,
    `curl -sS --cacert /dev/stdin https://api.test/secret -o /dev/null -w '%{http_code}' <<'X'\n${world.certificate}\nX`,
  );
  t.equal(read, '404', 'the server itself, by its own certificate');
  await api.call('PATCH', `/sandboxes/${fork.id}/network`, { rules: network.rules });
  t.equal(await api.sh(fork.id, CURL), 'hello', 'and inspected again');
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
});
