// Networks of sandboxes, with VMs in memory: creation, adoption by the next daemon, and complete removal.
import '../../../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import type { FaultPoint } from '../../../../host-agent/src/lib/faults.ts';
import type { Network } from '../../../../host-agent/src/network/index.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { Lab, sh } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Many daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const lab = await Lab.open(t);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();
const network = { allowlist: ['web.example'] };
const links = () => readFileSync('/proc/net/dev', 'utf8').match(/\bsbx\w+(?=:)/g) ?? [];

/** A daemon with networks; closed and cleaned up with the test. */
async function start(t: Test, options: MemoryDaemonOptions = {}) {
  const own: Network = await lab.openNetwork();
  const daemon = await startMemoryDaemon(t, { ...options, network: own });
  return { ...daemon, own };
}

t.test('a sandbox has addresses of its own, and gives them back', async (t) => {
  const { manager, own, happened } = await start(t);
  const made = await Promise.all([1, 2, 3].map(() => manager.create({ network })));
  const addresses = made.map((info) => info.network?.guestIp);
  t.equal(new Set(addresses).size, 3);
  t.match(made[0]?.network, { allowlist: ['web.example'], gateway: /^10\.87\./, guestIp: /^10\.87\./ });
  // The source of a template has a network for a while, too.
  await until(() => happened.some((event) => event.kind === 'template-made' && event.hasNetwork));
  await until(() => links().length <= 4);
  t.equal(links().length, 4, 'one each, and the one with the address of the resolver');
  const plain = await manager.create({});
  t.equal(plain.network, undefined);
  t.equal(links().length, 4);
  const { id } = await manager.get(made[0]?.id ?? '').snapshot();
  const forks = await manager.fork(id, 4);
  t.equal(new Set([...addresses, ...forks.map((info) => info.network?.guestIp)]).size, 7);
  t.same(forks[0]?.network?.allowlist, network.allowlist, 'inherited');
  for (const { id } of manager.list()) await manager.delete(id);
  await until(() => links().length === 1);
  await manager.stop('keep');
  await own.close();
  t.equal(await state(), before);
});

t.test('networks that are wanted again are of a template that has one, and no other create is', async (t) => {
  const { manager, own, host, happened } = await start(t);
  const made = () => happened.flatMap((event) => (event.kind === 'template-made' ? [event.hasNetwork] : []));
  await manager.create({ network });
  await until(() => made().length === 1);
  t.same(made(), [true], 'the guest that was booted has one');
  await manager.create({});
  await until(() => made().length === 2);
  t.same([made()[1], host.counts.boots], [false, 2]);
  for (const publish of [[], [{ hostPort: 8090, guestPort: 80 }]]) await manager.create({ network, publish });
  await until(() => made().length === 3);
  t.same([made()[2], host.counts.boots], [true, 2], 'it is made of a copy');
  const identities = (id: string) => host.of(id).agent.identities;
  const copy = await manager.create({ network });
  const plain = await manager.create({});
  t.equal(
    identities(copy.id)[0]?.network?.address,
    copy.network?.guestIp,
    'it is somebody else all the same',
  );
  t.notOk(identities(plain.id)[0]?.network);
  await until(() => links().length === 5);
  await manager.stop('destroy');
  await own.close();
  t.equal(await state(), before, 'nothing is left of what it was made of');
});

t.test('a host that lacks something is named, and makes all else', async (t) => {
  const own = await lab.openNetwork({ program: '/nonexistent/netd' });
  const { manager } = await startMemoryDaemon(t, { network: own });
  await t.rejects(manager.create({ network }), {
    code: 'unsupported',
    message: /networks of sandboxes cannot be had on this host: .*nonexistent/,
  });
  t.ok(await manager.create({}));
  await manager.stop('destroy');
  await own.close();
  t.equal(await state(), before);
});

t.test('the next daemon finds networks again, and removes those without a sandbox', async (t) => {
  const first = await start(t);
  const kept = await first.manager.create({ network });
  const slot = first.store.table<{ network: { namespace: string } }>('sandboxes').get(kept.id)?.network;
  const stray = await first.own.allocate();
  await first.own.create(stray);
  t.equal(links().length, 3);
  await first.crash();
  await first.own.close();
  const second = await start(t, { home: first.home });
  t.equal(links().length, 2);
  t.same(
    second.manager.list().map(({ network }) => network),
    [kept.network],
  );
  const guest = await lab.boot({ ...stray, ...(slot as typeof stray) });
  lab.names.set('web.example', ['93.184.215.14']);
  t.equal(
    await guest.js(
      `const r = new (require('dns').promises.Resolver)(); r.setServers(['${kept.network?.gateway}']); console.log(await r.resolve4('web.example'))`,
    ),
    "[ '93.184.215.14' ]",
  );
  guest.unplug();
  await second.manager.stop('destroy');
  await second.own.close();
  t.equal(await state(), before);
});

t.test(
  'a sandbox whose record has no resolver address loses its network, and no resolver listens on every address',
  async (t) => {
    const first = await start(t);
    const publish = [{ hostPort: 8091, guestPort: 80 }];
    const [lost, kept] = [
      await first.manager.create({ network, publish }),
      await first.manager.create({ network }),
    ];
    const records = first.store.table<SandboxRecord>('sandboxes');
    const record = records.get(lost.id);
    const { resolverIp: _, ...older } = record?.network ?? {};
    await records.put(lost.id, { ...record, network: older } as SandboxRecord);
    await first.crash();
    await first.own.close();
    const second = await start(t, { home: first.home });
    t.same(second.manager.list().length, 2, 'the sandbox itself goes on');
    const warnings = second.lines.filter(({ level }) => Number(level) >= 40);
    t.match(
      warnings.map(({ msg, err }) => [msg, (err as Error | undefined)?.message]),
      [
        ['a sandbox has lost its network', /^the network's record has no resolverIp of 10\.87\.0\.0\/16$/],
        ['a sandbox has lost its published ports', /resolverIp/],
      ],
    );
    const addresses = (await sh('ss -Htuln')).match(/\S+(?=:1013\s)/g) ?? [];
    const own = second.store.table<SandboxRecord>('sandboxes').get(kept.id)?.network?.resolverIp;
    t.same(new Set(addresses), new Set([own]), 'only the other one has a resolver');
    await second.manager.stop('destroy');
    await second.own.close();
    t.equal(await state(), before);
  },
);

t.test('a crash anywhere leaves nothing that the next start does not remove', async (t) => {
  const points: FaultPoint[] = [
    'start.network-recorded',
    'start.network-made',
    'start.network-published',
    'start.network',
    'start.vm',
    'start.made',
    'delete.network-silenced',
    'delete.killed',
    'delete.network',
  ];
  for (const point of points) {
    let isArmed = false;
    const faults = {
      reach: (at: FaultPoint) => {
        if (isArmed && at === point) throw new Error(`a fault at ${point}`);
      },
    };
    const first = await start(t, { faults });
    await first.manager.create({});
    isArmed = true;
    const made = await first.manager.create({ network }).catch(() => undefined);
    if (made !== undefined) await first.manager.delete(made.id).catch(() => undefined);
    await first.crash();
    await first.own.close();
    const second = await start(t, { home: first.home });
    t.same(links(), [], point);
    await second.manager.stop('destroy');
    await second.own.close();
    t.equal(await state(), before, point);
  }
});
