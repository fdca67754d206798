// Connections of TLS that are bound to the name that they say. The numbers are those of the attack list
// (docs/egress-attacks.md). Guests are namespaces; witnesses on one shared address see what arrives.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { FORGED_IP, OTHER_IP, openBoundLab, WEB_IP } from '../../../support/network/bound-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(300_000));
const { lab, seen, open } = await openBoundLab(t);
const OK = { host: 'ok.test', protocol: 'tls', ports: [443] } as const;
const RESET = 'ECONNRESET';
/** What each sends; a reset and nothing at the witness is what it gets. */
const ATTACKS = `
const first = { first: true };
const attack = {
  'no name': () => secure('${WEB_IP}', ''),
  'another name': () => secure('${WEB_IP}', 'evil.test'),
  'suffix': () => secure('${WEB_IP}', 'evilok.test'),
  'prefix': () => secure('${WEB_IP}', 'ok.testx'),
  'longer': () => secure('${WEB_IP}', 'ok.test.evil.test'),
  'address': () => raw('${WEB_IP}', 443, hello('93.184.215.14'), first),
  'address of IPv6': () => raw('${WEB_IP}', 443, hello('::1'), first),
  'empty name': () => raw('${WEB_IP}', 443, hello(''), first),
  'two names': () => raw('${WEB_IP}', 443, hello('ok.test', 'evil.test'), first),
  'two extensions': () => raw('${WEB_IP}', 443, records(message(sni('ok.test'), sni('evil.test'))), first),
  'NUL': () => raw('${WEB_IP}', 443, hello('ok.test\\0.evil.test'), first),
  'space': () => raw('${WEB_IP}', 443, hello('ok.test '), first),
  'slash': () => raw('${WEB_IP}', 443, hello('ok.test/'), first),
  'percent': () => raw('${WEB_IP}', 443, hello('ok.test%00'), first),
  'empty label': () => raw('${WEB_IP}', 443, hello('ok..test'), first),
  'two final dots': () => raw('${WEB_IP}', 443, hello('ok.test..'), first),
  'long label': () => raw('${WEB_IP}', 443, hello('a'.repeat(64) + '.ok.test'), first),
  'long name': () => raw('${WEB_IP}', 443, hello('a.'.repeat(125) + 'test'), first),
  'U-label': () => raw('${WEB_IP}', 443, hello(Buffer.from('b\\u00fccher.test').toString('latin1')), first),
  'full-width dot': () => raw('${WEB_IP}', 443, hello(Buffer.from('ok\\uff0etest').toString('latin1')), first),
  'SSH': () => raw('${WEB_IP}', 443, 'SSH-2.0-OpenSSH\\r\\n'),
  'SMTP': () => raw('${WEB_IP}', 443, 'EHLO x\\r\\n'),
  'random': () => raw('${WEB_IP}', 443, '\\x9b\\x10\\xff\\x00\\x01'),
  'SSLv2': () => raw('${WEB_IP}', 443, '\\x80\\x2e\\x01\\x00\\x02\\x00\\x15\\x00\\x00\\x00\\x10'),
  'record of 0': () => raw('${WEB_IP}', 443, '\\x16\\x03\\x01\\x00\\x00' + hello('ok.test')),
  'long extension': () => { const m = message(sni('ok.test')); m[m.length - 13]++; return raw('${WEB_IP}', 443, records(m)); },
  'long hello': () => { const m = message(sni('ok.test')); m[1] = 1; return raw('${WEB_IP}', 443, records(m)); },
  '17 KiB': () => raw('${WEB_IP}', 443, records(message(sni('ok.test'), extension(21, Buffer.alloc(17 * 1024))))),
  'a second message': () => raw('${WEB_IP}', 443, records(Buffer.concat([message(sni('ok.test')), message(sni('evil.test'))]))),
};`;

