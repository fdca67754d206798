// A kill -9 of the daemon at each step at which a network is made, forked, published or removed: the next one leaves no namespace,
// link, route, rule, port or lease without a sandbox, and sandboxes that live keep their connections, their names and their ports.
import '../../support/network/own-network.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { FaultPoint } from '../../../host-agent/src/lib/faults.ts';
import type { SandboxJson } from '../../support/api.ts';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { findViolations, listHoldings } from '../../support/invariants.ts';
import { findNetworkViolations } from '../../support/network/violations.ts';
import { untilOwnTemplate } from '../../support/templates.ts';
import { scaled } from '../../support/time-scale.ts';
import { until } from '../../support/until.ts';

t.setTimeout(scaled(1_500_000));
const isSoak = process.env.SOAK === '1';
const internet = await openInternet(t);
const { host, web, neighbour } = internet.machines;
await internet.names.serve([
  `host-record=web.test,${web.address},60`,
  `host-record=late.test,${web.address},1`,
]);
const hostState = () => host.sh('ip -br link; ip route; nft list ruleset; sysctl net.ipv4.ip_forward');
const before = await hostState();
const directories = await makeDirectories();
const faultsPath = join(directories.dataDir, 'faults');
const options = { onExit: 'keep', faultsPath, flags: internet.daemonFlags } as const;
let daemon = await spawnDaemon(directories, options);

const network = { enabled: true, allowlist: ['web.test', 'late.test'] };
const OPTIONS = { memory_mib: 128, network };
/** Of the one that lives through it all, of what is made meanwhile, and of a copy. */
const [KEPT, MADE, COPIED] = [8080, 8081, 8082];
const publish = (host_port: number) => [{ host_port, guest_port: 8000 }];

/** Says so often what comes back, over a connection that is never made anew, and answers who connects to port 8000. */
const TALK = `
import socket, threading, time
def echo(c):
  while True:
    b = c.recv(99)
    if not b: return
    c.sendall(b)
def serve():
  s = socket.create_server(('', 8000))
  while True: threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
s = socket.create_connection(('web.test', 7)); s.recv(99)
said = 0
while True:
  s.sendall(b'x'); assert s.recv(1) == b'x'
  said += 1; open('/tmp/said', 'w').write(str(said)); time.sleep(0.05)
`;
const bystander = await daemon.api.create({
  profile: 'python-3.11',
  memory_mib: 256,
  network,
  publish: publish(KEPT),
  service: { cmd: ['python3', '-c', TALK] },
});
await daemon.api.sh(bystander.id, 'until test -s /tmp/said; do sleep 0.1; done');

/** A connection from another host to its published port, which is never made anew either. */
const visitor = neighbour.start(
  process.execPath,
  '-e',
  `const s = require('net').connect(${KEPT}, '${host.address}'); let n = 0;
   s.on('data', () => { console.log(++n); setTimeout(() => s.write('x'), 50); }); s.on('connect', () => s.write('x'));
   s.on('error', (e) => console.log(e.code)); s.on('close', () => console.log('closed'));`,
);
let heard = '';
visitor.stdout?.setEncoding('latin1').on('data', (text: string) => {
  heard = text.trim().split('\n').at(-1) ?? '';
});
await until(() => Number(heard) > 0, 'an answer from the published port', 60_000);

// What is made behind an answer would meet the faults.
await untilOwnTemplate(daemon, OPTIONS);
const source = await daemon.api.create(OPTIONS);
const snapshot = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${source.id}/snapshot`);

type Case = {
  readonly name: string;
  readonly points: readonly FaultPoint[];
  readonly passes?: number;
  /** Its result goes to `run`. */
  readonly prepare?: () => Promise<string>;
  readonly run: (id: string) => Promise<unknown>;
  /** Ports that are there if the result stays. */
  readonly ports: readonly number[];
  readonly keepsAfter?: FaultPoint;
  readonly count?: number;
};

const MAKING: readonly FaultPoint[] = [
  'start.network-recorded',
  'start.network-made',
  'start.network-published',
  'start.network',
];
const AROUND: readonly FaultPoint[] = isSoak
  ? ['start.recorded', 'start.vm', 'start.agent', 'start.made']
  : [];
const create = () => daemon.api.create({ ...OPTIONS, publish: publish(MADE) });
const fork = (count: number, body?: object) =>
  daemon.api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork?count=${count}`,
    body,
  );

