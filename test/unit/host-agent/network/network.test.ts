// Networks of sandboxes from their guests' side, without VMs.
import '../../../support/network/own-network.ts';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import type { HostSideRecord } from '../../../../host-agent/src/network/host-side.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { arp, frame, packet } from '../../../support/network/frames.ts';
import { Lab, OTHER_IP, PRIVATE_IP, sh, UNHEARD, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
const lab = await Lab.open(t);
await lab.serve(
  lab.internet,
  `require('net').createServer((s) => s.end('hello ' + s.remoteAddress)).listen(81, '0.0.0.0', () => console.log('up'))`,
);
const before = await sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward');

const CONNECT = `const connect = (host, port = 81) => new Promise((resolve) => {
  const s = require('net').connect(port, host); let text = '';
  const timer = setTimeout(() => { s.destroy(); resolve('timeout'); }, 3000);
  s.on('data', (d) => text += d); s.on('error', (e) => { clearTimeout(timer); resolve(e.code); });
  s.on('close', () => { clearTimeout(timer); resolve(text); });
});
const dns = new (require('dns').promises.Resolver)({ timeout: 2000, tries: 2 });
`;

t.test('a guest reaches what its allowlist names once it has asked, and nothing else', async (t) => {
  const network = await lab.openNetwork();
  lab.names.set('web.example', [WEB_IP]);
  lab.names.set('other.example', [OTHER_IP]);
  const slot = await network.allocate();
  await network.create(slot);
  const denied: string[] = [];
  await network.start(slot, {
    allowlist: ['web.example'],
    wasServed: false,
    onDenied: (text) => denied.push(text),
    onEgress: () => undefined,
  });
  const guest = await lab.boot(slot);
  const said = await guest.js(`${CONNECT}
    dns.setServers(['${slot.gateway}']);
    const out = {};
    out.before = await connect('${WEB_IP}');
    out.resolved = await dns.resolve4('WEB.example.', { ttl: true });
    out.after = await connect('${WEB_IP}');
    out.other = await connect('${OTHER_IP}');
    out.otherName = await dns.resolve4('other.example').catch((e) => e.code);
    out.six = await dns.resolve6('web.example').catch((e) => e.code);
    out.host = await connect('93.184.215.1', 22);
    out.gateway = await connect('${slot.gateway}', 22);
    console.log(JSON.stringify(out));
  `);
  t.same(JSON.parse(said), {
    before: 'ECONNREFUSED',
    resolved: [{ address: WEB_IP, ttl: 60 }],
    after: 'hello 93.184.215.1',
    other: 'ECONNREFUSED',
    otherName: 'ENOTFOUND',
    six: 'ENODATA',
    host: 'ECONNREFUSED',
    gateway: 'ECONNREFUSED',
  });
  t.notOk(
    lab.names.asked.some((name) => name.startsWith('other')),
    'what is not allowed is never asked for',
  );
  t.ok(denied.includes('network: denied name other.example: not in the allowlist'));
  await until(() => denied.some((text) => text.startsWith(`network: denied tcp ${OTHER_IP}:81`)));
  await network.destroy(slot);
  await network.close();
  t.equal(await sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward'), before);
});

t.test('a slot of another run directory is used, removed, and made again when it is lost', async (t) => {
  const dirs = await Promise.all(['first', 'next'].map((name) => mkdtemp(join(lab.dir, `${name}-`))));
  const [firstDir = '', nextDir = ''] = dirs;
  const first = await lab.openNetwork({ runDir: firstDir });
  lab.names.set('web.example', [WEB_IP]);
  const slots = [await first.allocate(), await first.allocate()] as const;
  for (const slot of slots) await first.create(slot);
  await first.publish(slots[0], [{ hostPort: 18_099, guestPort: 80 }]);
  await first.close();

  const next = await lab.openNetwork({ runDir: nextDir });
  const [kept, lost] = slots;
  for (const slot of slots) next.adopt(slot);
  await next.adoptPorts(kept, [{ hostPort: 18_099, guestPort: 80 }], false);
  await next.tidy();
  t.same(await Promise.all(slots.map((slot) => next.exists(slot))), [true, true]);
  await next.destroy(kept);
  t.same(
    [await next.exists(kept), existsSync(kept.namespace), existsSync(join(firstDir, 'ports'))],
    [false, false, false],
    'with its holder',
  );

  // As a reboot of a container: the mounts are gone, the files may stay, and here a process as well.
  await next.adoptPorts(lost, [{ hostPort: 18_098, guestPort: 80 }], true);
  await sh(`umount ${lost.namespace}`);
  t.equal(await next.exists(lost), false);
  const last = await lab.openNetwork({ runDir: firstDir });
  last.adopt(lost);
  for (let count = 0; count < 2; count++) {
    await last.createAgain(lost);
    await last.publish(lost, [{ hostPort: 18_098, guestPort: 80 }], true);
  }
  await last.stop(lost);
  await last.close();
  const placed = next.placed(lost);
  t.same(placed, { ...lost, namespace: join(nextDir, 'net', lost.namespace.split('/').at(-1) ?? '') });
  for (let count = 0; count < 2; count++) await next.createAgain(placed);
  await next.start(placed, { allowlist: ['web.example'], ...UNHEARD });
  const guest = await lab.boot(placed);
  t.match(
    await guest.js(`${CONNECT}
      dns.setServers(['${placed.gateway}']);
      await dns.resolve4('web.example');
      console.log(await connect('${WEB_IP}'));
    `),
    /^hello 93\.184\.215\.1/,
  );
  await t.rejects(next.createAgain({ ...placed, guestIp: '192.0.2.2' }), { code: 'conflict' });
  await next.destroy(placed);
  await next.close();
  // What the daemon between the two made.
  await sh(`umount ${lost.namespace}`);
  t.equal(await sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward'), before);
  t.same(readdirSync(nextDir), []);
});

t.test('after a reboot the range is the one of before, as far as it is free', async (t) => {
  const store = await Store.open(join(await mkdtemp(join(lab.dir, 'range-')), 'state.lmdb'));
  t.teardown(() => store.close());
  const records = store.table<HostSideRecord>('network');
  const record = { subnet: '10.201.0.0/16', bootId: 'an earlier one', isForwardingOurs: true };
  for (const isTaken of [false, true]) {
    await records.put('host', record);
    if (isTaken) await sh('ip route add 10.201.7.0/24 dev lo');
    const network = await lab.openNetwork({ records });
    const slot = await network.allocate();
    t.equal(slot.guestIp.startsWith('10.201.'), !isTaken);
    await network.destroy(slot);
    await sh(isTaken ? 'ip route del 10.201.7.0/24 dev lo' : 'true');
    await network.close();
    await records.remove('host');
  }
});

t.test(
  'daemons that want a network in the same moment have ranges of their own, and the last one tidies up',
  async (t) => {
    lab.names.set('web.example', [WEB_IP]);
    const make = async () => {
      const dir = await mkdtemp(join(lab.dir, 'daemon-'));
      const store = await Store.open(join(dir, 'state.lmdb'));
      t.teardown(() => store.close());
      const network = await lab.openNetwork({ records: store.table('network'), runDir: dir });
      const slot = await network.allocate();
      await network.create(slot);
      await network.start(slot, {
        allowlist: ['web.example'],
        ...UNHEARD,
      });
      return { network, slot };
    };
    const daemons = await Promise.all([make(), make(), make()]);
    t.equal(new Set(daemons.map(({ slot }) => slot.guestIp.split('.')[1])).size, 3);
    const ask = async ({ slot }: (typeof daemons)[number]) => {
      const guest = await lab.boot(slot);
      return guest.js(`${CONNECT}
      dns.setServers(['${slot.gateway}']);
      await dns.resolve4('web.example');
      console.log(await connect('${WEB_IP}'));
    `);
    };
    for (const daemon of daemons) {
      t.match(await ask(daemon), /^hello 93\.184\.215\.1/);
      await daemon.network.destroy(daemon.slot);
      await daemon.network.close();
    }
    t.equal(await sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward'), before);
  },
);

/** The firewalls of Docker and ufw, and a native nftables firewall. */
const FIREWALLS = {
  'iptables, as Docker does it': 'iptables-nft -P FORWARD DROP',
  'iptables, as ufw does it': 'iptables-nft -P FORWARD DROP; iptables-nft -P INPUT DROP',
  nftables: `nft add table inet firewall
    for hook in forward input; do nft "add chain inet firewall $hook { type filter hook $hook priority 0; policy drop; }"; done`,
};

for (const [name, firewall] of Object.entries(FIREWALLS))
  t.test(`rules of others that drop are named, with what lets sandboxes through: ${name}`, async (t) => {
    await sh(firewall);
    const lines: string[] = [];
    const network = await lab.openNetwork({
      log: pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line).msg) }),
    });
    lab.names.set('web.example', [WEB_IP]);
    const slot = await network.allocate();
    await network.create(slot);
    await network.start(slot, {
      allowlist: ['web.example'],
      ...UNHEARD,
    });
    const guest = await lab.boot(slot);
    const resolve = `${CONNECT} dns.setServers(['${slot.gateway}']); await dns.resolve4('web.example');`;
    const reach = () => guest.js(`${resolve} console.log(await connect('${WEB_IP}'))`);
    t.not(await reach(), 'hello 93.184.215.1', 'otherwise there is nothing to allow');
    const commands = /allow it: (.*)$/.exec(lines[0] ?? '')?.[1]?.split('; ') ?? [];
    t.ok(commands.length >= 2, lines.join());
    // The same commands, with iptables-nft.
    for (const command of commands) await sh(command.replace(/^iptables /, 'iptables-nft '));
    // For the host itself, whose traffic reaches the lab's name server.
    await sh(firewall.includes('INPUT') ? 'iptables-nft -I INPUT -i lo -j ACCEPT' : 'true');
    await sh(firewall.includes('input') ? 'nft insert rule inet firewall input iifname lo accept' : 'true');
    t.equal(await reach(), 'hello 93.184.215.1');
    await sh(firewall.startsWith('nft') ? 'nft delete table inet firewall' : 'nft delete table ip filter');
    guest.unplug();
    await network.destroy(slot);
    await network.close();
  });