t.test('6, 7, 9, 17, 18, 21, 22, 23: names that are not allowed, none, and what is no TLS', async (t) => {
  const { run, denied, records } = await open(t, { rules: [OK] });
  seen.length = 0;
  const words = await run(
    `${ATTACKS} await Promise.all(Object.keys(attack).map(async (k) => { out[k] = await attack[k](); }));`,
  );
  for (const [attack, word] of Object.entries(words)) t.equal(word, RESET, attack);
  t.ok(Object.keys(words).length > 25);
  t.same(seen, [], 'nothing arrived');
  await until(() => records.length === Object.keys(words).length);
  t.ok(records.every(({ verdict, bytesUp }) => verdict === 'denied' && bytesUp === 0));
  t.match(denied.join('\n'), /denied tls evil\.test:443: no allowlist, rule or preset has the name/);
  t.match(denied.join('\n'), /denied tls 93\.184\.215\.14:443: its TLS handshake says no valid name \(SNI\)/);
});

t.test('control: by a rule for the port alone, what they sent arrives', async (t) => {
  const { run } = await open(t, { rules: [{ cidr: `${WEB_IP}/32`, protocol: 'tcp', ports: [443] }] });
  seen.length = 0;
  const words = await run(
    `${ATTACKS} for (const k of ['no name', 'another name', 'suffix', 'SSH']) out[k] = await attack[k]();`,
  );
  t.match(words, { 'no name': 'tls false', 'another name': 'tls evil.test', suffix: 'tls evilok.test' });
  await until(() => seen.filter((line) => line.startsWith('to ')).length === 4);
});

t.test(
  '8, 14, 15: the name’s own address is dialled, whatever the guest used, and names are compared alike',
  async (t) => {
    const other = { ...OK, host: 'other.test' };
    const { run, records } = await open(t, { rules: [OK, other] });
    seen.length = 0;
    t.same(
      await run(`
      out.forged = await secure('${FORGED_IP}', 'ok.test'); out.others = await secure('${OTHER_IP}', 'ok.test');
      out.second = await secure('${WEB_IP}', 'other.test');
      for (const name of ['OK.Test', 'ok.test.', 'Ok.tesT.']) out[name] = (await raw('${FORGED_IP}', 443, hello(name), { first: true })).charCodeAt(0);`),
      {
        ...{ forged: 'tls ok.test', others: 'tls ok.test', second: 'tls other.test' },
        // A handshake, or an alert of the server: its hello has no algorithms in common.
        ...{ 'OK.Test': 21, 'ok.test.': 21, 'Ok.tesT.': 21 },
      },
    );
    await until(() => seen.filter((line) => line.startsWith('to ')).length === 6);
    t.ok(seen.includes(`tls ${WEB_IP} ok.test`) && seen.includes(`tls ${OTHER_IP} other.test`));
    await until(() => records.length === 6);
    t.match(records[0], { verdict: 'allowed', protocol: 'tls', rule: 'ok.test:443/tls', name: 'ok.test' });
    t.match(records[0], { address: WEB_IP, port: 443, generation: 1 });
    t.ok(Number(records[0]?.bytesUp) > 200 && Number(records[0]?.bytesDown) > 200);
  },
);

t.test('5: one label under *., any number under **.', async (t) => {
  const { run, change } = await open(t, { rules: [{ ...OK, host: '*.ok.test' }] });
  lab.names.set('b.a.ok.test', [WEB_IP]);
  const ask = () =>
    run(`for (const n of ['ok.test', 'a.ok.test', 'b.a.ok.test']) out[n] = await secure('${WEB_IP}', n);`);
  t.same(await ask(), { 'ok.test': RESET, 'a.ok.test': 'tls a.ok.test', 'b.a.ok.test': RESET });
  await change({ rules: [{ ...OK, host: '**.ok.test' }] });
  t.same(await ask(), { 'ok.test': RESET, 'a.ok.test': 'tls a.ok.test', 'b.a.ok.test': 'tls b.a.ok.test' });
});

