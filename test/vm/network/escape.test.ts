// Every way out that a guest's packets might find, from a real guest and from a copy of it: none leads anywhere.
import '../../support/network/own-network.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Api, SandboxJson } from '../../support/api.ts';
import { startDaemon } from '../../support/daemon.ts';
import { makeTar, push } from '../../support/files.ts';
import { compileGuestProgram } from '../../support/guest-program.ts';
import { openInternet } from '../../support/internet/index.ts';
import { namesOn, Witness } from '../../support/network/witness.ts';
import { scaled } from '../../support/time-scale.ts';
import { vmmPids } from '../../support/vmms.ts';

t.setTimeout(scaled(400_000));
const dir = await mkdtemp('/tmp/escape-');
t.teardown(() => rm(dir, { recursive: true, force: true }));
const program = await compileGuestProgram('escape', dir);
await compileGuestProgram('witness', dir);
const internet = await openInternet(t);
const { host, web, web2, inside, metadata, neighbour, special, dns } = internet.machines;
await internet.names.serve([`host-record=web.test,${web.address},600`]);
const network = { enabled: true, allowlist: ['web.test'] };

const RESOLVE = `import socket; print(socket.gethostbyname('web.test'))`;

/** Questions that would carry something out, or bring in what is not for this guest. */
const ASK = `
import socket, struct, sys
def name(text): return b''.join(bytes([len(part)]) + part for part in text.encode().split(b'.')) + b'\\0'
def query(text, kind=1, flags=0x0100, family=1, count=1, raw=None):
  return struct.pack('>6H', 7, flags, count, 0, 0, 0) + (raw or name(text) + struct.pack('>2H', kind, family)) * count
long = '.'.join(['a' * 63] * 3) + '.web.test'
queries = [query('c2VjcmV0.other.test'), query('x.web.test'), query(long), query('web.test.other.test'), query('webxtest'),
  *[query('web.test', kind) for kind in (2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 43, 48, 65, 99, 252, 255, 257)],
  query('web.test', family=3), query('web.test', family=255), query('version.bind', 16, family=3),
  query('other.test', flags=0x8180), query('web.test', flags=0x2900), query('other.test', count=2),
  query('', raw=b'\\xc0\\x0c' + struct.pack('>2H', 1, 1)), query('', raw=b'\\x3f' + b'a' * 20), b'', b'\\0' * 11, b'\\xff' * 700]
gateway = sys.argv[1]
for each in queries:
  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(each, (gateway, 53)); s.close()
for each in queries:
  try:
    with socket.create_connection((gateway, 53), 5) as s: s.sendall(struct.pack('>H', len(each)) + each)
  except OSError: pass
print(len(queries))
`;

function addressesFor(sandbox: SandboxJson, peer: SandboxJson): string[] {
  const { guest_ip: own = '', gateway = '' } = sandbox.network ?? {};
  // Where the host answers its questions, and another's.
  const [resolver, peerResolver] = [gateway, peer.network?.gateway ?? ''].map((address) =>
    address.replace(/\d+$/, (last) => String(Number(last) + 2)),
  );
  const named = {
    ...{ resolver, 'peer-resolver': peerResolver },
    ...{
      own,
      gateway,
      open: web.address,
      closed: web2.address,
      dns: dns.address,
      metadata: metadata.address,
    },
    ...{ host: host.address, host2: host.addresses[1], transit: '10.87.0.1' },
    ...{ peer: peer.network?.guest_ip, 'peer-gateway': peer.network?.gateway, neighbour: neighbour.address },
  };
  const others = [...inside.addresses, ...special.addresses].filter((address) => !address.includes(':'));
  return [
    ...Object.entries(named).map(([name, address]) => `${name}=${address}`),
    ...others.map((address, index) => `range${index}=${address}`),
  ];
}

async function tryToEscape(t: Test, api: Api, sandbox: SandboxJson, peer: SandboxJson): Promise<void> {
  t.equal((await api.exec(sandbox.id, ['python3', '-c', RESOLVE])).stdout.trim(), web.address);
  const [pid = 0] = await vmmPids(sandbox.id);
  const [peerPid = 0] = await vmmPids(peer.id);
  const spaces = [
    `/proc/${pid}/ns/net`,
    host.path,
    internet.router.path,
    `/proc/${peerPid}/ns/net`,
    dns.path,
  ];
  const witnesses = await Promise.all(spaces.map((space) => Witness.start(join(dir, 'witness'), space)));
  const addresses = addressesFor(sandbox, peer);
  const { stdout, stderr } = await api.exec(sandbox.id, ['/root/escape', 'eth0', ...addresses]);
  t.equal(stderr, '');
  const tried = stdout.trim().split('\n').slice(2, -1);
  t.ok(tried.length > 400, `${tried.length} ways`);
  const [own = [], ...others] = await Promise.all(witnesses.map((witness) => witness.end()));
  t.same(new Set(namesOn(own, 'escape', 'tap0')), new Set(tried), 'the guest sent them all');
  t.same(
    own.filter((line) => !line.startsWith('tap0 ') && line.includes('<escape:')),
    [],
  );
  for (const [index, seen] of others.entries()) t.same(namesOn(seen, 'escape'), [], spaces[index + 1] ?? '');
  t.same(
    new Set(namesOn(others[1] ?? [], 'control')),
    new Set(['before', 'related', 'after']),
    'what is allowed passes',
  );

  const asked = (await internet.names.questions()).length;
  const gateway = sandbox.network?.gateway ?? '';
  const said = await api.exec(sandbox.id, ['python3', '-c', ASK, gateway]);
  t.ok(Number(said.stdout) > 30, said.stderr);
  t.equal((await api.exec(sandbox.id, ['python3', '-c', RESOLVE])).stdout.trim(), web.address);
  t.same(
    (await internet.names.questions()).slice(asked).filter((question) => question !== 'A web.test'),
    [],
    'no name carries anything out',
  );
}

t.test('nothing gets out of a sandbox, nor out of a copy of one', async (t) => {
  const { api } = await startDaemon(t, { flags: internet.daemonFlags });
  const options = { profile: 'python-3.11', memory_mib: 256, network };
  const [sandbox, peer] = [await api.create(options), await api.create(options)];
  const archive = await makeTar([{ name: 'escape', mode: 0o755, content: program }]);
  t.match(await push(api, sandbox.id, '/root', archive), { status: 200 });
  await tryToEscape(t, api, sandbox, peer);
  const { id } = await api.call<{ id: string }>('POST', `/sandboxes/${sandbox.id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${id}/fork?count=1`);
  await tryToEscape(t, api, sandboxes[0] as SandboxJson, sandbox);
});
