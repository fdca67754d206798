// Ports at the gateway of a fleet: requests that two parsers read differently, and what clients and guests cut off.
import type { IncomingMessage } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import t from 'tap';
import { makeOpen, startWithPorts, toHost } from '../support/fleet/ports.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { ask as askPort, exchangeRaw, serveGuest } from './ingress-host.ts';
import { RawClient } from './support.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('what could be read in two ways is refused', async (t) => {
  const requests: IncomingMessage[] = [];
  const to = await serveGuest(t, (request, response) => {
    requests.push(request);
    response.end('guest');
  });
  const { gateway, port } = await startWithPorts(t, { to }, 1);
  const host = toHost(await makeOpen(gateway.url, 'public'));
  const own = `Host: ${host}\r\n`;
  for (const [name, lines] of Object.entries({
    'two lengths': `POST / HTTP/1.1\r\n${own}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
    'length and chunks': `POST / HTTP/1.1\r\n${own}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'another coding': `POST / HTTP/1.1\r\n${own}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    'two hosts': `GET / HTTP/1.1\r\n${own}Host: y\r\n\r\n`,
    'a target of another host': `GET http://${toHost('sbx_0123456789abc')}/ HTTP/1.1\r\n${own}\r\n`,
    'an upgrade with a body': `GET / HTTP/1.1\r\n${own}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello`,
  })) {
    const isDone = (text: string): boolean => text.includes('\r\n\r\n');
    t.match(await exchangeRaw(port, lines, isDone), /^HTTP\/1\.1 400 /, name);
  }
  t.equal(requests.length, 0);
  // A request that a client hides in the body of another stays there.
  const hidden = `GET /hidden HTTP/1.1\r\n${own}\r\n`;
  const body = `POST /a HTTP/1.1\r\n${own}Connection: content-length\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`;
  t.match(await exchangeRaw(port, body, (text) => text.endsWith('guest')), /^HTTP\/1\.1 200 /);
  const refused = `GET / HTTP/1.1\r\n${own}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${hidden}`;
  await exchangeRaw(port, refused, (text) => text.endsWith('guest'));
  t.same(requests.map(({ url }) => url).sort(), ['/', '/a']);
});

t.test('what a client leaves ends at the guest, and what a guest cuts off is no whole answer', async (t) => {
  let open = 0;
  const to = await serveGuest(t, (request, response) => {
    open += 1;
    response.once('close', () => {
      open -= 1;
    });
    if (request.url !== '/cut') return void request.resume();
    response.write('begun');
    setTimeout(() => response.destroy(), 10);
  });
  const { gateway, port } = await startWithPorts(t, { to }, 1);
  const host = toHost(await makeOpen(gateway.url, 'public'));
  const heads = [
    `GET /wait HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `POST /slow HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 10\r\n\r\n12345`,
  ];
  const clients = heads.map((head) => {
    const client = new RawClient(t, port);
    client.write(head);
    return client;
  });
  await until(() => open === 2, 'two requests at the guest');
  for (const { socket } of clients) socket.destroy();
  await until(() => open === 0, 'no request at the guest');
  await t.rejects(askPort(port, host, { path: '/cut' }), { code: 'ECONNRESET' });

  const client = connectHttp2(`http://127.0.0.1:${port}`);
  t.teardown(() => client.destroy());
  const stream = client.request({ ':path': '/wait', ':authority': host, host: toHost('sbx_0123456789abc') });
  const status = await new Promise((resolve, reject) =>
    stream.once('response', (headers) => resolve(headers[':status'])).once('error', reject),
  );
  t.equal(status, 400, 'an authority and a host header that differ');
  t.equal(open, 0);
});
