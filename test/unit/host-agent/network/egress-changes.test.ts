// Policies that change while a guest runs, and what becomes of its connections. The numbers are those of the attack list
// (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t from 'tap';
import type { NetworkPolicy } from '../../../../host-agent/src/network/index.ts';
import { openEgressLab, SSH } from '../../../support/network/egress-lab.ts';
import { OTHER_IP, sh, UNHEARD, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(300_000));
const { lab, seen, open } = await openEgressLab(t);

/** A connection that says how it ends. It sends nothing by itself. */
const HOLD = (port: number) => `
  await resolve('ok.test');
  const s = net.connect(${port}, '${WEB_IP}', () => console.log('connected'));
  s.on('error', (e) => console.log(e.code)); s.on('close', () => console.log('closed'));`;

t.test(
  '98: a removed host’s connections are reset before the change answers: idle, half-way, and of both ends',
  async (t) => {
    seen.length = 0;
    const { change, background, run } = await open(t, {
      rules: [SSH, { host: 'other.test', protocol: 'tcp', ports: [22] }],
    });
    const idle = await background(HOLD(22));
    const streaming = await background(`${HOLD(9000)} s.on('data', () => {});`);
    const kept = await background(`await resolve('other.test');
    const s = net.connect(22, '${OTHER_IP}', () => console.log('connected'));
    s.on('error', (e) => console.log(e.code)); s.on('data', (d) => console.log(String(d)));
    setInterval(() => s.write('still'), 100);`);
    await until(() => seen.filter((line) => line.startsWith('tcp')).length === 3);
    t.equal(await change({ rules: [{ host: 'other.test', protocol: 'tcp', ports: [22] }] }), 2);
    await until(() => idle.includes('ECONNRESET') && streaming.includes('ECONNRESET'));
    await until(() => seen.filter((line) => line === 'ended ECONNRESET').length === 2);
    t.same(await run(`out.tcp = await tcp('${WEB_IP}', 22); out.name = await resolve('ok.test');`), {
      tcp: 'ECONNREFUSED',
      name: 'ENOTFOUND',
    });
    const count = kept.length;
    await until(() => kept.length > count + 3);
    t.notOk(
      kept.some((line) => line.startsWith('E')),
      'what is still allowed goes on',
    );
  },
);

t.test('98: UDP, and an allowlist that gets shorter', async (t) => {
  seen.length = 0;
  const { change, background } = await open(t, { allowlist: ['ok.test', 'other.test'] });
  const lines = await background(`
    await resolve('ok.test');
    const u = dgram.createSocket('udp4'); u.on('error', (e) => console.log(e.code)); u.on('message', (m) => console.log('answer'));
    u.connect(123, '${WEB_IP}', () => { u.send('x'); });`);
  await until(() => seen.includes('udp 123 x'));
  t.equal(await change({ allowlist: ['other.test'] }), 1);
  await until(() => lines.includes('EHOSTUNREACH'));
});

t.test('14, 98: an address that two names share stays open for the one that is left', async (t) => {
  const on = (host: string, port: number) => ({ host, protocol: 'tcp', ports: [port] }) as const;
  const { change, background, run } = await open(t, { rules: [on('ok.test', 22), on('shared.test', 80)] });
  seen.length = 0;
  const lines = await background(HOLD(22));
  await run(`await resolve('shared.test');`);
  await until(() => seen.length > 0);
  t.equal(await change({ rules: [on('shared.test', 80)] }), 1, 'the port was the other name’s');
  await until(() => lines.includes('ECONNRESET'));
  t.same(await run(`out.old = await tcp('${WEB_IP}', 22); out.left = await tcp('${WEB_IP}', 80);`), {
    old: 'ECONNREFUSED',
    left: 'open',
  });
});

t.test('a wider policy closes nothing, and opens what was resolved before', async (t) => {
  seen.length = 0;
  const { change, background, run } = await open(t, { rules: [SSH] });
  const lines = await background(HOLD(22));
  await until(() => seen.length > 0);
  t.equal(await change({ rules: [SSH, { host: 'ok.test', protocol: 'tcp', ports: [80] }] }), 0);
  t.equal((await run(`out.new = await tcp('${WEB_IP}', 80);`)).new, 'open');
  t.same(
    lines.filter((line) => line !== 'connected'),
    [],
  );
});