t.test('19: a hello in many segments and records is judged as a whole', async (t) => {
  const { run } = await open(t, { rules: [OK] });
  const out = await run(`
    const padded = (name, n) => message(sni(name), extension(21, Buffer.alloc(n)));
    const ask = async (m, record, size) => (await raw('${WEB_IP}', 443, records(m, record), { first: true, size })).charCodeAt(0);
    for (const name of ['ok.test', 'evil.test']) out[name] = [
      await ask(message(sni(name)), 16384, 1), await ask(message(sni(name)), 7, 0), await ask(message(sni(name)), 1, 3),
      await ask(padded(name, 2048), 16384, 1400), await ask(padded(name, 15900), 16384, 1400), await ask(padded(name, 15900), 5000, 0)];`);
  t.same(out, {
    'ok.test': [21, 21, 21, 21, 21, 21],
    'evil.test': [...RESET].slice(0, 6).map(() => RESET.charCodeAt(0)),
  });
});

t.test('20, 23: a hello that is not finished in 5 s, and a client that waits for the server', async (t) => {
  const { run, records } = await open(t, { rules: [OK] });
  seen.length = 0;
  const out = await run(`
    const at = Date.now(); const timed = async (p) => [await p, Date.now() - at];
    [out.half, out.slow, out.silent] = await Promise.all([
      timed(raw('${WEB_IP}', 443, hello('ok.test').slice(0, 40), { ms: 20000 })),
      timed(raw('${WEB_IP}', 443, hello('ok.test'), { ms: 20000, size: 1, gapMs: 150 })),
      timed(raw('${WEB_IP}', 443, '', { ms: 20000 }))]);`);
  for (const [word, ms] of Object.values(out) as [string, number][]) {
    t.equal(word, RESET);
    t.ok(ms > 4000 && ms < 9000, `${ms} ms`);
  }
  t.same(seen, []);
  await until(() => records.length === 3);
  t.match(records.map(({ reason }) => reason).sort(), [/sent no name/, /took too long/, /took too long/]);
});

t.test('24: a second hello, for which the server asked, must have the same name', async (t) => {
  const { run } = await open(t, { rules: [{ ...OK, ports: [8444] }] });
  seen.length = 0;
  const out = await run(`
    const ask = (...more) => new Promise((done) => { const s = net.connect(8444, '${WEB_IP}'); let n = 0; const timer = setTimeout(() => done('timeout'), 4000);
      s.on('error', (e) => done(e.code)); s.on('connect', () => s.write(hello('ok.test'), 'latin1'));
      s.on('data', (d) => { if (n++ === 0) s.write(more.join(''), 'latin1'); else { clearTimeout(timer); done(String(d)); } }); });
    const [change, early] = ['\\x14\\x03\\x03\\x00\\x01\\x01', '\\x17\\x03\\x03\\x00\\x03abc'];
    out.same = await ask(change, hello('ok.test')); out.other = await ask(change, hello('evil.test'));
    out.late = await ask(change, early, hello('evil.test')); out.none = await ask(records(message()));
    const rest = await raw('${WEB_IP}', 8444, hello('ok.test') + hello('evil.test')); out.ahead = rest.slice(-10);`);
  t.same(out, { same: 'second', other: RESET, late: RESET, none: RESET, ahead: RESET });
  t.notOk(
    seen.some((line) => line.includes('evil.test')),
    'no other name arrived',
  );
});

t.test('24, 26: a second hello has ECH only if the first had it, which the rule may refuse', async (t) => {
  const { run } = await open(t, { rules: [{ ...OK, ports: [8444], ech: 'refuse' }] });
  const out = await run(`
    const ech = extension(0xfe0d, Buffer.alloc(64, 1));
    const ask = (...more) => new Promise((done) => { const s = net.connect(8444, '${WEB_IP}'); let n = 0; const timer = setTimeout(() => done('timeout'), 4000);
      s.on('error', (e) => done(e.code)); s.on('connect', () => s.write(hello('ok.test'), 'latin1'));
      s.on('data', (d) => { if (n++ === 0) s.write(records(message(sni('ok.test'), ...more)), 'latin1'); else { clearTimeout(timer); done(String(d)); } }); });
    out.without = await ask(); out.with = await ask(ech);`);
  t.same(out, { without: 'second', with: RESET });
});

