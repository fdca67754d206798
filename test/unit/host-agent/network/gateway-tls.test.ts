// Requests within TLS that the gateway reads. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
/** A server of WebSocket, as far as the handshake, that sends back what it gets. */
const SOCKETS = `
const sockets = https.createServer(own, answer('h1'));
sockets.on('upgrade', (q, s) => { seen('upgrade', q.headers.host, q.url, q.headers.connection); s.on('error', () => {});
  if (q.url === '/ws/no') return void s.end('HTTP/1.1 404 Not Found\\r\\nContent-Length: 4\\r\\n\\r\\nnone');
  s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: ' + (q.url === '/ws/foo' ? 'foo' : 'websocket') + '\\r\\nConnection: Upgrade\\r\\n\\r\\n'); s.on('data', (d) => s.write('echo ' + d)); });
sockets.listen(9443, IP);
net.createServer((s) => s.on('error', () => {}).once('data', () => seen('silent'))).listen(9447, IP);`;
const { seen, open } = await openInspectLab(t, SOCKETS);
const READ = { host: 'ok.test', protocol: 'tls', ports: [443], tls: 'inspect' } as const;

t.test('methods and paths within TLS: what a rule has passes', async (t) => {
  const { run, records } = await open(t, { rules: [{ ...READ, methods: ['GET'], paths: ['/open/**'] }] });
  const out = await run(`
    out.get = await ask('GET', '/open/x?q=1'); out.post = await ask('POST', '/open/x', { body: 'abc' }); out.path = await ask('GET', '/secret');
    out.host = await ask('GET', '/open/x', { host: 'evil.test' });`);
  t.match(out, {
    get: '200 h1 ok.test GET /open/x?q=1',
    post: /^403 .*no rule for the name has the method POST/,
    path: /^403/,
    host: /^421/,
  });
  t.same(
    seen.filter((line) => line.startsWith('h1')),
    ['h1 ok.test GET /open/x?q=1'],
  );
  await until(() => records.some(({ status }) => status === 421));
  t.match(records[0], {
    verdict: 'allowed',
    protocol: 'tls',
    name: 'ok.test',
    port: 443,
    method: 'GET',
    path: '/open/x',
    status: 200,
  });
});

t.test('50, 51: WebSocket where a rule has it, to the same server', async (t) => {
  const { run, change, background, records } = await open(t, {
    rules: [
      { ...READ, ports: [9443], websocket: true, paths: ['/ws/**'] },
      { ...READ, ports: [9443], paths: ['/plain'] },
    ],
  });
  const HEAD = (path: string, more = '') =>
    `GET ${path} HTTP/1.1\r\nHost: ok.test:9443\r\nConnection: keep-alive, Upgrade\r\nUpgrade: ${more || 'websocket'}\r\n\r\n`;
  const hidden = 'GET /plain HTTP/1.1\r\nHost: evil.test\r\n\r\n';
  const out = await run(`
    const at = (text) => within(text, { port: 9443 });
    out.open = await at(${JSON.stringify(HEAD('/ws/x') + hidden)}); out.plain = statuses(await at(${JSON.stringify(HEAD('/plain'))})); out.path = statuses(await at(${JSON.stringify(HEAD('/other'))}));
    out.no = await at(${JSON.stringify(HEAD('/ws/no'))}); out.foo = statuses(await at(${JSON.stringify(HEAD('/ws/foo'))})); out.h2c = await at(${JSON.stringify(HEAD('/plain', 'h2c'))});
    out.post = statuses(await at(${JSON.stringify(HEAD('/ws/x').replace('GET', 'POST'))}));`);
  t.match(out, {
    open: /101 .*echo GET .plain/s,
    plain: '403',
    path: '403',
    no: /^HTTP.1.1 404.*none$/s,
    foo: '502',
    h2c: /^HTTP.1.1 200.*h1 ok.test:9443 GET .plain/s,
    post: '400',
  });
  t.notOk(
    seen.some((line) => /h1 evil/.test(line)),
    'what is in the tunnel is no request',
  );
  const lines =
    await background(`const s = tls.connect({ host: '93.184.215.14', port: 9443, servername: 'ok.test', ca }, () => s.write(${JSON.stringify(HEAD('/ws/long'))}));
    s.on('data', (d) => console.log('data')); s.on('error', () => {}); s.on('close', () => console.log('closed'));`);
  await until(() => lines.includes('data'));
  t.equal(
    await change({ rules: [{ ...READ, ports: [9443], paths: ['/plain'] }] }),
    1,
    '98: it is closed with the rule',
  );
  await until(() => lines.includes('closed'));
  await until(() => records.some(({ path, status }) => path === '/ws/x' && status === 101));
});

t.test('a handshake of the guest does not wait for that of the server', async (t) => {
  const { background } = await open(t, { rules: [{ ...READ, ports: [9447] }] });
  const lines =
    await background(`const s = tls.connect({ host: '93.184.215.14', port: 9447, servername: 'ok.test', ca, ALPNProtocols: ['http/1.1'] }, () => { console.log('shaken');  s.write('GET /x HTTP/1.1\\r\\nHost: ok.test:9447\\r\\n\\r\\n'); });
    s.on('data', (d) => console.log(String(d).split('\\r')[0])); s.on('error', () => {});`);
  await until(() => lines.includes('shaken') && seen.includes('silent'));
  t.same(lines, ['shaken'], 'its request waits for the server');
});
