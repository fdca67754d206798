// Connections of HTTP that are bound to the name that they say. The numbers are those of the attack list
// (docs/egress-attacks.md). Guests are namespaces; witnesses on one shared address see what arrives.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { FORGED_IP, openBoundLab, WEB_IP } from '../../../support/network/bound-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
const { seen, open } = await openBoundLab(t);
const OK = { host: 'ok.test', protocol: 'http', ports: [80] } as const;
/** Status of the answer to a request; by its lines. */
const SEND = `
const send = async (...lines) => { const r = await raw('${WEB_IP}', 80, lines.join('\\r\\n'), { ms: 3000 }); return /^HTTP.1.1 (\\d+)/.exec(r)?.[1] ?? r; };
const H = 'Host: ok.test';
const G = 'GET / HTTP/1.1';
const P = 'POST / HTTP/1.1';
`;

t.test('15, 33: the name’s own address is dialled, and another Host gets nothing', async (t) => {
  const { run, records } = await open(t, { rules: [OK] });
  seen.length = 0;
  const out = await run(`${SEND}
    out.forged = (await get('${FORGED_IP}', 'ok.test')).slice(-14); out.mixed = (await get('${FORGED_IP}', 'OK.test.:80')).slice(-18);
    out.other = await send(G, 'Host: evil.test', '', '');
    out.second = await raw('${WEB_IP}', 80, [G, H, '', ''].join('\\r\\n') + ['GET /evil HTTP/1.1', 'Host: evil.test', '', ''].join('\\r\\n'), { ms: 1500 });
    out.kept = await raw('${WEB_IP}', 80, [G, H, '', ''].join('\\r\\n').repeat(3), { ms: 1500 });`);
  t.match(out, { forged: 'http ok.test /', mixed: 'http OK.test.:80 /', other: '403' });
  t.notMatch(out.second, /evil/);
  t.equal(String(out.kept).match(/http ok\.test \//g)?.length, 3, 'requests of one name may follow');
  t.notOk(
    seen.some((line) => line.includes('evil')),
    'nothing of the other arrived',
  );
  await until(() => records.some(({ reason }) => reason === 'its Host is not that of the connection'));
});

t.test('control: by a rule for the port alone, another Host arrives', async (t) => {
  const { run } = await open(t, { rules: [{ cidr: `${WEB_IP}/32`, protocol: 'tcp', ports: [80] }] });
  const out = await run(`${SEND} out.other = await send(G, 'Host: evil.test', 'Connection: close', '', '');`);
  t.same(out, { other: '200' });
  t.ok(seen.some((line) => line.includes('evil.test')));
});

t.test('34–41, 43, 65: requests that servers could read differently', async (t) => {
  const { run } = await open(t, { rules: [OK] });
  seen.length = 0;
  const out = await run(`${SEND} const attack = {
    twoHosts: [G, H, 'Host: evil.test', '', ''], emptyHost: [G, 'Host:', '', ''], noHost: [G, 'Accept: x', '', ''],
    userInfo: [G, 'Host: x@ok.test', '', ''], path: [G, 'Host: ok.test/x', '', ''], comma: [G, 'Host: ok.test,evil.test', '', ''], tab: [G, 'Host: ok.test\\tx', '', ''],
    port0443: [G, 'Host: ok.test:080', '', ''], badPort: [G, 'Host: ok.test:x', '', ''],
    absolute: ['GET http://evil.test/ HTTP/1.1', H, '', ''], star: ['OPTIONS * HTTP/1.1', H, '', ''],
    both: [P, H, 'Content-Length: 5', 'Transfer-Encoding: chunked', '', '0', '', ''], twoLengths: [P, H, 'Content-Length: 5', 'Content-Length: 5', '', 'hello'],
    plus: [P, H, 'Content-Length: +5', '', 'hello'], hex: [P, H, 'Content-Length: 0x5', '', 'hello'], list: [P, H, 'Content-Length: 5,5', '', 'hello'],
    identity: [P, H, 'Transfer-Encoding: chunked, identity', '', '0', '', ''], xchunked: [P, H, 'Transfer-Encoding: xchunked', '', '0', '', ''],
    vertical: [P, H, 'Transfer-Encoding: chunked\\x0b', '', '0', '', ''], two: [P, H, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked', '', '0', '', ''],
    old: ['POST / HTTP/1.0', H, 'Transfer-Encoding: chunked', '', '0', '', ''],
    folded: [G, H, 'X: a', ' b', '', ''], space: [G, 'Host : ok.test', '', ''], cr: [G, H, 'X: a\\rb', '', ''], lf: [G, H, 'X: a\\nHost: evil.test', '', ''],
    nul: [G, H, 'X: a\\x00b', '', ''], nameless: [G, H, ': x', '', ''], version: ['GET / HTTP/1.2', H, '', ''],
    fragment: ['GET /#x HTTP/1.1', H, '', ''], high: ['GET /\\xff HTTP/1.1', H, '', ''],
  };
  const refused = { connect: ['CONNECT ok.test:80 HTTP/1.1', H, '', ''], trace: ['TRACE / HTTP/1.1', H, '', ''], track: ['TRACK / HTTP/1.1', H, '', ''], preface: ['PRI * HTTP/2.0', '', 'SM', '', ''] };
  for (const [k, lines] of Object.entries({ ...attack, ...refused })) out[k] = await send(...lines);
  out.misdirected = await send(G, 'Host: ok.test:444', '', ''); out.huge = await send(G, H, 'X: ' + 'a'.repeat(70000), '', '');
  out.nine = await send('GET /', '', ''); out.spaces = await send('GET  / HTTP/1.1', H, '', '');`);
  const { connect, trace, track, preface, misdirected, huge, nine, spaces, ...attacks } = out;
  t.same(
    { connect, trace, track, misdirected, nine, spaces },
    {
      connect: '403',
      trace: '403',
      track: '403',
      misdirected: '421',
      nine: 'ECONNRESET',
      spaces: 'ECONNRESET',
    },
  );
  t.match(preface, /^(400|403)$/);
  t.match(huge, /^(431|ECONNRESET|EPIPE)$/);
  for (const [attack, status] of Object.entries(attacks)) t.equal(status, '400', attack);
  t.same(seen, [], 'nothing arrived');
});

t.test('40, 42, 44, 45: bodies end where they say, and nothing hides behind them', async (t) => {
  const { run } = await open(t, { rules: [OK] });
  seen.length = 0;
  const out = await run(`${SEND}
    const C = 'Transfer-Encoding: chunked';
    const all = (...lines) => raw('${WEB_IP}', 80, lines.join('\\r\\n'), { ms: 1500 });
    const E = ['GET /evil HTTP/1.1', 'Host: evil.test', '', ''];
    const fine = [[P, H, 'Content-Length: 5', '', 'hello' + G, H, 'Connection: close', '', ''],
      [P, H, C, '', '5', 'hello', 'A', '0123456789', '0', '', G, H, 'Connection: close', '', '']];
    out.fine = []; for (const lines of fine) out.fine.push((await all(...lines)).match(/HTTP.1.1 200/g)?.length);
    out.hidden = []; for (const lines of [[P, H, 'Content-Length: 5', '', 'hello' + E[0], ...E.slice(1)], [P, H, C, '', '5', 'hello', '0', '', ...E],
      [P, H, C, '', '+5', 'hello', '0', '', ''], [P, H, C, '', '0x5', 'hello', '0', '', ''], [P, H, C, '', '5 ', 'hello', '0', '', ''],
      [P, H, C, '', '5;' + 'x'.repeat(65536), 'hello', '0', '', ''], [P, H, C, '', '00000000000000005', 'hello', '0', '', ''], [P, H, C, '', '5\\nhello', '0', '', ''],
      [P, H, C, '', '5', 'hello0', '', ''], [P, H, C, '', '5', 'hello', '0', 'Host: evil.test', '', ''], ['GET / HTTP/1.1', H, 'Content-Length: 3', '', 'abc' + E[0], ...E.slice(1)]])
      out.hidden.push(/evil/.test(await all(...lines)));
    out.continue = (await all(P, H, 'Expect: 100-continue', 'Content-Length: 5', 'Connection: close', '', 'hello')).slice(-14);`);
  t.same(out.fine, [2, 2]);
  t.ok((out.hidden as boolean[]).every((each) => !each));
  t.equal(out.continue, 'http ok.test /');
  t.notOk(
    seen.some((line) => line.includes('evil')),
    'no second request of another name arrived',
  );
});

t.test(
  '50, 51: an upgrade to WebSocket leads to the same server, another upgrade is not asked for',
  async (t) => {
    const { run } = await open(t, { rules: [OK] });
    seen.length = 0;
    const out = await run(`${SEND}
    const U = ['Connection: Upgrade'];
    const talk = (lines, more) => new Promise((done) => { const s = net.connect(80, '${WEB_IP}'); let text = ''; const timer = setTimeout(() => done(text), 1500);
      s.on('error', (e) => done(text + e.code)); s.on('connect', () => s.write(lines.join('\\r\\n'))); s.on('data', (d) => { text += d; if (/101/.test(d)) s.write(more); }); });
    out.socket = (await talk([G, H, ...U, 'Upgrade: websocket', '', ''], 'GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n')).includes('frame GET');
    for (const token of ['h2c', 'TLS/1.2', 'foo']) out[token] = /^HTTP.1.1 200/.test(await talk([G, H, ...U, 'Upgrade: ' + token, '', ''], ''));
    out.post = await send(P, H, ...U, 'Upgrade: websocket', 'Content-Length: 1', '', 'x');`);
    t.same(out, { socket: true, h2c: true, 'TLS/1.2': true, foo: true, post: '400' });
    t.same(
      seen.filter((line) => /upgrade/.test(line)),
      ['upgrade ok.test websocket'],
    );
    t.notOk(
      seen.some((line) => line.startsWith('http') && line.includes('evil')),
      'what is in the tunnel is no request',
    );
  },
);

t.test('a head that takes longer than 10 s, and what is no HTTP', async (t) => {
  const { run, records } = await open(t, { rules: [OK] });
  const out = await run(`
    const at = Date.now(); out.slow = await raw('${WEB_IP}', 80, 'GET / HTTP/1.1\\r\\nHost: ok.test\\r\\n'.padEnd(200, 'X'), { ms: 20000, size: 1, gapMs: 100 }); out.ms = Date.now() - at;
    out.ssh = await raw('${WEB_IP}', 80, 'SSH-2.0-x\\r\\n'); out.mail = await raw('${WEB_IP}', 80, 'EHLO x\\r\\n'); out.tls = await secure('${WEB_IP}', 'ok.test', 80);`);
  t.match(out, { slow: 'ECONNRESET', ssh: 'ECONNRESET', mail: 'ECONNRESET', tls: 'ECONNRESET' });
  t.ok(Number(out.ms) > 8000 && Number(out.ms) < 16_000);
  await until(() => records.length === 4);
});
