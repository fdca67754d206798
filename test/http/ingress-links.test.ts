// Links to ports: their making, the first visit, what their cookie opens, their end; requests of other pages.

import { createServer } from 'node:http';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { LINK_PARAMETER } from '../../host-agent/src/keys/index.ts';
import { until } from '../support/until.ts';
import { ask, serveGuest, serveIngress } from './ingress-host.ts';

t.test('a link: visit, cookie, assets, WebSocket; other sandboxes; its end', async (t) => {
  const served = await serveIngress(t);
  const guest = createServer((request, response) => {
    response.end(JSON.stringify({ url: request.url, headers: request.headers }));
  });
  new WebSocketServer({ server: guest }).on('connection', (socket) => socket.send('hello'));
  const to = await serveGuest(t, guest);
  const sandbox = served.add(to);
  const other = served.add(to);
  await served.keyring.make();
  const found = served.keyring.registry.find(await served.keyring.make({ name: 'maker' }));
  const maker = found.state === 'valid' ? found.principal : undefined;
  const about = { sandbox: sandbox.id, port: 3000, maker };
  const { token, link } = await served.links.create({ ...about, expiresS: 60 });
  const host = served.hostOf(sandbox);
  const browser = { accept: 'text/html,application/xhtml+xml', 'sec-fetch-site': 'none' };

  const visit = await ask(served.port, host, {
    path: `//evil.example/a?x=1&${LINK_PARAMETER}=${token}&y=2`,
    headers: browser,
  });
  t.equal(visit.status, 303);
  t.equal(visit.headers.location, '/evil.example/a?x=1&y=2');
  const [cookie = ''] = visit.headers['set-cookie'] ?? [];
  t.match(cookie, /^sandbox-link=sbl_[\w-]{32}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=60$/);
  const jar = `theme=dark; sandbox-link=planted; ${cookie.split(';')[0]}; __Host-sandbox-link=x`;
  const asset = await ask(served.port, host, { path: '/app.js', headers: { cookie: jar } });
  t.equal(asset.status, 200, asset.body);
  t.equal(JSON.parse(asset.body).headers.cookie, 'theme=dark');
  t.equal(asset.headers['cross-origin-resource-policy'], 'same-origin');
  t.equal((await ask(served.port, served.hostOf(other), { headers: { cookie: jar } })).status, 404);
  sandbox.ports.set(4000, { to, access: 'private' });
  t.equal((await ask(served.port, served.hostOf(sandbox, 4000), { headers: { cookie: jar } })).status, 404);

  const program = await ask(served.port, host, { method: 'POST', path: `/hook?${LINK_PARAMETER}=${token}` });
  t.equal(program.status, 200);
  t.equal(JSON.parse(program.body).url, '/hook');
  t.notMatch(program.body, token);
  t.equal((await ask(served.port, host, { headers: { 'x-access-token': token } })).status, 200);
  t.equal(
    (await ask(served.port, served.hostOf(other), { path: `/?${LINK_PARAMETER}=${token}` })).status,
    401,
  );

  const referer = `http://${host}/a?${LINK_PARAMETER}=${token}&x=1`;
  const referred = await ask(served.port, host, { headers: { cookie: jar, referer } });
  t.equal(JSON.parse(referred.body).headers.referer, `http://${host}/a?x=1`);
  const overrides = { 'x-http-method-override': 'a', 'x-http-method': 'b', 'x-method-override': 'c' };
  const overridden = await ask(served.port, host, { headers: { cookie: jar, ...overrides } });
  t.match(JSON.parse(overridden.body).headers, overrides, 'a link for all methods');

  const foreign = 'http://3000-sbx-0123456789abc.localhost';
  for (const [what, headers, method, status] of [
    ['a form of another sandbox', { origin: foreign }, 'POST', 403],
    ['its script', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }, 'GET', 403],
    ['an opaque origin', { origin: 'null' }, 'POST', 403],
    ['the own origin', { origin: `http://${host}` }, 'POST', 200],
    [
      'navigation',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      'GET',
      200,
    ],
    [
      'a frame',
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
      'GET',
      403,
    ],
  ] as const)
    t.equal(
      (await ask(served.port, host, { method, headers: { cookie: jar, ...headers } })).status,
      status,
      what,
    );

  const dial = (origin: string) =>
    new WebSocket(`ws://127.0.0.1:${served.port}/`, { headers: { host, cookie: jar, origin } });
  t.match(await new Promise((resolve) => dial(foreign).on('error', resolve)), { message: /403/ });
  const socket = dial(`http://${host}`);
  t.equal(String(await new Promise((resolve) => socket.on('message', resolve))), 'hello');
  let isClosed = false;
  socket.on('close', () => {
    isClosed = true;
  });
  await served.links.delete(sandbox.id, 3000, link.id);
  await until(() => isClosed, 'the end of the WebSocket');
  t.equal((await ask(served.port, host, { headers: { cookie: jar } })).status, 404);
  t.equal((await ask(served.port, host, { path: `/?${LINK_PARAMETER}=${token}` })).status, 401);

  const reading = await served.links.create({ ...about, expiresS: 60, methods: ['GET'] });
  const headers = { 'x-access-token': reading.token };
  const read = await ask(served.port, host, { headers: { ...headers, ...overrides } });
  t.equal(read.status, 200);
  t.notMatch(read.body, /method-override|x-http-method/, 'a link for some methods');
  t.equal((await ask(served.port, host, { method: 'HEAD', headers })).status, 200);
  t.equal((await ask(served.port, host, { method: 'POST', headers })).status, 403);
  await served.keyring.registry.revoke('maker');
  t.equal((await ask(served.port, host, { headers })).status, 401, 'a link ends with its key');
  t.same(served.links.list(sandbox.id, 3000), []);
  const short = await served.links.create({ ...about, maker: undefined, expiresS: 0 });
  t.equal((await ask(served.port, host, { headers: { 'x-access-token': short.token } })).status, 401);
});

