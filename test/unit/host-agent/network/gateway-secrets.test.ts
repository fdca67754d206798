// Secrets of guests, with real servers: values go to their hosts alone, and come back as stars.
import '../../../support/network/own-network.ts';
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import type { GatewaySecret } from '../../../../host-agent/src/network/gateway-wire.ts';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));

const VALUE = 'ghp_/a+value=that&is%odd"0123456789';
const NEXT = 'ghp_the-next-value-0123456789abcdef';
const PLACEHOLDER = `sbxs_gh_${'a'.repeat(26)}`;
const STARS = '*'.repeat(VALUE.length);

/** Servers that send back what they get. */
const SERVERS = `
const zlib = require('zlib');
let release; const released = new Promise((done) => { release = done; });
const echo = (q, s) => { let body = ''; console.log('head ' + q.url + ' ' + (q.headers.authorization ?? ''));
  if (q.url === '/slow') return void released.then(() => s.end('slow'));
  if (q.url === '/release') release(); q.on('data', (d) => { body += d; }); q.on('end', () => {
  const host = q.headers[':authority'] ?? q.headers.host;
  console.log('got ' + JSON.stringify({ host, url: q.url, ...q.headers, body }));
  const text = JSON.stringify({ ...q.headers, url: q.url, body }) + ' ' + Buffer.from(q.headers.authorization ?? '').toString('base64');
  if (q.url === '/gzip') { s.setHeader('content-encoding', 'gzip'); return s.end(zlib.gzipSync(text)); }
  if (q.url === '/strange') { s.setHeader('content-encoding', 'strange'); return s.end(text); }
  s.setHeader('x-echo', q.headers.authorization ?? 'none');
  for (let at = 0; at < text.length; at += 7) s.write(text.slice(at, at + 7));
  s.end(); }); };
const both = http2.createSecureServer({ ...own, allowHTTP1: true }, echo); both.listen(9443, IP);
const sockets = https.createServer(own, echo);
sockets.on('upgrade', (q, s) => { s.on('close', () => console.log('closed')); s.on('error', () => {}); console.log('got ' + JSON.stringify(q.headers));
  s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n');
  const text = Buffer.from('you sent ' + q.headers.authorization);
  s.write(Buffer.concat([Buffer.from([0x81, text.length]), text])); });
sockets.listen(9444, IP);`;

const { seen, open } = await openInspectLab(t, SERVERS);
const READ = {
  host: 'ok.test',
  protocol: 'tls',
  ports: ['9443-9444'],
  tls: 'inspect',
  websocket: true,
} as const;
const OTHER = { ...READ, host: 'other.test' } as const;

function bind(value: string | null, change: Partial<GatewaySecret> = {}): GatewaySecret {
  return {
    ...{
      name: 'GH',
      placeholder: PLACEHOLDER,
      hosts: ['ok.test'],
      forms: ['bearer', 'basic', 'header', 'body'],
    },
    ...{ value: value === null ? null : Buffer.from(value).toString('base64'), plainHttp: false },
    ...change,
  };
}

function handed(secrets: () => readonly GatewaySecret[]) {
  return { now: () => ({ secrets: secrets(), allowsPlainHttp: false }), refresh: async () => undefined };
}

const got = () => seen.filter((line) => line.startsWith('got ')).map((line) => JSON.parse(line.slice(4)));

t.test('a request has the value, its answer has none, and a rotation is seen by the next', async (t) => {
  let secrets = [bind(VALUE)];
  const policy = { rules: [READ, OTHER] };
  const { run, records, network, slot } = await open(
    t,
    policy,
    undefined,
    handed(() => secrets),
  );
  const bearer = `{ port: 9443, host: 'ok.test:9443', headers: { authorization: 'Bearer ${PLACEHOLDER}', range: 'bytes=0-1' } }`;
  const out = await run(`out.get = await ask('GET', '/', ${bearer});
    out.gzip = await ask('GET', '/gzip', ${bearer}); out.strange = await ask('GET', '/strange', ${bearer});
    out.body = await ask('POST', '/', { port: 9443, host: 'ok.test:9443', headers: { 'content-type': 'application/json' }, body: '{"t":"${PLACEHOLDER}"}' });
    out.other = await ask('GET', '/', { port: 9443, name: 'other.test', host: 'other.test:9443', headers: { authorization: 'Bearer ${PLACEHOLDER}' } });
    out.path = await ask('GET', '/${PLACEHOLDER}', { port: 9443, host: 'ok.test:9443' });`);
  const [get, gzip, strange, body, path, ...more] = got();
  t.match(
    [get, gzip, strange],
    [1, 2, 3].map(() => ({ authorization: `Bearer ${VALUE}`, 'accept-encoding': 'identity' })),
  );
  t.notOk('range' in get);
  t.match(body, { body: JSON.stringify({ t: VALUE }) });
  t.match(path, { url: `/${PLACEHOLDER}` }, 'never in a path');
  t.same(more, [], 'the other host has no request');
  t.match(out, {
    get: /^200 .*Bearer \*/,
    gzip: /^200 .*Bearer \*/,
    strange: /^502 .*content coding strange/,
    body: /^200/,
    other: /^403 .*secret GH is not for other.test:9443/,
  });
  const encoded = Buffer.from(`Bearer ${VALUE}`).toString('base64').slice(12, -4);
  for (const text of Object.values(out))
    for (const form of [VALUE, JSON.stringify(VALUE).slice(1, -1), encoded])
      t.notOk(String(text).includes(form));
  await until(() => records.some(({ path }) => path === '/gzip'));
  t.match(
    records.find(({ path }) => path === '/gzip'),
    { verdict: 'allowed', secrets: ['GH'], forms: ['bearer'] },
  );
  t.notMatch(JSON.stringify(records), 'ghp_');
  secrets = [bind(NEXT)];
  await network.changeSecrets(slot);
  await run(`out.next = await ask('GET', '/', ${bearer});`);
  t.match(got().at(-1), { authorization: `Bearer ${NEXT}` });
  secrets = [bind(null)];
  await network.changeSecrets(slot);
  const removed = await run(`out.removed = await ask('GET', '/', ${bearer});`);
  t.match(removed, { removed: /^403 .*secret GH has no value here/ });
  t.equal(processesWith(VALUE, NEXT), '', 'no argument or environment of a process has it');
});

