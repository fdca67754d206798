// Requests of HTTP/2 that the gateway reads. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
/** A server in the manner of gRPC: it answers each message, and ends with trailers. */
const GRPC = `
const grpc = http2.createSecureServer(own);
grpc.on('stream', (s, f) => { s.on('error', () => {}); seen('grpc', f[':authority'], f[':path'], f.te);
  s.respond({ ':status': 200, 'content-type': 'application/grpc', 'alt-svc': 'h3=":443"' }, { waitForTrailers: true });
  s.on('wantTrailers', () => s.sendTrailers({ 'grpc-status': '0', 'x-last': 'yes' }));
  s.on('data', (d) => s.write('got ' + d)); s.on('end', () => s.end());
  s.on('close', () => seen('closed', s.rstCode)); });
grpc.listen(8445, IP);`;
const { seen, open } = await openInspectLab(t, GRPC);
const READ = { host: 'ok.test', protocol: 'tls', ports: [8443], tls: 'inspect' } as const;
const CLIENT = `
const session = (port = 8443) => { const c = http2.connect('https://ok.test:' + port, { createConnection: () => tls.connect({ host: '93.184.215.14', port, servername: 'ok.test', ca, ALPNProtocols: ['h2'] }) }); c.on('error', () => {}); return c; };
const stream = (c, headers, body) => new Promise((done) => { let s; try { s = c.request(headers); } catch (e) { return done(e.code); } let text = '', status;
  s.on('response', (f) => { status = f[':status']; }); s.on('data', (d) => { text += d; }); s.on('error', (e) => done(e.code)); s.on('close', () => done(status + ' ' + text.trim())); setTimeout(() => done('timeout ' + status + text), 4000); s.end(body); });
`;

t.test('57–60, 63, 65: streams are judged one by one', async (t) => {
  const { run, records } = await open(t, {
    rules: [{ ...READ, methods: ['GET', 'POST'], paths: ['/open/**'] }],
  });
  const out = await run(`${CLIENT}
    const c = session();
    out.get = await stream(c, { ':path': '/open/x?q=1' });
    out.post = await stream(c, { ':path': '/open/x', ':method': 'POST' }, 'abc');
    out.path = await stream(c, { ':path': '/secret' });
    out.dots = await stream(c, { ':path': '/open/../secret' });
    out.method = await stream(c, { ':path': '/open/x', ':method': 'DELETE' });
    out.authority = await stream(c, { ':path': '/open/x', ':authority': 'evil.test' });
    out.other = await stream(c, { ':path': '/open/x', ':authority': 'other.test:8443' });
    out.host = await stream(c, { ':path': '/open/x', ':authority': 'ok.test:8443', host: 'evil.test' });
    out.upper = await stream(c, { ':path': '/open/x', ':authority': 'OK.TEST:8443' });
    out.scheme = await stream(c, { ':path': '/open/x', ':scheme': 'http' });
    out.trace = await stream(c, { ':path': '/open/x', ':method': 'TRACE' });
    out.connect = await stream(c, { ':method': 'CONNECT', ':authority': 'ok.test:8443' });
    out.again = await stream(c, { ':path': '/open/last' });
    out.h1 = await ask('GET', '/open/h1', { port: 8443, host: 'ok.test:8443' });
    out.bytes = await within('GET /open/x HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n', { port: 8443, alpn: ['h2'] });
    c.close();`);
  t.match(out, {
    get: '200 h2 ok.test:8443 GET /open/x?q=1',
    post: '200 h2 ok.test:8443 POST /open/x 3',
    path: /^403/,
    dots: /^400/,
    method: /^403/,
    authority: /^421/,
    other: /^421/,
    host: /^421/,
    upper: '200 h2 ok.test:8443 GET /open/x',
    scheme: /^400/,
    trace: /^403/,
    again: '200 h2 ok.test:8443 GET /open/last',
    h1: '200 h2 ok.test:8443 GET /open/h1',
  });
  t.notMatch(out.connect, /^200/);
  t.notMatch(out.bytes, /HTTP.1.1 200/);
  t.notOk(
    seen.some((line) => /evil|other|secret|TRACE|DELETE/.test(line)),
    'nothing else arrived',
  );
  await until(() => records.some(({ path }) => path === '/open/last'));
});

t.test('63: gRPC, with its trailers and messages in both directions', async (t) => {
  const { run } = await open(t, { rules: [{ ...READ, ports: [8445] }] });
  const out = await run(`${CLIENT}
    const c = session(8445);
    out.texts = []; const s = c.request({ ':path': '/Service/Call', ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' });
    s.on('response', (f) => { out.response = f['content-type']; out.alt = f['alt-svc'] ?? 'none'; }); s.on('trailers', (f) => { out.trailers = f['grpc-status'] + f['x-last']; });
    await new Promise((next) => { s.on('data', (d) => { out.texts.push(String(d)); if (out.texts.length < 3) s.write('m' + out.texts.length); else s.end(); }); s.on('close', next); s.write('m0'); });
    for (let at = 0; at < 8; at++) {
      const dead = c.request({ ':path': '/Service/Dead', ':method': 'POST', te: 'trailers' }); dead.on('error', () => {});
      dead.write('x'); await new Promise((next) => dead.on('data', next)); dead.destroy(new Error('cut'));
    }
    await new Promise((next) => setTimeout(next, 500));
    c.close();`);
  t.match(out, {
    texts: ['got m0', 'got m1', 'got m2'],
    trailers: '0yes',
    response: 'application/grpc',
    alt: 'none',
  });
  t.ok(seen.includes('grpc ok.test:8445 /Service/Call trailers'));
  await until(() => seen.filter((line) => line.startsWith('closed')).length === 9);
  t.equal(
    seen.filter((line) => line === 'closed 2').length,
    8,
    'a request that is cut is none that has ended',
  );
});