t.test('without keys every client is the operator, but no page of another origin', async (t) => {
  const served = await serveIngress(t);
  const sandbox = served.add(await serveGuest(t, (_request, response) => void response.end('ok')));
  const host = served.hostOf(sandbox);
  t.equal((await ask(served.port, host)).status, 200);
  t.equal((await ask(served.port, host, { headers: { origin: 'http://evil.example' } })).status, 403);
  t.equal(
    (await ask(served.port, 'rebound.example', { headers: { 'x-sandbox-id': sandbox.id } })).status,
    404,
  );
});

const NAVIGATION = { accept: 'text/html', 'upgrade-insecure-requests': '1' };

t.test('what the cookie of a link opens to browsers that do not say which page asked', async (t) => {
  const to = await serveGuest(t, (_request, response) => void response.end('ok'));
  for (const scheme of ['http', 'https'] as const) {
    const served = await serveIngress(t, { domain: 'boxes.test' });
    served.addresses.use({ scheme, domain: 'boxes.test' });
    const sandbox = served.add(to);
    await served.keyring.make();
    const about = { sandbox: sandbox.id, port: 3000, maker: undefined, expiresS: 60 };
    const { token } = await served.links.create(about);
    const host = served.hostOf(sandbox);
    const cookie = `sandbox-link=${token}`;
    const isInClear = scheme === 'http';
    for (const [what, headers, isOpen] of [
      ['a script of another page', { 'sec-fetch-site': 'same-site' }, false],
      ['a page of its own', { 'sec-fetch-site': 'same-origin' }, true],
      ['its own Origin', { origin: `${scheme}://${host}` }, true],
      ['another Origin', { origin: `${scheme}://3000-web.boxes.test` }, false],
      ['nothing', {}, false],
      ['its own Referer', { referer: `${scheme}://${host}/a?b` }, isInClear],
      ['another Referer', { referer: `${scheme}://3000-web.boxes.test/${host}` }, false],
      ['a page visit', NAVIGATION, isInClear],
      ['a visit by fetch', { accept: 'text/html' }, false],
    ] as const) {
      const answer = await ask(served.port, host, { headers: { cookie, ...headers } });
      t.equal(answer.status, isOpen ? 200 : 403, `${scheme}: ${what}`);
    }
    t.equal((await ask(served.port, host, { headers: { 'x-access-token': token } })).status, 200);
  }
});

t.test('a URL with a name has no service workers, as the name may get another sandbox', async (t) => {
  const served = await serveIngress(t);
  const to = await serveGuest(t, (_request, response) => void response.end('ok'));
  const sandbox = served.add(to, 'public');
  sandbox.name = 'web';
  const named = `3000-web.localhost:${served.port}`;
  const headers = { 'service-worker': 'script' };
  t.equal((await ask(served.port, named)).status, 200);
  t.equal((await ask(served.port, named, { headers })).status, 403);
  t.equal((await ask(served.port, served.hostOf(sandbox), { headers })).status, 200);
  await served.keyring.make();
  const hidden = served.add(to);
  hidden.name = 'hidden';
  t.equal((await ask(served.port, `3000-hidden.localhost:${served.port}`, { headers })).status, 404);
});
