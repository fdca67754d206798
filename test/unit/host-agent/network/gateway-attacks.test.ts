// What a guest could send within TLS to be judged as one request and served as another, and what a server could answer.
// The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));
/** A server that answers with the bytes that the path has in base64url, and one that wants a certificate of its client. */
const SERVERS = `
tls.createServer(own, (s) => { s.on('error', () => {}); let text = ''; s.on('data', (d) => { text += d; const at = text.indexOf('\\r\\n\\r\\n'); if (at < 0) return;
  seen('raw', text.split(' ')[0]); const path = text.split(' ')[1]; const bytes = path === '/huge' ? Buffer.from('HTTP/1.1 200 OK\\r\\nX: ' + 'a'.repeat(100000) + '\\r\\n\\r\\n') : Buffer.from(path.slice(1), 'base64url'); text = text.slice(at + 4); s.write(bytes); if (bytes.includes('close')) s.end(); }); }).listen(9444, IP);
https.createServer({ ...own, requestCert: true, rejectUnauthorized: true }, answer('h1')).listen(9445, IP);
const second = https.createServer(own, (q, s) => { seen('second', q.method, q.url, JSON.stringify(q.rawHeaders), q.socket.remotePort); let size = 0; q.on('data', (d) => { size += d.length; }); q.on('end', () => { seen('trailers', JSON.stringify(q.rawTrailers)); s.end('size ' + size); }); });
second.listen(9446, IP);`;
const { seen, open: openCold } = await openInspectLab(t, SERVERS);
/** The first connection starts the gateway. */
const open: typeof openCold = async (...args) => {
  const opened = await openCold(...args);
  await opened.run(`await ask('GET', '/');`);
  return opened;
};
const READ = { host: 'ok.test', protocol: 'tls', ports: [443, '8444-9999'], tls: 'inspect' } as const;
const LINES = `
const lines = (...all) => all.join('\\r\\n');
const H = 'Host: ok.test', G = 'GET / HTTP/1.1', P = 'POST / HTTP/1.1', C = 'Transfer-Encoding: chunked', E = 'Connection: close';
const send = async (port, ...all) => statuses(await within(lines(...all), { port, ms: 1500 }));
`;

t.test('34–43, 50: heads that servers could read differently', async (t) => {
  const { run } = await open(t, { rules: [READ] });
  seen.length = 0;
  const out = await run(`${LINES} const attack = {
    twoHosts: [G, H, 'Host: evil.test', '', ''], emptyHost: [G, 'Host:', '', ''], noHost: [G, 'Accept: x', '', ''], userInfo: [G, 'Host: x@ok.test', '', ''],
    path: [G, 'Host: ok.test/x', '', ''], comma: [G, 'Host: ok.test,evil.test', '', ''], port0443: [G, 'Host: ok.test:0443', '', ''],
    star: ['OPTIONS * HTTP/1.1', H, '', ''], fragment: ['GET /#x HTTP/1.1', H, '', ''], high: ['GET /\\xff HTTP/1.1', H, '', ''],
    both: [P, H, 'Content-Length: 5', C, '', '0', '', ''], twoLengths: [P, H, 'Content-Length: 5', 'Content-Length: 5', '', 'hello'], plus: [P, H, 'Content-Length: +5', '', 'hello'],
    hex: [P, H, 'Content-Length: 0x5', '', 'hello'], list: [P, H, 'Content-Length: 5,5', '', 'hello'], gzip: [P, H, 'Transfer-Encoding: gzip, chunked', '', '0', '', ''],
    identity: [P, H, 'Transfer-Encoding: chunked, identity', '', '0', '', ''], xchunked: [P, H, 'Transfer-Encoding: xchunked', '', '0', '', ''],
    two: [P, H, C, C, '', '0', '', ''], old: ['POST / HTTP/1.0', H, C, '', '0', '', ''], folded: [G, H, 'X: a', ' b', '', ''], space: [G, 'Host : ok.test', '', ''],
    cr: [G, H, 'X: a\\rb', '', ''], lf: [G, H, 'X: a\\nHost: evil.test', '', ''], nul: [G, H, 'X: a\\x00b', '', ''], nameless: [G, H, ': x', '', ''], version: ['GET / HTTP/1.2', H, '', ''],
    nine: ['GET /', '', ''], preface: ['PRI * HTTP/2.0', '', 'SM', '', ''], twoKeys: [G, H, 'Authorization: a', 'Authorization: b', '', ''],
    absolute: ['GET https://ok.test.evil.test/ HTTP/1.1', H, '', ''], scheme: ['GET http://ok.test/ HTTP/1.1', H, '', ''] };
  out.attacks = {}; for (const [k, all] of Object.entries(attack)) out.attacks[k] = await send(443, ...all);
  out.connect = await send(443, 'CONNECT ok.test:443 HTTP/1.1', H, '', ''); out.trace = await send(443, 'TRACE / HTTP/1.1', H, '', '');
  out.other = await send(443, 'GET https://evil.test/ HTTP/1.1', H, '', ''); out.port = await send(443, G, 'Host: ok.test:444', '', ''); out.huge = await send(443, G, H, 'X: ' + 'a'.repeat(70000), '', '');`);
  const { attacks, ...rest } = out;
  for (const [attack, status] of Object.entries(attacks as Record<string, string>))
    t.match(status, /^(400( 400)?|421|505|ended|ECONNRESET)$/, `${attack} ${status}`);
  t.match(rest, { connect: '403', trace: '403', other: '421', port: '421' });
  t.match(rest.huge, /^(431|ECONNRESET)$/);
  t.same(
    seen.filter((line) => /^h1/.test(line)),
    [],
    'nothing arrived',
  );
});