t.test('by HTTP/2 and in a WebSocket', async (t) => {
  seen.length = 0;
  const secrets = [
    bind(VALUE),
    bind(VALUE, { name: 'K', placeholder: null, inject: { header: 'x-key', format: '{}' }, forms: [] }),
  ];
  const { run } = await open(
    t,
    { rules: [READ] },
    undefined,
    handed(() => secrets),
  );
  const out = await run(`
    out.h2 = await new Promise((done) => { const c = http2.connect('https://ok.test:9443', { createConnection: () => tls.connect({ host: '93.184.215.14', port: 9443, servername: 'ok.test', ca, ALPNProtocols: ['h2'] }) });
      c.on('error', (e) => done(e.message)); const s = c.request({ ':path': '/', authorization: 'Bearer ${PLACEHOLDER}', 'x-key': 'own' });
      let text = ''; s.on('response', (h) => { text += h[':status'] + ' ' + h['x-echo'] + ' '; }); s.on('data', (d) => { text += d; }); s.on('end', () => { done(text); c.destroy(); }); s.on('error', (e) => done(e.message)); s.end(); });
    out.ws = await within('GET /ws HTTP/1.1\\r\\nHost: ok.test:9444\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Extensions: permessage-deflate\\r\\nAuthorization: Bearer ${PLACEHOLDER}\\r\\n\\r\\n', { port: 9444 });`);
  t.match(got(), [
    { authorization: `Bearer ${VALUE}`, 'x-key': VALUE },
    { authorization: `Bearer ${VALUE}`, 'x-key': VALUE },
  ]);
  t.notOk('sec-websocket-extensions' in (got()[1] ?? {}));
  t.match(out, { h2: `200 Bearer ${STARS} `, ws: `you sent Bearer ${STARS}` });
  for (const text of Object.values(out)) t.notOk(String(text).includes(VALUE));
});

t.test('requests that wait do not keep what was changed or removed', async (t) => {
  seen.length = 0;
  let secrets = [bind(VALUE)];
  const { background, network, run, slot } = await open(
    t,
    { rules: [READ] },
    undefined,
    handed(() => secrets),
  );
  const authorization = `Authorization: Bearer ${PLACEHOLDER}\\r\\n`;
  const lines = await background(`
    const send = (name, port, text) => { const s = tls.connect({ host: '93.184.215.14', port, servername: 'ok.test', ca }, () => s.write(text.replaceAll('HOST', 'Host: ok.test:' + port + '\\r\\n')));
      s.on('data', (d) => { for (const [line] of d.toString('latin1').matchAll(/HTTP.1.1 .../g)) console.log(name, line); }); s.on('error', () => {}); s.on('close', () => console.log(name, 'closed')); };
    send('pipe', 9443, 'GET /slow HTTP/1.1\\r\\nHOST\\r\\nGET /later HTTP/1.1\\r\\nHOST${authorization}\\r\\n');
    send('stash', 9443, 'POST /stash HTTP/1.1\\r\\nHOSTTransfer-Encoding: chunked\\r\\n${authorization}\\r\\n');
    send('socket', 9444, 'GET /ws HTTP/1.1\\r\\nHOSTConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n${authorization}\\r\\n');`);
  await until(() => seen.includes('head /slow') && seen.includes(`head /stash Bearer ${VALUE}`));
  await until(() => lines.includes('socket HTTP/1.1 101'));
  secrets = [bind(NEXT)];
  await network.changeSecrets(slot);
  await run(`out.done = await ask('GET', '/release', { port: 9443, host: 'ok.test:9443' });`);
  await until(() => lines.includes('pipe HTTP/1.1 403'));
  t.ok(lines.includes('pipe HTTP/1.1 200'));
  t.notOk(seen.some((line) => line.startsWith('head /later')));
  t.notOk(seen.includes('closed'), 'what was sent goes on with the value of its time');
  secrets = [bind(NEXT, { hosts: ['other.test'] })];
  await network.changeSecrets(slot);
  await until(() => lines.includes('stash HTTP/1.1 403') && lines.includes('socket closed'));
  await until(() => seen.includes('closed'));
});

/** The command line or environment of a process that has one of them. */
function processesWith(...values: string[]): string {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    for (const file of ['cmdline', 'environ'])
      try {
        const text = readFileSync(`/proc/${pid}/${file}`, 'latin1');
        // Those of the test have what they serve and ask.
        if (values.some((value) => text.includes(value)) && /gateway|sandboxd|egressd/.test(text))
          return `${pid}/${file}`;
      } catch {
        // It has ended.
      }
  return '';
}