t.test('a route that came after the range was chosen is named at the next start', async (t) => {
  const first = await lab.openNetwork();
  const slot = await first.allocate();
  await first.create(slot);
  await first.close();
  await sh(`ip route add ${slot.gateway.replace(/\d+\.\d+$/, '77.0')}/24 dev eth0`);
  const lines: string[] = [];
  const second = await lab.openNetwork({
    log: pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line).msg) }),
  });
  t.match(lines.join(), /10\.87\.0\.0\/16, overlaps the route to 10\.87\.77\.0\/24 by eth0/);
  second.adopt(slot);
  await second.destroy(slot);
  await second.close();
  await sh(`ip route delete ${slot.gateway.replace(/\d+\.\d+$/, '77.0')}/24 dev eth0`);
  const third = await lab.openNetwork();
  t.equal(lines.length, 1, 'without sandboxes nothing is left to clash');
  await third.close();
});

t.test('no frame leaves that is not what it should be', async (t) => {
  const network = await lab.openNetwork();
  lab.names.set('web.example', [WEB_IP]);
  const slot = await network.allocate();
  await network.create(slot);
  await network.start(slot, {
    allowlist: ['web.example'],
    ...UNHEARD,
  });
  const guest = await lab.boot(slot);
  await guest.js(`${CONNECT} dns.setServers(['${slot.gateway}']); await dns.resolve4('web.example');`);
  const outside = await lab.start(['sniff', 'up0'], slot.namespace);
  const back = await lab.start(['sniff', 'eth0'], guest.namespace);
  /** Answers also pass here. */
  const answer = Buffer.from(WEB_IP.split('.').map(Number)).toString('hex');
  const sent = () => outside.lines.filter((line) => line.slice(52, 60) !== answer);
  const { guestIp: from, gateway } = slot;
  const good = { from, to: WEB_IP };
  const attacks: Record<string, Buffer> = {
    'source address of another': frame(packet({ ...good, from: '10.87.1.2' })),
    'source address of the host': frame(packet({ ...good, from: '93.184.215.1' })),
    'source address of the gateway': frame(packet({ ...good, from: gateway })),
    'source address 0.0.0.0': frame(packet({ ...good, from: '0.0.0.0' })),
    'source address 127.0.0.1': frame(packet({ ...good, from: '127.0.0.1' })),
    'source MAC of the gateway': frame(packet(good), { fromMac: '02:00:00:00:00:01' }),
    'source MAC of nobody': frame(packet(good), { fromMac: '02:00:00:00:00:09' }),
    'source MAC of many': frame(packet(good), { fromMac: '03:00:00:00:00:02' }),
    'to everybody': frame(packet(good), { toMac: 'ff:ff:ff:ff:ff:ff' }),
    'to a group': frame(packet(good), { toMac: '01:00:5e:00:00:01' }),
    'to another MAC': frame(packet(good), { toMac: '02:00:00:00:00:07' }),
    'a VLAN tag': frame(packet(good), { tags: '81000001' }),
    'a VLAN tag of priority only': frame(packet(good), { tags: '81000000' }),
    'two VLAN tags': frame(packet(good), { tags: '8100000181000002' }),
    'a service VLAN tag': frame(packet(good), { tags: '88a80001' }),
    IPv6: frame(Buffer.concat([Buffer.from('600000000008113f', 'hex'), Buffer.alloc(40)]), { type: 0x86dd }),
    'IPv6 in an IPv4 frame': frame(packet({ ...good, version: 6 })),
    'IPv6 in IPv4': frame(packet({ ...good, protocol: 41 })),
    'IPv4 in IPv4': frame(packet({ ...good, protocol: 4, payload: packet({ from, to: PRIVATE_IP }) })),
    GRE: frame(packet({ ...good, protocol: 47 })),
    ESP: frame(packet({ ...good, protocol: 50 })),
    SCTP: frame(packet({ ...good, protocol: 132 })),
    IGMP: frame(packet({ from, to: '224.0.0.22', protocol: 2 })),
    'a first fragment': frame(packet({ ...good, fragment: 0x2000 })),
    'a later fragment': frame(packet({ ...good, fragment: 100 })),
    'loose source routing': frame(packet({ ...good, options: Buffer.from('8307040a09090900', 'hex') })),
    'strict source routing': frame(packet({ ...good, options: Buffer.from('8907040a09090900', 'hex') })),
    'record route': frame(packet({ ...good, options: Buffer.from('0707040000000000', 'hex') })),
    'a router alert': frame(packet({ ...good, options: Buffer.from('94040000', 'hex') })),
    'ARP for another': frame(arp({ op: 1, fromMac: slot.mac, fromIp: from, toIp: '10.87.1.1' }), {
      type: 0x0806,
    }),
    'ARP as the gateway': frame(arp({ op: 1, fromMac: slot.mac, fromIp: gateway, toIp: gateway }), {
      type: 0x0806,
    }),
    'ARP of its own accord': frame(arp({ op: 2, fromMac: slot.mac, fromIp: gateway, toIp: from }), {
      type: 0x0806,
    }),
    'ARP with another MAC within': frame(
      arp({ op: 1, fromMac: '02:00:00:00:00:05', fromIp: from, toIp: gateway }),
      { type: 0x0806 },
    ),
    DHCP: frame(packet({ from: '0.0.0.0', to: '255.255.255.255' }), { toMac: 'ff:ff:ff:ff:ff:ff' }),
    LLDP: frame(Buffer.alloc(46), { type: 0x88cc }),
    'an unknown type': frame(Buffer.alloc(46), { type: 0x1234 }),
    'a redirect': frame(packet({ ...good, protocol: 1, payload: Buffer.from('0501000000000000', 'hex') })),
    'a timestamp request': frame(
      packet({ ...good, protocol: 1, payload: Buffer.from('0d00f2ff00000000', 'hex') }),
    ),
    multicast: frame(packet({ from, to: '224.0.0.251' })),
    broadcast: frame(packet({ from, to: '255.255.255.255' })),
    'broadcast of its network': frame(
      packet({ from, to: gateway.replace(/\d+$/, (n) => String(Number(n) + 2)) }),
    ),
    'an address that was not answered': frame(packet({ from, to: OTHER_IP })),
    'a private address': frame(packet({ from, to: PRIVATE_IP })),
    metadata: frame(packet({ from, to: '169.254.169.254' })),
    loopback: frame(packet({ from, to: '127.0.0.1' })),
    'the host': frame(packet({ from, to: '93.184.215.1' })),
    'the resolver, past the gateway': frame(packet({ from, to: '10.87.0.1' })),
    'an empty frame': frame(Buffer.alloc(0)),
    'half an IPv4 header': frame(packet(good).subarray(0, 10)),
    'a TCP packet of no connection': frame(
      packet({
        ...good,
        protocol: 6,
        payload: Buffer.from('0fa00050000000010000000150100200000000000000', 'hex'),
      }),
    ),
  };
  for (const [name, bytes] of Object.entries(attacks)) {
    const count = sent().length;
    await guest.send([bytes]);
    // A packet that passes: it follows those that do not.
    await guest.send([frame(packet({ ...good, payload: packet(good).subarray(20) }))]);
    await until(() => sent().length > count);
    t.equal(sent().length, count + 1, name);
  }
  t.ok(back.lines.length > 0);
  guest.unplug();
  await network.destroy(slot);
  await network.close();
});
