// Secrets that a guest wants for itself by requests within requests, by answers and by guesses. In the controls the same
// bytes show a value or a token. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import t, { type Test } from 'tap';
import type { GatewaySecret } from '../../../../host-agent/src/network/gateway-wire.ts';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));
const VALUE = 'ghp_0123456789abcdefghijklmnopqrstuv';
const PLACEHOLDER = `sbxs_gh_${'a'.repeat(26)}`;
const TOKEN = 'fresh-token-0123456789';
/** \`other.test\` has the same server; each request is a line with all that it has. */
const SERVERS = `
const echo = (q, s) => { let body = ''; q.on('data', (d) => { body += d; }); q.on('end', () => {
  seen('got', q.headers.host, q.method, q.url, JSON.stringify(q.rawHeaders), JSON.stringify(body));
  if (q.url === '/token') { s.setHeader('content-type', 'application/json'); return s.end(JSON.stringify({ access_token: '${TOKEN}', sent: q.headers.authorization })); }
  s.end('ok'); }); };
https.createServer({ ...own, insecureHTTPParser: true }, echo).listen(9443, IP);`;
const { seen, open } = await openInspectLab(t, SERVERS);
const READ = { host: 'ok.test', protocol: 'tls', ports: [9443], tls: 'inspect' } as const;
const OTHER = { ...READ, host: 'other.test' } as const;
const GH: GatewaySecret = {
  ...{ name: 'GH', placeholder: PLACEHOLDER, value: Buffer.from(VALUE).toString('base64') },
  ...{ hosts: ['ok.test'], forms: ['bearer', 'basic', 'header', 'body'], plainHttp: false },
};
/** The first request starts the gateway. */
async function withSecrets(t: Test) {
  const secrets = { now: () => ({ secrets: [GH], allowsPlainHttp: false }), refresh: async () => {} };
  const opened = await open(t, { rules: [READ, OTHER] }, undefined, secrets);
  await opened.run(`await ask('GET', '/', { port: 9443, host: 'ok.test:9443' });`);
  return opened;
}
const HEAD = `const H = 'Host: ok.test:9443', A = 'Authorization: Bearer ${PLACEHOLDER}', E = 'Connection: close';
  const send = (...all) => within(all.join('\\r\\n'), { port: 9443, ms: 1500 });`;

t.test('95: a value is in no request but the one that has its placeholder', async (t) => {
  const { run } = await withSecrets(t);
  seen.length = 0;
  const inner = `'GET /inner HTTP/1.1', 'Host: other.test:9443', A, '', ''`;
  const out = await run(`${HEAD}
    out.control = await send('GET /plain HTTP/1.1', H, A, E, '', '');
    out.both = await send('POST /both HTTP/1.1', H, 'Content-Length: 4', 'Transfer-Encoding: chunked', '', '0', '', ${inner});
    out.two = await send('POST /two HTTP/1.1', H, 'Content-Length: 0', 'Content-Length: 90', '', ${inner});
    out.plus = await send('POST /plus HTTP/1.1', H, 'Content-Length: +0', '', ${inner});
    out.identity = await send('POST /identity HTTP/1.1', H, 'Transfer-Encoding: identity', '', ${inner});
    out.space = await send('POST /space HTTP/1.1', H, 'Content-Length : 90', '', ${inner});
    out.folded = await send('GET /folded HTTP/1.1', H, 'X: a', ' ' + A, '', '');
    out.bare = await send('GET /bare HTTP/1.1', H, 'X: a\\n' + A, '', '');
    out.chunk = await send('POST /chunk HTTP/1.1', H, 'Transfer-Encoding: chunked', '', '0x0', '', ${inner});
    out.trailer = await send('POST /trailer HTTP/1.1', H, 'Transfer-Encoding: chunked', E, '', '1', 'x', '0', A, '', '');
    out.length = await send('POST /length HTTP/1.1', H, 'Content-Length: 1', '', 'x' + [${inner}].join('\\r\\n'));
    out.named = await send('GET /named HTTP/1.1', H, A, 'Connection: close, Authorization', '', '');
    out.value = await send('GET /crlf HTTP/1.1', H, 'X-Key: ${PLACEHOLDER}\\r\\n' + 'X-Two: b', E, '', '');`);
  const withValue = seen
    .filter((line) => line.includes(VALUE))
    .map((line) => line.split(' ').slice(1, 4).join(' '));
  t.same(
    withValue.sort(),
    ['ok.test:9443 GET /crlf', 'ok.test:9443 GET /named', 'ok.test:9443 GET /plain'],
    'the value is where its placeholder was, and nowhere else',
  );
  t.notOk(
    seen.some((line) => /\/inner|^got other\.test/.test(line)),
    'no request within another arrives',
  );
  for (const [name, text] of Object.entries(out)) t.notMatch(text, VALUE, `${name}: the guest sees none`);
  t.match(out.control, /^HTTP.1.1 200/, 'the control: the same header alone passes');
});

t.test(
  '96: a fresh token in an answer reaches the guest, and the value that was sent for it does not',
  async (t) => {
    const { run } = await withSecrets(t);
    const out = await run(
      `out.token = await ask('GET', '/token', { port: 9443, host: 'ok.test:9443', headers: { authorization: 'Bearer ${PLACEHOLDER}' } });`,
    );
    t.match(out.token, TOKEN, 'as docs/secrets.md says');
    t.notMatch(out.token, VALUE);
    t.match(out.token, `Bearer ${'*'.repeat(VALUE.length)}`);
  },
);

t.test('97: a right guess of the value is answered as a wrong one is', async (t) => {
  const { run, records } = await withSecrets(t);
  seen.length = 0;
  const wrong = `${VALUE.slice(0, -1)}X`;
  const half = `${VALUE.slice(0, 20)}${'X'.repeat(16)}`;
  const guesses = JSON.stringify({ right: VALUE, wrong, half, none: 'a'.repeat(VALUE.length) });
  const out = await run(`out.answers = {};
    for (const [name, guess] of Object.entries(${guesses})) {
      const at = { port: 9443, host: 'ok.test:9443' };
      out.answers[name] = [];
      for (const options of [{ headers: { authorization: 'Bearer ' + guess } }, { headers: { 'x-key': guess } }]) out.answers[name].push(await ask('GET', '/guess', { ...at, ...options }));
      out.answers[name].push(await ask('GET', '/guess?key=' + guess, at), await ask('POST', '/guess', { ...at, body: guess, headers: { 'content-length': guess.length } }));
      out.answers[name].push(await ask('GET', '/guess', { ...at, name: 'other.test', host: 'other.test:9443', headers: { authorization: 'Bearer ' + guess } }));
    }`);
  const answers = out.answers as Record<string, string[]>;
  t.same(answers.none, new Array(5).fill('200 ok'), 'the control: text passes as it is');
  for (const name of ['right', 'wrong', 'half']) t.same(answers[name], answers.none, name);
  t.equal(seen.filter((line) => line.includes('/guess')).length, 20, 'and all of it arrived');
  const guessed = records.filter(({ path }) => path === '/guess');
  t.notOk(
    guessed.some((record) => 'secrets' in record),
    'none counts as a use',
  );
});