t.test('100: changes one after the other, and never a moment without a policy', async (t) => {
  const { change, background, run } = await open(t, { rules: [SSH] });
  const never = await background(`
    console.log('begun');
    await resolve('ok.test');
    for (;;) { const word = await tcp('${WEB_IP}', 443); if (word === 'open') console.log('open'); }`);
  const always = await background(`
    console.log('begun');
    for (;;) { await resolve('ok.test'); const word = await tcp('${WEB_IP}', 22); if (word !== 'open') console.log(word); }`);
  const changes: Promise<number>[] = [];
  for (let n = 0; n < 60; n++) {
    changes.push(change({ rules: [SSH, { host: 'other.test', protocol: 'tcp', ports: [1000 + (n % 7)] }] }));
    if (n % 10 === 9) await Promise.all(changes);
  }
  await Promise.all(changes);
  t.same(
    [...never, ...always].filter((line) => line !== 'begun'),
    [],
  );
  t.equal((await run(`out.tcp = await tcp('${WEB_IP}', 22);`)).tcp, 'open');
});

t.test('many connections are all cut at once; the guest is told of each', async (t) => {
  seen.length = 0;
  const { change, background, slot } = await open(t, { rules: [SSH] });
  const lines = await background(`
    await resolve('ok.test'); console.log('begun');
    for (let n = 0; n < 120; n++) { const s = net.connect(22, '${WEB_IP}'); s.on('error', (e) => console.log(e.code)); }`);
  await until(() => seen.filter((line) => line.startsWith('tcp')).length === 120);
  t.equal(await change({}), 120);
  t.notMatch(await sh('cat /proc/net/nf_conntrack 2> /dev/null || true', slot.namespace), `dst=${WEB_IP}`);
  await until(() => lines.filter((line) => line === 'ECONNRESET').length === 120);
});

t.test(
  'the next daemon knows no names: what it may keep stays, and a shorter policy closes the rest',
  async (t) => {
    seen.length = 0;
    const other = { host: 'other.test', protocol: 'tcp', ports: [80] } as const;
    const policy = { allowlist: [], rules: [SSH, other] };
    const { background, replace, run } = await open(t, policy);
    const lines = await background(HOLD(22));
    await until(() => seen.length > 0);
    const change = await replace(policy);
    t.equal((await run(`out.tcp = await tcp('${WEB_IP}', 22);`)).tcp, 'open', 'without asking again');
    t.equal(await change({ allowlist: [], rules: [SSH] }), 0, 'not its name');
    t.same(
      lines.filter((line) => line !== 'connected'),
      [],
    );
    t.equal(await change({ allowlist: [], rules: [{ ...SSH, host: 'shared.test' }] }), 1);
    await until(() => lines.includes('ECONNRESET'));
  },
);

t.test(
  '106: a change that was cut short is carried out by the next daemon, before it answers names',
  async (t) => {
    seen.length = 0;
    const before = { rules: [SSH], allowlist: ['other.test'] };
    const { background, replace, run } = await open(t, before);
    const lines = await background(HOLD(22));
    await until(() => seen.length > 0);
    await replace({ allowlist: ['other.test'], before });
    await until(() => lines.includes('ECONNRESET'));
    t.equal((await run(`out.tcp = await tcp('${WEB_IP}', 22);`)).tcp, 'ECONNREFUSED');
  },
);

t.test('107: the next owner of the addresses has nothing of an earlier policy', async (t) => {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  const serve = async (policy: NetworkPolicy) => {
    await network.create(slot);
    await network.start(slot, {
      ...policy,
      ...UNHEARD,
    });
  };
  await serve({ allowlist: [], rules: [SSH] });
  await network.destroy(slot);
  await serve({ allowlist: ['ok.test'] });
  const rules = await sh('nft list ruleset', slot.namespace);
  t.notMatch(rules, /9000|open_/);
  t.same(network.namesOf(slot, WEB_IP), []);
  await network.destroy(slot);
  await network.close();
});