const CASES: readonly Case[] = [
  {
    name: 'create with a published port',
    points: [...MAKING, ...AROUND, 'start.committed'],
    run: create,
    ports: [MADE],
    keepsAfter: 'start.committed',
  },
  {
    name: 'fork of four',
    points: [...(isSoak ? MAKING : (['start.network-made'] as const)), ...AROUND],
    passes: 2,
    run: () => fork(4),
    ports: [],
  },
  {
    name: 'fork with a published port',
    points: [...(isSoak ? MAKING : (['start.network-published'] as const)), 'start.committed'],
    run: () => fork(1, { publish: publish(COPIED) }),
    ports: [COPIED],
    keepsAfter: 'start.committed',
  },
  {
    name: 'delete with a published port',
    points: [
      ...(['delete.marked', 'delete.network-silenced', 'delete.network'] as const),
      ...(isSoak ? (['delete.killed', 'delete.directories', 'delete.forgotten'] as const) : []),
    ],
    prepare: async () => (await create()).id,
    run: (id) => daemon.api.delete(id),
    ports: [],
  },
];

for (const one of CASES)
  for (const point of one.points)
    t.test(`${one.name}, kill at ${point}`, async (t) => {
      const holdings = await listHoldings(daemon);
      const id = (await one.prepare?.()) ?? '';
      writeFileSync(faultsPath, `${point} kill ${one.passes ?? 0}`);
      await one.run(id).catch(() => undefined);
      t.equal(await daemon.exited, null, 'the daemon was killed');
      writeFileSync(faultsPath, '');
      daemon = await spawnDaemon(directories, options);
      const { api } = daemon;
      const isKept = point === one.keepsAfter;
      const added = (await listHoldings(daemon)).sandboxes.filter(
        (name) => !holdings.sandboxes.includes(name),
      );
      t.equal(added.length, isKept ? (one.count ?? 1) : 0);
      const ports = [KEPT, ...(isKept ? one.ports : [])];
      t.same(await findNetworkViolations(daemon, ports), [], 'everything has its owner');
      t.same(await findViolations(daemon), []);
      for (const name of added) {
        t.match(await api.sh(name, 'getent ahostsv4 web.test'), web.address, 'what stayed is whole');
        await api.delete(name);
      }
      // Its connections go on, its names are answered, and a new visitor is, too.
      const said = Number(await api.sh(bystander.id, 'cat /tmp/said'));
      await api.sh(bystander.id, `until test "$(cat /tmp/said)" -gt ${said + 2}; do sleep 0.1; done`);
      const visited = Number(heard);
      await until(() => Number(heard) > visited + 1 || Number.isNaN(Number(heard)), 'the visitor', 60_000);
      t.match(heard, /^\d+$/, 'the visitor is still connected');
      t.match(await api.sh(bystander.id, 'getent ahostsv4 late.test'), web.address);
      t.equal(
        await neighbour
          .sh(`echo hello | socat -t 20 - TCP:${host.address}:${KEPT}`)
          .then((text) => text.trim()),
        'hello',
      );
      // What was begun can be done again.
      if (point === 'start.network-published' || point === 'delete.network-silenced') {
        const again = await create();
        await api.delete(again.id);
      }
      t.same(await findNetworkViolations(daemon, [KEPT]), []);
      t.same(await listHoldings(daemon), holdings);
    });

t.test('in the end nothing is left', async (t) => {
  for (const { id } of await daemon.api.list()) await daemon.api.delete(id);
  await daemon.api.call('DELETE', `/snapshots/${snapshot.id}`);
  t.equal(await daemon.end(), 0);
  t.same(await leftovers(directories), []);
  t.equal(await hostState(), before);
  await removeDirectories(directories);
});
