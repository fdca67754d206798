// Rules by port. Guests are namespaces behind the taps of sandboxes. The numbers are those of the attack list
// (docs/egress-attacks.md). Each attack has a witness that sees what arrives, and a control in which the same bytes arrive.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openEgressLab, SSH } from '../../../support/network/egress-lab.ts';
import { OTHER_IP, PRIVATE_IP, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(300_000));
const { lab, seen, open } = await openEgressLab(t);

t.test('67, 68, 71: a rule opens its ports, of its protocol, at the addresses of its name', async (t) => {
  const { run, denied } = await open(t, { rules: [SSH] });
  t.same(
    await run(`
      out.before = await tcp('${WEB_IP}', 22);
      out.name = await resolve('ok.test');
      out.ssh = await tcp('${WEB_IP}', 22); out.range = await tcp('${WEB_IP}', 9005);
      out.web = await tcp('${WEB_IP}', 443); out.db = await tcp('${WEB_IP}', 5432);
      out.quic = await udp('${WEB_IP}', 443); out.ntp = await udp('${WEB_IP}', 123);
      out.other = await tcp('${OTHER_IP}', 22);
      out.again = await tcp('${WEB_IP}', 22);
      out.unknown = await resolve('other.test');
    `),
    {
      before: 'ECONNREFUSED',
      name: [WEB_IP],
      ssh: 'open',
      range: 'open',
      web: 'ECONNREFUSED',
      db: 'ECONNREFUSED',
      quic: 'EHOSTUNREACH',
      ntp: 'EHOSTUNREACH',
      other: 'ECONNREFUSED',
      again: 'open',
      unknown: 'ENOTFOUND',
    },
  );
  t.same(
    seen.filter((line) => !/^(closed|ended)/.test(line)),
    [`tcp ${WEB_IP} 22`, `tcp ${WEB_IP} 9005`, `tcp ${WEB_IP} 22`],
    'nothing else arrived',
  );
  await until(() => denied.some((text) => text.startsWith(`network: denied tcp ${WEB_IP}:443`)));
});

t.test('control: without a rule for the port, everything that 67, 68 and 71 sent arrives', async (t) => {
  seen.length = 0;
  const { run } = await open(t, { presets: [{ name: 'internet', rules: [] }] });
  t.same(
    await run(`
      await resolve('ok.test'); await resolve('other.test');
      for (const port of [22, 443, 5432, 9005]) out[port] = await tcp('${WEB_IP}', port);
      out.quic = await udp('${WEB_IP}', 443); out.ntp = await udp('${WEB_IP}', 123);
      out.other = await tcp('${OTHER_IP}', 22);
    `),
    { 22: 'open', 443: 'open', 5432: 'open', 9005: 'open', quic: 'open', ntp: 'open', other: 'open' },
  );
  t.ok(seen.includes('udp 443 x') && seen.includes(`tcp ${OTHER_IP} 22`));
});

t.test('64: UDP 443 is refused at once, and a rule opens it', async (t) => {
  const { run, change } = await open(t, { rules: [{ host: 'ok.test', protocol: 'tcp', ports: [443] }] });
  const ask = () =>
    run(
      `await resolve('ok.test'); const at = Date.now(); out.quic = await udp('${WEB_IP}', 443); out.ms = Date.now() - at;`,
    );
  const refused = await ask();
  t.equal(refused.quic, 'EHOSTUNREACH');
  t.ok(Number(refused.ms) < scaled(900), `${refused.ms} ms`);
  await change({ rules: [{ host: 'ok.test', protocol: 'udp', ports: [443] }] });
  t.equal((await ask()).quic, 'open');
});

t.test(
  '5, 6: one label under *., any number under **., and never the name itself or one that looks like it',
  async (t) => {
    const rule = (host: string) => ({ host, protocol: 'tcp', ports: [22] }) as const;
    for (const name of ['evilok.test', 'ok.test.evil.test', 'ok.testx', 'test'])
      lab.names.set(name, [OTHER_IP]);
    const { run, change } = await open(t, { rules: [rule('*.ok.test')] });
    const NAMES = ['ok.test', 'a.ok.test', 'deep.a.ok.test', 'evilok.test', 'ok.test.evil.test', 'ok.testx'];
    const ask = async () =>
      Object.keys(
        await run(
          `for (const n of ${JSON.stringify(NAMES)}) { const r = await resolve(n); if (Array.isArray(r)) out[n] = r; }`,
        ),
      );
    t.same(await ask(), ['a.ok.test']);
    await change({ rules: [rule('**.ok.test')] });
    t.same(await ask(), ['a.ok.test', 'deep.a.ok.test']);
    await change({ rules: [rule('ok.test')] });
    t.same(await ask(), ['ok.test']);
  },
);

t.test('10: a name under a rule that leads to a private address opens nothing', async (t) => {
  const { run, denied } = await open(t, { rules: [{ host: 'inside.test', protocol: 'tcp', ports: [22] }] });
  t.same(await run(`out.name = await resolve('inside.test'); out.tcp = await tcp('${PRIVATE_IP}', 22);`), {
    name: 'ENODATA',
    tcp: 'ECONNREFUSED',
  });
  t.ok(denied.some((text) => text.includes('10.9.9.9 is private')));
});

t.test('a range of addresses is open without a name, by its ports', async (t) => {
  const { run } = await open(t, { rules: [{ cidr: `${WEB_IP}/32`, protocol: 'tcp', ports: [22] }] });
  t.same(
    await run(`out.in = await tcp('${WEB_IP}', 22); out.port = await tcp('${WEB_IP}', 80);
      out.out = await tcp('${OTHER_IP}', 22); out.udp = await udp('${WEB_IP}', 443);`),
    { in: 'open', port: 'ECONNREFUSED', out: 'ECONNREFUSED', udp: 'EHOSTUNREACH' },
  );
});

t.test('the internet is every public address, without private ones and without mail', async (t) => {
  const { run, slot } = await open(t, { presets: [{ name: 'internet', rules: [] }] });
  t.same(
    await run(`
      out.name = await resolve('other.test'); out.address = await tcp('${WEB_IP}', 22); out.udp = await udp('${WEB_IP}', 443);
      out.mail = await tcp('${WEB_IP}', 25); out.inside = await tcp('${PRIVATE_IP}', 22);
      out.insideName = await resolve('inside.test'); out.meta = await tcp('169.254.169.254', 80);
      out.gateway = await tcp('${slot.gateway}', 22); out.host = await tcp('93.184.215.1', 22);
    `),
    {
      name: [OTHER_IP],
      address: 'open',
      udp: 'open',
      mail: 'ECONNREFUSED',
      inside: 'ECONNREFUSED',
      insideName: 'ENODATA',
      meta: 'ECONNREFUSED',
      gateway: 'ECONNREFUSED',
      host: 'timeout',
    },
  );
});
