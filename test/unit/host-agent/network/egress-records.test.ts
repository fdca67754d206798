// What a guest reached and was denied, as its egress log gets it, and networks that are shut. Guests are namespaces.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { openEgressLab, SSH } from '../../../support/network/egress-lab.ts';
import { OTHER_IP, sh, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(300_000));
const { seen, open } = await openEgressLab(t);

t.test(
  'names, refused packets and connections that a change closed are records, with names and reasons',
  async (t) => {
    const { run, background, change, records } = await open(t, { rules: [SSH] });
    const isClosed = ({ reason }: { reason: string }) => reason.includes('closed: the changed policy');
    await run(`out.a = await resolve('ok.test'); out.b = await resolve('ok.test'); out.c = await resolve('evil.test');
    out.port = await tcp('${WEB_IP}', 80); out.other = await tcp('${OTHER_IP}', 22); out.private = await tcp('10.9.9.9', 22);`);
    await background(
      `await resolve('ok.test'); net.connect(22, '${WEB_IP}', () => console.log('connected')).on('error', () => {});`,
    );
    await until(() => seen.some((line) => line.endsWith(' 22')));
    await change({ rules: [] });
    await until(() => records.some(isClosed));
    t.match(
      records.filter(({ protocol }) => protocol === 'dns'),
      [
        { verdict: 'allowed', name: 'ok.test', address: WEB_IP, rule: 'ok.test' },
        { verdict: 'denied', name: 'evil.test', reason: 'not in the allowlist' },
      ],
      'a name that is asked for again is not reported again',
    );
    t.match(records.filter(({ protocol }) => protocol === 'tcp').slice(0, 3), [
      { verdict: 'denied', name: 'ok.test', address: WEB_IP, port: 80, reason: /have no tcp port 80/ },
      { verdict: 'denied', address: OTHER_IP, port: 22, reason: /no rule has the address/ },
      { verdict: 'denied', address: '10.9.9.9', port: 22, reason: /private/ },
    ]);
    t.match(records.filter(isClosed), [{ verdict: 'denied', name: 'ok.test', address: WEB_IP, port: 22 }]);
  },
);

t.test(
  '98: nothing passes through a network that is shut, and all of a policy after the next change',
  async (t) => {
    seen.length = 0;
    const { slot, run, background, change, network } = await open(t, { allowlist: ['ok.test'] });
    const lines = await background(`
    await resolve('ok.test');
    const s = net.connect(5432, '${WEB_IP}', () => console.log('connected'));
    setInterval(() => s.write('x'), 100); s.on('data', () => console.log('data')); s.on('error', (e) => console.log(e.code));`);
    await until(() => lines.includes('data'));
    await network.shut(slot);
    await until(() => lines.includes('ECONNRESET'));
    t.same(await run(`out.name = await resolve('ok.test'); out.tcp = await tcp('${WEB_IP}', 5432);`), {
      name: 'ECONNREFUSED',
      tcp: 'ECONNREFUSED',
    });
    await change({ rules: [SSH] });
    t.same(
      await run(
        `out.name = await resolve('ok.test'); out.tcp = await tcp('${WEB_IP}', 5432); out.ssh = await tcp('${WEB_IP}', 22);`,
      ),
      { name: [WEB_IP], tcp: 'ECONNREFUSED', ssh: 'open' },
    );
  },
);

t.test('10: a public range of sandboxes is not opened by a range, nor by internet', async (t) => {
  const subnet = parseIpv4Range('93.185.0.0/20');
  const cidr = { cidr: '93.185.0.0/16', protocol: 'tcp', ports: [22] } as const;
  const policy = { rules: [cidr], presets: [{ name: 'internet', rules: [] }] };
  const one = await open(t, policy, { subnet });
  const other = await one.network.allocate();
  await one.network.create(other);
  t.teardown(() => one.network.destroy(other));
  // Behind the rules of the namespace, where the table of the host is a second line.
  await sh(
    `nft add table ip count; nft 'add chain ip count c { type filter hook postrouting priority 0; }'
     nft add rule ip count c oifname up0 ip daddr ${other.guestIp} counter`,
    one.slot.namespace,
  );
  await one.run(`out.tcp = await tcp('${other.guestIp}', 22); out.udp = await udp('${other.guestIp}', 53);`);
  t.match(await sh('nft list table ip count', one.slot.namespace), /counter packets 0 bytes/);
});
