// The ingress between hostile guests and hostile clients: malformed answers, request smuggling.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type Answered, ask, exchangeRaw, serveIngress, serveRaw } from './ingress-host.ts';

t.test('hostile answers: split, malformed, endless, early, planted cookies', async (t) => {
  const served = await serveIngress(t, { idleMs: 1500 });
  let answer = '';
  let isKept = false;
  const guest = await serveRaw(t, (socket) => {
    socket.once('data', () => {
      socket.write(answer, 'latin1');
      if (!isKept) socket.end();
    });
  });
  const sandbox = served.add(guest, 'public');
  const host = served.hostOf(sandbox);
  const from = async (text: string, keeps = false): Promise<Answered> => {
    answer = text;
    isKept = keeps;
    return await ask(served.port, host);
  };
  const ok = 'HTTP/1.1 200 OK\r\n';
  for (const [what, text] of Object.entries({
    nothing: '',
    'no HTTP': 'SSH-2.0-OpenSSH\r\n\r\n',
    'two lengths': `${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
    'length and coding': `${ok}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`,
    'endless headers': ok + 'X-A: b\r\n'.repeat(20_000),
    'a long header': `${ok}X-A: ${'b'.repeat(100_000)}\r\n\r\n`,
    'too many headers': `${ok}${'X-A: b\r\n'.repeat(300)}Content-Length: 0\r\n\r\n`,
    'bare line ends': 'HTTP/1.1 200 OK\nX: y\n\nz',
    'a switch': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n',
    'endless interim answers': 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000),
  })) {
    const { status, body } = await from(text);
    t.equal(status, 502, `${what}: ${body}`);
  }
  t.match(await from('', true), { status: 504 }, 'silence');
  const split = await from(`${ok}X-A: a\rSet-Cookie: b=c\r\nContent-Length: 2\r\n\r\nok`);
  t.notOk(split.headers['set-cookie'], 'a bare carriage return is no line end');
  const second = await from(
    `${ok}Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`,
    true,
  );
  t.match(second, { status: 200, body: 'ok' });
  t.match(await ask(served.port, host), { status: 200, body: 'ok' }, 'and is not for the next request');
  const cut = await from(`${ok}Content-Length: 10\r\n\r\nabc`).catch((error: Error) => error);
  t.match(cut, { code: 'ECONNRESET' });
  const cutChunk = await from(`${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nab`).catch(
    (error: Error) => error,
  );
  t.match(cutChunk, { code: 'ECONNRESET' });

  const cookies = [
    'a=b; Domain=localhost; Path=/',
    'c=d;domain=.example.com',
    'sandbox-link=x',
    '__Host-sandbox-link=x',
  ];
  const planted = await from(
    `${ok}${cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join('')}Strict-Transport-Security: max-age=9; includeSubDomains\r\n` +
      'X-Accel-Redirect: /etc/passwd\r\nX-Accel-Expires: 9\r\nX-Sendfile: /a\r\nX-Lighttpd-Send-File: /a\r\n' +
      'X-Reproxy-URL: http://a/\r\nSurrogate-Control: max-age=9\r\nAlt-Svc: h3=":1"\r\nClear-Site-Data: "cookies"\r\nConnection: close, X-Hop\r\nX-Hop: y\r\nX-Kept: z\r\nContent-Length: 2\r\n\r\nok',
  );
  t.same(planted.headers['set-cookie'], ['a=b; Path=/', 'c=d']);
  for (const name of Object.keys(planted.headers))
    t.notMatch(name, /^(?:strict-|alt-|clear-|x-hop|x-accel|x-sendfile|x-lighttpd|x-reproxy|surrogate)/);
  t.equal(planted.headers['x-kept'], 'z');

  answer = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000);
  const upgrade = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  isKept = true;
  const hinted = await exchangeRaw(served.port, upgrade, (received) => received.endsWith('}'));
  t.match(hinted, /^HTTP\/1.1 502 .*informational/s, 'endless interim answers to an upgrade');

  answer = 'HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nearly';
  const head = `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1000000\r\n\r\nbegin`;
  const early = await exchangeRaw(served.port, head, (received) => received.endsWith('early'));
  t.match(early, /^HTTP\/1.1 413 /);
  answer = `${ok}Transfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(3)}`;
  const endless = await from(answer, true).catch((error: Error) => error);
  t.match(endless, { code: 'ECONNRESET' }, 'a body that goes silent ends');
  answer = `${ok}Content-Type: text/plain\r\n\r\nuntil the end`;
  t.match(await from(answer), { status: 200, body: 'until the end' });
});

t.test('request smuggling: the guest sees one request, or none', async (t) => {
  const served = await serveIngress(t);
  const seen: string[] = [];
  const guest = await serveRaw(t, (socket) => {
    socket.on('data', (chunk) => {
      seen.push(chunk.toString('latin1'));
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok');
    });
  });
  const sandbox = served.add(guest, 'public');
  const host = served.hostOf(sandbox);
  const start = `POST / HTTP/1.1\r\nHost: ${host}\r\n`;
  const chunked = '\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const [what, text] of Object.entries({
    'CL.TE': `${start}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n${chunked}`,
    'TE.CL': `${start}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n${chunked}`,
    'two lengths': `${start}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde`,
    'same lengths': `${start}Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd`,
    'list of lengths': `${start}Content-Length: 4, 4\r\n\r\nabcd`,
    'signed length': `${start}Content-Length: +4\r\n\r\nabcd`,
    'hexadecimal length': `${start}Content-Length: 0x4\r\n\r\nabcd`,
    'two codings': `${start}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n${chunked}`,
    'unknown coding': `${start}Transfer-Encoding: xchunked\r\n${chunked}`,
    'coding list': `${start}Transfer-Encoding: gzip, chunked\r\n${chunked}`,
    'coding with tab': `${start}Transfer-Encoding:\tchunked, identity\r\n${chunked}`,
    'space before colon': `${start}Transfer-Encoding : chunked\r\n${chunked}`,
    'space before name': `${start} Transfer-Encoding: chunked\r\n${chunked}`,
    'bare line end': `${start}X: y\nTransfer-Encoding: chunked\r\n${chunked}`,
    'bare carriage return': `${start}X: y\rTransfer-Encoding: chunked\r\n${chunked}`,
    NUL: `${start}X: y\0z\r\n\r\n`,
    'HTTP/1.0 with coding': `POST / HTTP/1.0\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n${chunked}`,
    'two hosts': `${start}Host: other\r\n\r\n`,
    'target and host': `GET http://other.localhost/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    'long chunk size': `${start}Transfer-Encoding: chunked\r\n\r\n1000000000000000000\r\nabc`,
    'no chunk size': `${start}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc`,
    'space in target': `GET /a b HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    'too many headers': `GET / HTTP/1.1\r\nHost: ${host}\r\n${'X: y\r\n'.repeat(200)}\r\n`,
    'websocket with body': `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n\r\nabcd`,
  })) {
    seen.length = 0;
    const answer = await exchangeRaw(served.port, text, (received) => /\r\n\r\n./s.test(received));
    t.match(answer, /^HTTP\/1.1 4\d\d /, what);
    await sleep(5);
    t.notMatch(seen.join(''), /evil/, what);
    t.ok(seen.join('').split(' HTTP/1.1').length <= 2, what);
  }
  seen.length = 0;
  const folded = await exchangeRaw(
    served.port,
    `${start}X: a\r\n Content-Length: 4\r\nContent-Length: 0\r\n\r\n`,
    (received) => /ok$|\}$/.test(received),
  );
  t.match(folded, /^HTTP\/1.1 (?:4|200)/);
  t.notMatch(seen.join(''), /\r\n[ \t]/, 'a folded line reaches no guest');
  seen.length = 0;
  await exchangeRaw(
    served.port,
    `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close, content-length, x-mine\r\nX-Mine: y\r\nTE: trailers, deflate\r\nKeep-Alive: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\nProxy-Authorization: b\r\n\r\n`,
  );
  t.notMatch(seen.join(''), /x-mine|keep-alive: 1|h2c|http2-settings|proxy-auth|deflate/i);
  t.match(seen.join(''), /te: trailers/);
  const connect = await exchangeRaw(served.port, `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  t.match(connect, /^HTTP\/1.1 405 /);
});
