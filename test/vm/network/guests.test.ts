// Guests on a network, from inside and from outside: what they reach, what they do not, copies, and daemons that go and come.
import '../../support/network/own-network.ts';
import t from 'tap';
import type { Api, SandboxJson } from '../../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const internet = await openInternet(t);
const { host, web, web2, inside, metadata, neighbour } = internet.machines;
const hostState = () => host.sh('ip -br link; ip route; nft list ruleset; sysctl net.ipv4.ip_forward');
const before = await hostState();
await internet.names.serve([
  `host-record=web.test,${web.address},60`,
  `host-record=brief.test,${web2.address},1`,
  `host-record=rebound.test,${inside.address},60`,
  `host-record=meta.test,${metadata.address},60`,
  'cname=alias.test,web.test',
  'txt-record=web.test,secret',
]);
const NETWORK = {
  enabled: true,
  allowlist: ['web.test', 'alias.test', 'brief.test', 'rebound.test', 'meta.test'],
};

/** What a guest gets of each place, by a program of its own: the first line, or the error; and how long it took. */
const CONNECT = `
import json, socket, sys, time
def ask(place):
  name, port = place.rsplit(':', 1)
  at = time.monotonic()
  try:
    with socket.create_connection((name, int(port)), 20) as s: said = s.recv(99).decode().strip()
  except OSError as error: said = type(error).__name__
  return said, time.monotonic() - at
print(json.dumps({place: ask(place) for place in sys.argv[1:]}))
`;

type Said = Readonly<Record<string, readonly [string, number]>>;