t.test('25, 26: an encrypted name passes by its outer one, unless the rule refuses it', async (t) => {
  const { run, change, records } = await open(t, { rules: [OK] });
  const ask = () =>
    run(`const ech = extension(0xfe0d, Buffer.alloc(64, 1)); const send = (n) => raw('${WEB_IP}', 443, records(message(sni(n), ech)), { first: true });
      out.outer = (await send('ok.test')).charCodeAt(0); out.public = await send('cloudflare-ech.test');`);
  t.same(await ask(), { outer: 21, public: RESET });
  await change({ rules: [{ ...OK, ech: 'refuse' }] });
  t.same(await ask(), { outer: RESET.charCodeAt(0), public: RESET });
  await until(() => records.some(({ reason }) => String(reason).includes('ECH')));
});

t.test('28: a session of one name does not lead to another', async (t) => {
  const { run } = await open(t, { rules: [OK] });
  const out = await run(`
    const session = await new Promise((done) => { const s = tls.connect({ host: '${WEB_IP}', port: 443, servername: 'ok.test', rejectUnauthorized: false });
      s.on('session', (x) => { done(x); }); s.on('error', (e) => done(e.code)); s.write('stay'); });
    out.has = session.length > 10; out.same = await secure('${WEB_IP}', 'ok.test', 443, { session }); out.other = await secure('${WEB_IP}', 'evil.test', 443, { session });`);
  t.same(out, { has: true, same: 'tls ok.test', other: RESET });
});

t.test('10, 11, 66, 114, 116: no private address, no other port, and not the process itself', async (t) => {
  const { run, slot, records } = await open(t, {
    allowlist: ['inside.test', 'host.test', 'rebound.test'],
    rules: [OK, { host: 'ok.test', protocol: 'tls', ports: [8443] }],
  });
  lab.names.set('host.test', ['127.0.0.1']);
  lab.names.set('rebound.test', [WEB_IP]);
  seen.length = 0;
  const out = await run(`
    out.inside = await secure('${WEB_IP}', 'inside.test'); out.host = await secure('${WEB_IP}', 'host.test');
    out.localhost = await secure('${WEB_IP}', 'a.localhost');
    out.port = await secure('${FORGED_IP}', 'ok.test', 8443); out.own = await raw('${slot.gateway}', 1443, hello('ok.test'));
    out.closed = await secure('${WEB_IP}', 'ok.test', 8444); out.mail = await raw('${WEB_IP}', 25, hello('ok.test'));`);
  t.match(out, { inside: RESET, host: RESET, localhost: RESET, port: 'tls ok.test' });
  t.match(out, { own: 'ECONNREFUSED', closed: 'ECONNREFUSED', mail: 'ECONNREFUSED' });
  t.ok(
    records.some(
      ({ name, reason }) =>
        name === 'inside.test' && /no address that the guest may reach/.test(String(reason)),
    ),
  );
  t.same(
    await run(
      `out.resolved = await resolve('rebound.test'); out.first = await secure('${WEB_IP}', 'rebound.test');`,
    ),
    {
      resolved: [WEB_IP],
      first: 'tls rebound.test',
    },
  );
  lab.names.set('rebound.test', ['10.9.9.9']);
  t.same(await run(`out.resolved = await resolve('rebound.test');`), { resolved: 'ENODATA' });
});

t.test('a rule by address goes before, and says nothing of names', async (t) => {
  const { run } = await open(t, { rules: [OK, { host: 'other.test', protocol: 'tcp', ports: [443] }] });
  t.same(
    await run(`await resolve('other.test'); out.raw = await secure('${OTHER_IP}', 'evil.test'); out.bound = await secure('${WEB_IP}', 'evil.test');
      out.name = await secure('${FORGED_IP}', 'ok.test');`),
    { raw: 'tls evil.test', bound: RESET, name: 'tls ok.test' },
  );
});
