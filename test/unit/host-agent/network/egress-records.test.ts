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

t.test('connections that rules let pass are records when they are over, with what they moved', async (t) => {
  const any = { host: 'ok.test', protocol: 'udp', ports: [443] } as const;
  const { slot, run, records } = await open(t, { rules: [SSH, any] });
  await sh(`nsenter --net=${slot.namespace} sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1`);
  await run(`await resolve('ok.test');
    out.big = await new Promise((done) => {
      let count = 0;
      const s = net.connect(22, '${WEB_IP}', () => s.write('x'.repeat(100_000)));
      s.on('data', (d) => { count += d.length; if (count >= 100_002) s.end(); }); s.on('close', () => done(count));
    });
    out.udp = await udp('${WEB_IP}', 443); out.denied = await tcp('${WEB_IP}', 80);`);
  const ended = () => records.filter(({ reason }) => reason.startsWith('it ended'));
  await until(() => ended().length === 2, 'both', 60_000);
  const [udp, tcp] = ended();
  const about = { verdict: 'allowed', name: 'ok.test', address: WEB_IP, reason: 'it ended' };
  t.match(udp, { ...about, protocol: 'udp', port: 443, rule: 'ok.test:443/udp', bytesUp: 29, bytesDown: 29 });
  t.match(tcp, { ...about, protocol: 'tcp', port: 22, rule: 'ok.test:22,9000-9005/tcp' });
  t.ok(
    Number(tcp?.bytesUp) > 100_000 && Number(tcp?.bytesDown) > 100_000,
    `${tcp?.bytesUp} ${tcp?.bytesDown}`,
  );
  t.ok(
    Number(tcp?.ms) > 0 && Number(tcp?.ms) < 9000,
    `${tcp?.ms} ms, without the time for which the kernel kept it`,
  );
});

t.test('16, 109: of many that end at once some are records, and the others are counted', async (t) => {
  const { slot, run, records, missed } = await open(t, {
    rules: [{ host: 'ok.test', protocol: 'udp', ports: ['9000-9999'] }],
  });
  await sh(`nsenter --net=${slot.namespace} sysctl -qw net.netfilter.nf_conntrack_udp_timeout=8`);
  // Nothing answers there, and one socket is one connection for each port.
  await run(`await resolve('ok.test');
    const s = dgram.createSocket('udp4'); s.on('error', () => {}); s.bind(); await new Promise((done) => s.once('listening', done));
    await Promise.all(Array.from({ length: 1000 }, (_, at) => new Promise((done) => s.send('x', 9000 + at, '${WEB_IP}', done)))); s.close();`);
  const ended = () => records.filter(({ reason }) => reason.startsWith('it ended')).length;
  await until(() => ended() >= 300 && missed.length > 0, 'some of them', 60_000);
  t.ok(ended() < 800, `${ended()} records`);
  t.equal((await run(`out.name = await resolve('ok.test');`)).name?.toString(), WEB_IP, 'it goes on');
});

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