t.test('36, 42, 44, 45, 49, 55, 56: what is sent is written again', async (t) => {
  const { run } = await open(t, { rules: [READ] });
  seen.length = 0;
  const out = await run(`${LINES} const O = 'Host: OK.test:9446';
    out.absolute = await send(9446, 'GET https://ok.test:9446/abs HTTP/1.1', O, E, '', '');
    out.chunked = await send(9446, P, O, C, 'Connection: close, Host, Authorization', 'Authorization: mine', 'Proxy-Authorization: x', 'TE: gzip', 'Keep-Alive: 1', '', '3;ext=1', 'abc', '0', 'Host: evil.test', 'Authorization: other', '', '');
    out.get = await send(9446, 'GET /body HTTP/1.1', O, E, 'Content-Length: 3', '', 'abc');
    out.expect = await send(9446, 'POST /expect HTTP/1.1', O, E, 'Expect: 100-continue', 'Content-Length: 3', '', 'abc');
    out.hidden = await send(9446, 'POST /hidden HTTP/1.1', O, 'Content-Length: 3', '', 'abcGET /evil HTTP/1.1', 'Host: evil.test', '', '');
    out.pipelined = await send(9446, 'GET /1 HTTP/1.1', O, '', 'GET /2 HTTP/1.1', O, E, '', '');`);
  t.match(out, { absolute: '200', chunked: '200', get: '200', pipelined: '200 200' });
  t.match(out.expect, /200$/);
  t.match(out.hidden, /^200 421$/);
  t.notOk(seen.some((line) => /evil|Proxy-Auth|gzip|Keep-Alive|"other"|OK\.test/.test(line)));
  t.ok(
    seen.some((line) => /^second POST \/ .*Authorization","mine"/.test(line)),
    'a header that Connection names stays',
  );
});

t.test('31, 30, 52, 54, 55: servers', async (t) => {
  const { run, guest, records } = await open(t, { rules: [READ] });
  seen.length = 0;
  const out = await run(`${LINES} const OK = 'HTTP/1.1 200 OK\\r\\n';
    const answers = { lengths: OK + 'Content-Length: 5\\r\\nContent-Length: 6\\r\\n\\r\\nhello', both: OK + 'Content-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n',
      flood: 'HTTP/1.1 103 Early\\r\\n\\r\\n'.repeat(40) + OK + '\\r\\n', lf: 'HTTP/1.1 200 OK\\nX: a\\n\\n', cr: OK + 'X: a\\rb\\r\\n\\r\\n', unasked: 'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: foo\\r\\nConnection: Upgrade\\r\\n\\r\\n', junk: 'SSH-2.0-close\\r\\n' };
    out.refused = {}; for (const [k, bytes] of Object.entries(answers)) { const p = Buffer.from(bytes).toString('base64url'); out.refused[k] = (await ask('GET', '/' + p, { port: 9444, host: 'ok.test:9444' })).slice(0, 3); }
    const of = (bytes) => ask('GET', '/' + Buffer.from(bytes).toString('base64url'), { port: 9444, host: 'ok.test:9444' });
    out.refused.huge = (await ask('GET', '/huge', { port: 9444, host: 'ok.test:9444' })).slice(0, 3);
    out.redirect = (await within(lines('GET /' + Buffer.from('HTTP/1.1 302 Found\\r\\nLocation: https://evil.test/\\r\\nAlt-Svc: h3=":443"\\r\\nContent-Length: 0\\r\\n\\r\\n').toString('base64url') + ' HTTP/1.1', 'Host: ok.test:9444', E, '', ''), { port: 9444 }));
    out.cut = await of(OK + 'Content-Length: 50\\r\\n\\r\\nclose'); out.empty = await of('HTTP/1.1 204 No Content\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\n\\r\\nsplit');
    out.unknown = await ask('GET', '/', { port: 8444, host: 'ok.test:8444' }); out.client = await ask('GET', '/', { port: 9445, host: 'ok.test:9445' });`);
  const pinned = await guest.sh(
    'openssl s_client -connect 93.184.215.14:443 -servername ok.test -verify_return_error </dev/null 2>&1 || true',
  );
  t.match(Object.values(out.refused as object), new Array(8).fill(/^502/));
  t.match(out, {
    cut: /^cut/,
    empty: '204 ',
    unknown: /^502 .*certificate of the server is not valid/,
    client: /^502/,
  });
  t.match(out.redirect, /302 Found.*Location: https:\/\/evil\.test/s);
  t.notMatch(out.redirect, /Alt-Svc/i);
  t.match(pinned, /verify error/);
  t.notOk(
    seen.some((line) => /^h1/.test(line)),
    'no request reached a server that is not what it says',
  );
  await until(() =>
    records.some(({ reason }) => /does not trust the certificate authority/.test(String(reason))),
  );
});

t.test('46–48: methods and paths with more than one meaning', async (t) => {
  const { run } = await open(t, {
    rules: [
      { ...READ, methods: ['GET'], paths: ['/ok/**'] },
      { ...READ, methods: ['PUT'], paths: ['/npm/**'], encoded_slash: true },
    ],
  });
  seen.length = 0;
  const out = await run(`${LINES}
    const paths = ['/ok/../secret', '/ok/%2e%2e/secret', '/ok/%252e%252e/secret', '/ok/..;/secret', '/ok//secret', '//ok/x', '/ok/./x', '/ok/\\\\x', '/ok/%5c..', '/ok/%2fsecret', '/ok/%00', '/ok/%ff', '/ok/;a=b/x', '/ok/a;..', '/ok/%zz', '/ok/%'];
    out.paths = []; for (const path of paths) out.paths.push(await send(443, 'GET ' + path + ' HTTP/1.1', H, E, '', ''));
    out.same = await ask('GET', '/ok/%41%7eb?x=/../secret'); out.params = await ask('GET', '/ok/a;b=c'); out.npm = await ask('PUT', '/npm/@a%2fb');
    out.override = []; for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X_HTTP_Method_Override']) out.override.push((await ask('GET', '/ok/x', { headers: { [name]: 'DELETE' } })).slice(0, 3));
    out.query = (await ask('GET', '/ok/x?a=1&%5Fmethod=DELETE')).slice(0, 3);`);
  t.same([...new Set(out.paths as string[])], ['400']);
  t.match(out, {
    same: '200 h1 ok.test GET /ok/A~b?x=/../secret',
    params: '200 h1 ok.test GET /ok/a;b=c',
    npm: '200 h1 ok.test PUT /npm/@a%2Fb',
    query: '403',
  });
  t.same(out.override, ['403', '403', '403', '403']);
});
