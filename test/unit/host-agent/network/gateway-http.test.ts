// Requests of HTTP that the gateway reads. The numbers are those of the attack list (docs/egress-attacks.md). Guests are
// namespaces; witnesses on one shared address see what arrives.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { FORGED_IP, openBoundLab, WEB_IP } from '../../../support/network/bound-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
const { seen, open } = await openBoundLab(t);
const READ = { host: 'ok.test', protocol: 'http', ports: [80] } as const;
/** Status of the answer to a request; by its lines. */
const SEND = `
const status = (r) => String(r).match(/HTTP.1.1 \\d+/g)?.map((each) => each.slice(9)).join(' ') ?? r;
const send = async (...lines) => status(await raw('${WEB_IP}', 80, lines.join('\\r\\n'), { ms: 2500 }));
const H = 'Host: ok.test', C = 'Connection: close';
const ask = (method, path, ...more) => send(method + ' ' + path + ' HTTP/1.1', H, C, ...more, '', '');
`;

t.test('methods and paths: what a rule has passes, to the name’s own address', async (t) => {
  const { run, records } = await open(t, {
    rules: [{ ...READ, methods: ['GET', 'POST'], paths: ['/a/*/c', '/open/**'] }],
  });
  seen.length = 0;
  const out = await run(`${SEND}
    out.get = (await get('${FORGED_IP}', 'ok.test', '/a/b/c?q=/secret')).slice(-29);
    out.head = await ask('HEAD', '/open/x'); out.post = await send('POST /open/ HTTP/1.1', H, C, 'Content-Length: 3', '', 'abc');
    out.method = await ask('PUT', '/open/x'); out.lower = await ask('get', '/open/x');
    out.path = await ask('GET', '/a/b/d'); out.root = await ask('GET', '/open');
    out.kept = await raw('${WEB_IP}', 80, ['GET /open/1', 'GET /secret', 'GET /open/2'].map((line) => line + ' HTTP/1.1\\r\\n' + H + '\\r\\n\\r\\n').join(''), { ms: 1500 });`);
  t.match(out, { get: 'http ok.test /a/b/c?q=/secret', head: '200', post: '200', path: '403', root: '403' });
  t.match([out.method, out.lower], ['403', /^(400|403)$/]);
  t.equal(
    String(out.kept)
      .match(/HTTP.1.1 \d+/g)
      ?.join(),
    'HTTP/1.1 200,HTTP/1.1 403,HTTP/1.1 200',
  );
  t.match(out.kept, /sandbox network: no rule for the name and method has the path/);
  t.notOk(seen.some((line) => /secret \/|PUT|\/d$/.test(line)));
  await until(() => records.filter(({ verdict }) => verdict === 'denied').length >= 5);
  t.match(
    records.find(({ path }) => path === '/a/b/c'),
    {
      verdict: 'allowed',
      protocol: 'http',
      name: 'ok.test',
      port: 80,
      method: 'GET',
      status: 200,
      rule: 'ok.test:80/http',
    },
  );
});

t.test('33–45, 50, 51: two parsers read each request, and an upgrade needs a rule', async (t) => {
  const { run } = await open(t, { rules: [{ ...READ, websocket: true, paths: ['/ws', '/plain'] }] });
  const without = await open(t, { rules: [{ ...READ, methods: ['GET'] }] });
  seen.length = 0;
  const script = `${SEND} const G = 'GET /plain HTTP/1.1', P = 'POST /plain HTTP/1.1', U = 'Connection: Upgrade';
    const talk = (lines, more) => new Promise((done) => { const s = net.connect(80, '${WEB_IP}'); let text = ''; const timer = setTimeout(() => done(text), 2500);
      s.on('error', (e) => done(text + e.code)); s.on('connect', () => s.write(lines.join('\\r\\n'))); s.on('data', (d) => { text += d; if (/101/.test(d)) s.write(more); }); });
    // The first connection starts the gateway.
    for (let tries = 0; tries < 10 && out.first !== '200'; tries++) out.first = await send(G, H, C, '', '');
    out.socket = /101 Switching[^]*frame GET/.test(await talk(['GET /ws HTTP/1.1', H, U, 'Upgrade: websocket', '', ''], 'GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'));
    out.other = await send('GET /x HTTP/1.1', H, U, 'Upgrade: websocket', '', '');
    out.h2c = await send(G, H, U, 'Upgrade: h2c', '', '');
    out.host = await send(G, H, '', 'GET /plain HTTP/1.1', 'Host: evil.test', '', '');
    out.both = await send(P, H, 'Content-Length: 5', 'Transfer-Encoding: chunked', '', '0', '', '');
    out.trailer = await send(P, H, 'Transfer-Encoding: chunked', '', '3', 'abc', '0', 'Host: evil.test', '', '');
    out.trace = await send('TRACE /plain HTTP/1.1', H, '', '');`;
  t.match(await run(script), {
    first: '200',
    socket: true,
    other: '403',
    h2c: '200',
    host: /^(200 )?421$|^200$|ECONNRESET/,
    both: '400',
    trace: '403',
  });
  t.match(await without.run(script), { first: '200', socket: false });
  t.notOk(
    seen.some((line) => /^http .*evil/.test(line)),
    'nothing for another name arrived',
  );
});
