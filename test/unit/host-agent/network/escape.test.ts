// All escape routes for a guest's packets: none leaves the namespace of its sandbox. Without the rules, the same
// packets do.
import '../../../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import type { NetworkSlot } from '../../../../host-agent/src/network/index.ts';
import { compileGuestProgram } from '../../../support/guest-program.ts';
import {
  type Guest,
  HOST_IP,
  Lab,
  OTHER_IP,
  PRIVATE_IP,
  sh,
  UNHEARD,
  WEB_IP,
} from '../../../support/network/lab.ts';
import { namesOn, Witness } from '../../../support/network/witness.ts';

t.setTimeout(120_000);
const run = promisify(execFile);
const lab = await Lab.open(t);
await Promise.all(['escape', 'witness'].map((name) => compileGuestProgram(name, lab.dir)));
const witness = join(lab.dir, 'witness');
await sh(`ip addr add 93.184.216.77/32 dev eth0`);
const network = await lab.openNetwork();
t.teardown(() => network.close());
lab.names.set('web.example', [WEB_IP]);

async function makeSlot(): Promise<NetworkSlot> {
  const slot = await network.allocate();
  await network.create(slot);
  t.teardown(() => network.destroy(slot));
  await network.start(slot, {
    allowlist: ['web.example'],
    ...UNHEARD,
  });
  return slot;
}

const [slot, peer] = [await makeSlot(), await makeSlot()];
const guest = await lab.boot(slot);
await lab.boot(peer);
const resolve = (who: Guest): Promise<string> =>
  who.js(
    `const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']); console.log(await dns.resolve4('web.example'))`,
  );

/** Sends everything; returns the names of what was sent. */
async function tryEverything(namespace: string, link = 'eth0'): Promise<string[]> {
  const transit = (
    await sh(`ip -4 -o addr show | grep -v ' eth0 \\| lo ' | awk '{print $4}' | head -n 1`)
  ).trim();
  const addresses = {
    ...{ own: slot.guestIp, gateway: slot.gateway, open: WEB_IP, closed: OTHER_IP },
    ...{ host: HOST_IP, host2: '93.184.216.77', transit: transit.split('/')[0] ?? '', peer: peer.guestIp },
    ...{ resolver: slot.resolverIp, 'peer-resolver': peer.resolverIp },
    ...{ 'peer-gateway': peer.gateway, dns: '9.9.9.9', metadata: '169.254.169.254' },
    ...{ private: PRIVATE_IP, 'private-172': '172.16.0.1', 'private-192': '192.168.1.1' },
    ...{ cgnat: '100.64.0.5', benchmark: '198.18.0.5', documentation: '203.0.113.5', reserved: '240.0.0.5' },
    ...{ 'azure-metadata': '168.63.129.16', relay: '192.88.99.1' },
  };
  const named = Object.entries(addresses).map(([name, address]) => `${name}=${address}`);
  const { stdout } = await run('nsenter', [`--net=${namespace}`, join(lab.dir, 'escape'), link, ...named]);
  return stdout.trim().split('\n');
}

let everything: string[] = [];

t.test('without rules on its way each packet arrives as it was sent', async (t) => {
  await sh(`: > ${lab.dir}/bare; unshare --net=${lab.dir}/bare true`);
  t.teardown(() => sh(`umount ${lab.dir}/bare`));
  const bare = join(lab.dir, 'bare');
  await sh(
    'ip tuntap add tap0 mode tap vnet_hdr; sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set tap0 up',
    bare,
  );
  const other = await lab.boot({ ...slot, namespace: bare, guestIp: '10.99.0.2', gateway: '10.99.0.1' });
  const watch = await Witness.start(witness, bare);
  everything = (await tryEverything(other.namespace)).filter(
    (name) => !['before', 'related', 'after'].includes(name),
  );
  t.ok(everything.length > 400, `${everything.length} ways`);
  t.equal(new Set(everything).size, everything.length, 'each has a name of its own');
  t.same(new Set(namesOn(await watch.end(), 'escape', 'tap0')), new Set(everything));
});

t.test('from a sandbox none of them leaves its namespace, and what is allowed does', async (t) => {
  t.match(await resolve(guest), WEB_IP);
  const [inside, host, internet, neighbour] = await Promise.all(
    [slot.namespace, undefined, lab.internet, peer.namespace].map((space) => Witness.start(witness, space)),
  );
  await tryEverything(guest.namespace);
  const [tap, ...others] = await Promise.all(
    [inside, host, internet, neighbour].map((each) => each?.end() ?? []),
  );
  t.same(new Set(namesOn(tap ?? [], 'escape', 'tap0')), new Set(everything), 'all were there');
  t.same(
    (tap ?? []).filter((line) => !line.startsWith('tap0 ') && line.includes('<escape:')),
    [],
    'none went any further',
  );
  for (const seen of others) t.same(namesOn(seen, 'escape'), []);
  t.same(namesOn(tap ?? [], 'control', 'up0'), ['before', 'related', 'after']);
  t.same(new Set(namesOn(others[1] ?? [], 'control')), new Set(['before', 'related', 'after']));
});

t.test('what could be routed is, once the rules of its namespace are gone', async (t) => {
  const host = await Witness.start(witness);
  await sh('nft flush ruleset', slot.namespace);
  await tryEverything(guest.namespace);
  const passed = new Set(namesOn(await host.end(), 'escape'));
  const places = everything.filter((name) => /^(udp|tcp|ping) to (?!the )/.test(name));
  t.ok(places.length > 150);
  // The kernel itself does not forward to these.
  const routable = places.filter((name) => !/ to reserved| to peer-gateway/.test(name));
  t.same(
    routable.filter((name) => !passed.has(name)),
    [],
  );
  for (const name of [
    'first fragment',
    'later fragment',
    'record route',
    'router alert',
    'the source of another sandbox',
    'ip in ip',
    'gre',
    'redirect',
    'unreachable about its connection to closed',
    'time exceeded about its connection to metadata',
    'timestamp request',
    'ack without a connection',
    'all flags',
    'teredo',
  ])
    t.ok(passed.has(name), name);
});