async function ask(api: Api, { id }: SandboxJson, ...places: string[]): Promise<Said> {
  const { stdout, stderr } = await api.exec(id, ['python3', '-c', CONNECT, ...places]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as Said;
}

const words = (said: Said): string[] => Object.values(said).map(([word]) => word);
const fork = async (api: Api, id: string, count: number) => {
  const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  return (await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot}/fork?count=${count}`))
    .sandboxes;
};
const create = (api: Api, options: object = {}) =>
  api.create({ profile: 'python-3.11', memory_mib: 256, ...options });

t.test('a guest reaches what its names lead to, and nothing else', async (t) => {
  const { api } = await startDaemon(t, { flags: internet.daemonFlags });
  const [plain, sandbox, other] = [
    await create(api),
    await create(api, { network: NETWORK }),
    await create(api, { network: NETWORK }),
  ];
  t.equal(await api.sh(plain.id, 'ls /sys/class/net'), 'lo');
  t.notOk(plain.network?.enabled);
  const { guest_ip: guestIp, gateway } = sandbox.network ?? {};
  t.match(sandbox.network, { enabled: true, allowlist: NETWORK.allowlist });
  t.equal(await api.sh(sandbox.id, 'ls /sys/class/net'), 'eth0\nlo');
  t.equal(await api.sh(sandbox.id, 'cat /etc/resolv.conf'), `nameserver ${gateway}`);
  t.not(guestIp, other.network?.guest_ip);
  const own = 'getent hosts $(hostname) | cut -d" " -f1';
  t.equal(await api.sh(sandbox.id, own), guestIp, 'its own name means its address, as in a container');
  t.equal(await api.sh(plain.id, own), '127.0.1.1');

  const denied = [
    ...['9.9.9.10', metadata.address, neighbour.address, ...inside.addresses.slice(0, 3)],
    ...[...host.addresses.slice(0, 2), gateway, other.network?.guest_ip],
  ].map((address) => `${address}:7`);
  const early = await ask(api, sandbox, `${web.address}:7`, `${web2.address}:7`, ...denied);
  t.same([...new Set(words(early))], ['ConnectionRefusedError'], 'not even what its names would lead to');
  t.ok(
    Object.values(early).every(([, seconds]) => seconds < scaled(10)),
    'refused at once',
  );
  t.same(words(await ask(api, sandbox, 'web.test:7', 'ALIAS.test.:7', 'brief.test:7')), [
    ...[host.address, host.address, host.address],
  ]);
  t.same(words(await ask(api, sandbox, `${web.address}:7`, `${web.address}:80`)).slice(0, 1), [host.address]);
  t.same(
    [
      ...new Set(
        words(await ask(api, sandbox, 'rebound.test:7', 'meta.test:7', 'other.test:7', 'x.web.test:7')),
      ),
    ],
    ['gaierror'],
    'names that lead where nothing may go, and others',
  );
  t.same([...new Set(words(await ask(api, sandbox, ...denied)))], ['ConnectionRefusedError']);
  t.same(words(await ask(api, other, `${web.address}:7`)), ['ConnectionRefusedError'], 'answered to another');
  t.same(
    new Set(await internet.names.questions()),
    new Set(['web.test', 'alias.test', 'brief.test', 'rebound.test', 'meta.test'].map((name) => `A ${name}`)),
    'nobody was asked for anything else',
  );
  const lookUp = `import socket, sys, time; socket.gethostbyname('brief.test'); time.sleep(int(sys.argv[1]))`;
  await api.exec(other.id, ['python3', '-c', lookUp, '3']);
  t.same(
    words(await ask(api, other, `${web2.address}:7`)),
    [host.address],
    'some keep what they found for longer than the second that it lives',
  );
  await api.exec(other.id, ['sleep', '75']);
  t.same(
    words(await ask(api, other, `${web2.address}:7`)),
    ['ConnectionRefusedError'],
    'it is open for a minute, and as long beyond its last packet',
  );
  t.equal(words(await ask(api, plain, `${web.address}:7`))[0], 'OSError', 'without a network nothing at all');
});

t.test(
  'copies have addresses of their own and connect at once; connections of the source are cut',
  async (t) => {
    const { api } = await startDaemon(t, { flags: internet.daemonFlags });
    const source = await create(api, { network: NETWORK });
    const hold = `
import socket
s = socket.create_connection(('web.test', 7)); s.recv(99)
open('/tmp/held', 'w').close()
try: s.recv(99); fate = 'ended'
except OSError as error: fate = type(error).__name__
open('/tmp/fate', 'w').write(fate)
`;
    await api.exec(source.id, ['sh', '-c', '(setsid python3 -c "$1" > /dev/null 2>&1 &)', 'sh', hold]);
    await api.sh(source.id, 'until test -e /tmp/held; do sleep 0.1; done');
    const children = await fork(api, source.id, 3);
    t.equal(new Set([source, ...children].map(({ network }) => network?.guest_ip)).size, 4);
    for (const child of children) {
      t.match(child.network, { enabled: true, allowlist: NETWORK.allowlist });
      t.match(await api.sh(child.id, 'getent hosts $(hostname)'), `${child.network?.guest_ip} `);
      t.same(
        words(await ask(api, child, `${web.address}:7`)),
        ['ConnectionRefusedError'],
        'it has not asked yet',
      );
      t.same(words(await ask(api, child, 'web.test:7')), [host.address]);
      await api.sh(child.id, 'until test -e /tmp/fate; do sleep 0.1; done');
      t.match(await api.sh(child.id, 'cat /tmp/fate'), /^Connection(Aborted|Reset)Error$/);
      const addresses = await api.sh(child.id, 'grep -o "[0-9.]*" /proc/net/fib_trie | sort -u');
      t.notOk(addresses.split('\n').includes(source.network?.guest_ip ?? ''));
    }
    t.equal(await api.sh(source.id, 'ls /tmp/fate 2> /dev/null || true'), '', 'the source’s goes on');
    t.same(words(await ask(api, source, 'web.test:7')), [host.address]);
  },
);

t.test('a connection outlives its daemon, and the next one answers for names', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const first = await spawnDaemon(directories, { flags: internet.daemonFlags, onExit: 'keep' });
  const sandbox = await create(first.api, { network: NETWORK });
  const talk = `
import socket, time
s = socket.create_connection(('web.test', 7)); s.recv(99)
said = 0
while True:
  s.sendall(b'x'); assert s.recv(1) == b'x'
  said += 1; open('/tmp/said', 'w').write(str(said)); time.sleep(0.05)
`;
  await first.api.exec(sandbox.id, ['sh', '-c', '(setsid python3 -c "$1" > /tmp/log 2>&1 &)', 'sh', talk]);
  await first.api.sh(sandbox.id, 'until test -s /tmp/said; do sleep 0.1; done');
  await first.end('SIGKILL');
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const second = await spawnDaemon(directories, { flags: internet.daemonFlags });
  t.teardown(() => second.end());
  const said = async (): Promise<number> => Number(await second.api.sh(sandbox.id, 'cat /tmp/said'));
  const then = await said();
  await second.api.sh(sandbox.id, `until test "$(cat /tmp/said)" -gt ${then + 3}; do sleep 0.1; done`);
  t.equal(await second.api.sh(sandbox.id, 'cat /tmp/log'), '');
  t.same(words(await ask(second.api, sandbox, `${web.address}:7`, 'web.test:7', `${web2.address}:7`)), [
    ...[host.address, host.address, 'ConnectionRefusedError'],
  ]);
  t.match((await second.api.list())[0]?.network, sandbox.network);
  await second.api.delete(sandbox.id);
});

t.test('afterwards the host’s network is what it was', async (t) => {
  t.equal(await hostState(), before);
});
