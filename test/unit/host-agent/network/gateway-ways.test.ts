// Ways that servers and other protocols offer beside a request that is read. The numbers are those of the attack list
// (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openInspectLab, WEB_IP } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));

/** A server that tells its connections apart, one that leads elsewhere, and protocols that become TLS later. */
const SERVERS = `
let count = 0;
const numbered = https.createServer(own, (q, s) => { seen('conn', q.socket.number, q.url);
  if (q.url === '/metadata') return void s.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end();
  if (q.url === '/loopback') return void s.writeHead(307, { location: 'https://127.0.0.1/' }).end();
  s.end('conn ' + q.socket.number + ' ' + q.url); });
numbered.on('secureConnection', (s) => { s.number = ++count; });
numbered.listen(9443, IP);
for (const [port, hello] of [[25, '220 mail'], [143, '* OK imap'], [389, ''], [3306, 'mysql']])
  net.createServer((s) => { seen('banner', port); s.on('error', () => {}); s.write(hello + '\\r\\n'); }).listen(port, IP);
`;
const { seen, open } = await openInspectLab(t, SERVERS);
const READ = { host: 'ok.test', protocol: 'tls', ports: [443, 9443], tls: 'inspect' } as const;

const KEPT = (path: string) => `
const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
out.first = await ask('GET', '${path}/1', { port: 9443, host: 'ok.test:9443', agent });
out.second = await ask('GET', '${path}/2', { port: 9443, host: 'ok.test:9443', agent });`;

t.test('53: two guests of one server share no connection to it, whatever they keep open', async (t) => {
  const [one, two] = [await open(t, { rules: [READ] }), await open(t, { rules: [READ] })];
  const [a, b] = await Promise.all([one.run(KEPT('/a')), two.run(KEPT('/b'))]);
  const numberOf = (text: unknown, path: string): string => {
    const [, number = ''] = new RegExp(`^200 conn (\\d+) ${path}$`).exec(String(text)) ?? [];
    t.match(number, /^\d+$/, `${text} is of its own request`);
    return number;
  };
  const ofOne = [numberOf(a.first, '/a/1'), numberOf(a.second, '/a/2')];
  const ofTwo = [numberOf(b.first, '/b/1'), numberOf(b.second, '/b/2')];
  for (const number of ofOne) t.notOk(ofTwo.includes(number), 'no connection has both');
});

t.test('54, 74: where an answer leads, only the guest goes, and not to addresses of the host', async (t) => {
  const { run, records } = await open(t, { rules: [READ] });
  const out = await run(`
    const at = { port: 9443, host: 'ok.test:9443' };
    out.metadata = await ask('GET', '/metadata', at); out.loopback = await ask('GET', '/loopback', at);
    const direct = (host, port) => new Promise((done) => { const s = net.connect({ host, port, timeout: 4000 }, () => { s.destroy(); done('connected'); });
      s.on('error', (e) => done(e.code)); s.on('timeout', () => { s.destroy(); done('timeout'); }); });
    out.followed = await direct('169.254.169.254', 80); out.other = await direct('${WEB_IP}', 8080);`);
  t.match(out, { metadata: /^302/, loopback: /^307/ }, 'as the server sent them');
  t.match(out.followed, /^(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ECONNRESET|timeout)$/);
  t.match(out.other, /^(?:ECONNREFUSED|ECONNRESET|timeout)$/);
  t.same(
    records.filter(({ verdict, address }) => verdict === 'allowed' && address === '169.254.169.254'),
    [],
  );
});

t.test('70: mail, directories and databases that begin without TLS need a rule of their own', async (t) => {
  const { run, change } = await open(t, { allowlist: [], rules: [READ] });
  const PROBE = `
    const banner = (port) => new Promise((done) => { const s = net.connect({ host: '${WEB_IP}', port, timeout: 4000 });
      s.on('data', (d) => { s.destroy(); done(String(d).trim()); }); s.on('error', (e) => done(e.code)); s.on('timeout', () => { s.destroy(); done('timeout'); }); });
    for (const port of [25, 143, 389, 3306]) out[port] = await banner(port);`;
  const refused = /^(?:ECONNREFUSED|ECONNRESET|timeout)$/;
  t.match(await run(PROBE), { 25: refused, 143: refused, 389: refused, 3306: refused });
  t.notOk(
    seen.some((line) => line.startsWith('banner')),
    'no server has seen it',
  );
  await change({ rules: [READ, { cidr: `${WEB_IP}/32`, protocol: 'tcp', ports: [143] }] });
  t.match(
    await run(PROBE),
    { 25: refused, 143: '* OK imap', 3306: refused },
    'control: by a rule, one arrives',
  );
});

t.test(
  '115: no certificate for what no rule has: other names, addresses, wildcards, long ones',
  async (t) => {
    const { run } = await open(t, { rules: [{ ...READ, host: '*.ok.test' }, READ] });
    const out = await run(`
    const leaf = (servername) => new Promise((done) => { const s = tls.connect({ host: '${WEB_IP}', port: 443, servername, ca, checkServerIdentity: () => undefined, timeout: 4000 },
        () => { const { subjectaltname } = s.getPeerCertificate(); s.destroy(); done(subjectaltname); });
      s.on('error', (e) => done('refused ' + e.code)); s.on('timeout', () => { s.destroy(); done('refused timeout'); }); });
    out.own = await leaf('ok.test');
    for (const name of ['evil.test', 'a.b.ok.test', 'x'.repeat(60) + '.' + 'y'.repeat(60) + '.' + 'z'.repeat(60) + '.' + 'w'.repeat(60) + '.ok.test', 'ok.test.evil.test'])
      out[name.slice(0, 20)] = await leaf(name);
    out.wildcard = await leaf('*.ok.test'); out.none = await leaf('');`);
    t.match(out.own, /DNS:ok\.test/, 'control');
    t.notMatch(out.own, /evil|\*/);
    const { own: _, ...others } = out;
    for (const [name, answer] of Object.entries(others)) t.match(answer, /^refused/, name);
  },
);
