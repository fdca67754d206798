// URLs of ports: which sandbox a request is for, who may, and what passes.
import { createHash, randomBytes } from 'node:crypto';
import { Agent, createServer, request as send } from 'node:http';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { until } from '../support/until.ts';
import { ask, serveGuest, serveIngress } from './ingress-host.ts';

t.test(
  'a private port is for keys with connect, a public one for everybody; strangers learn nothing',
  async (t) => {
    const served = await serveIngress(t);
    const guest = await serveGuest(t, (request, response) => {
      response.end(JSON.stringify({ url: request.url, headers: request.headers }));
    });
    const sandbox = served.add(guest);
    const open = served.add(guest, 'public');
    const key = await served.keyring.make();
    const { port } = served;
    const host = served.hostOf(sandbox);

    const stranger = await ask(port, host);
    t.equal(stranger.status, 404);
    for (const other of [
      served.hostOf(sandbox, 3001),
      `3000-sbx-0123456789abc.localhost:${port}`,
      `3000-nothing.localhost:${port}`,
      `nothing.localhost:${port}`,
      `localhost:${port}`,
      `99999-${sandbox.id}.localhost`,
      `03000-${sandbox.id}.localhost`,
      'attacker.example',
    ]) {
      const answer = await ask(port, other);
      t.same([answer.status, answer.body], [404, stranger.body], other);
    }
    t.equal(sandbox.connects, 0);

    for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-access-token': key }]) {
      const answer = await ask(port, host, {
        path: '/a?b=c',
        headers: { ...headers, 'x-forwarded-for': '6.6.6.6' },
      });
      t.equal(answer.status, 200, answer.body);
      const seen = JSON.parse(answer.body);
      t.equal(seen.url, '/a?b=c');
      t.equal(seen.headers.host, host);
      t.match(seen.headers['x-forwarded-for'], /^(::ffff:)?127\.0\.0\.1$/);
      t.equal(seen.headers['x-forwarded-host'], host);
      t.equal(seen.headers['x-forwarded-proto'], 'http');
      t.notMatch(answer.body, key);
    }
    const authorization = `Bearer ${key}`;
    const headers = { authorization };
    t.equal((await ask(port, `3000-${sandbox.id}.localhost`, { headers })).status, 200, 'with underscore');
    t.match(await ask(port, served.hostOf(sandbox, 3001), { headers }), {
      status: 403,
      body: /port 3001 .* is not open/,
    });
    t.equal((await ask(port, `3000-sbx-0123456789abc.localhost`, { headers })).status, 404);
    const wrong = await ask(port, host, { headers: { authorization: `Bearer sbk_${'x'.repeat(32)}` } });
    t.equal(wrong.status, 401);
    const narrow = await served.keyring.make({ policy: { operations: ['read'] }, seesAllTenants: true });
    t.equal((await ask(port, host, { headers: { 'x-access-token': narrow } })).status, 403);
    const foreign = await served.keyring.make({ tenant: 'other' });
    t.equal((await ask(port, host, { headers: { 'x-access-token': foreign } })).status, 404);

    t.equal((await ask(port, served.hostOf(open))).status, 200);
    const own = await ask(port, served.hostOf(open), { headers: { authorization: 'Bearer of-the-app' } });
    t.equal(JSON.parse(own.body).headers.authorization, 'Bearer of-the-app');
    const leaked = await ask(port, served.hostOf(open), { headers });
    t.equal(leaked.status, 200);
    t.notMatch(leaked.body, key);

    sandbox.name = 'web';
    t.equal((await ask(port, `3000-web.localhost:${port}`, { headers })).status, 200, 'by name');
    sandbox.tenant = 'acme';
    t.equal(
      (await ask(port, `3000-web.localhost:${port}`, { headers })).status,
      404,
      'names of tenants are no hosts',
    );

    for (const [id, at] of [
      ['x-sandbox-id', 'x-sandbox-port'],
      ['e2b-sandbox-id', 'e2b-sandbox-port'],
    ] as const)
      for (const bare of [`localhost:${port}`, `127.0.0.1:${port}`, `sandbox.localhost:${port}`]) {
        const named = { [id]: sandbox.id, [at]: '3000' };
        const answer = await ask(port, bare, { headers: { ...headers, ...named } });
        t.equal(answer.status, 200, `${id} ${bare} ${answer.body}`);
        t.notMatch(answer.body, id);
        t.equal((await ask(port, 'attacker.example', { headers: { ...headers, ...named } })).status, 404);
      }
    const mixed = { ...headers, 'x-sandbox-id': open.id, 'x-sandbox-port': '3000' };
    t.equal((await ask(port, `3000-sbx-0123456789abc.localhost`, { headers: mixed })).status, 404);

    sandbox.ports.set(4000, { to: 1, access: 'private' });
    t.match(await ask(port, served.hostOf(sandbox, 4000), { headers }), {
      status: 502,
      body: /nothing listens/,
    });
    const page = await ask(port, served.hostOf(sandbox, 4000), {
      headers: { ...headers, accept: 'text/html,*/*' },
    });
    t.match(page, {
      status: 502,
      headers: { 'content-type': /html/ },
      body: /^<!doctype html>.*Nothing listens/s,
    });
  },
);

t.test('WebSockets, events as they come, trailers, long bodies both ways, keep-alive', async (t) => {
  const served = await serveIngress(t);
  const sizeBytes = (process.env.LONG_TESTS === '1' ? 1024 : 64) * 2 ** 20;
  const block = randomBytes(2 ** 20);
  let events: NodeJS.Timeout | undefined;
  const guestServer = createServer(async (request, response) => {
    if (request.url === '/up') {
      const hash = createHash('sha256');
      for await (const chunk of request) hash.update(chunk as Buffer);
      response.end(`${hash.digest('hex')} ${JSON.stringify(request.trailers)}`);
    } else if (request.url === '/down') {
      for (let sent = 0; sent < sizeBytes; sent += block.length)
        if (!response.write(block)) await new Promise((resolve) => response.once('drain', resolve));
      response.addTrailers({ 'x-sum': 'later' });
      response.end();
    } else if (request.url === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      events = setInterval(() => response.write('data: x\n\n'), 20);
      response.on('close', () => clearInterval(events));
    } else response.end('ok');
  });
  const sockets = new WebSocketServer({ server: guestServer });
  sockets.on('connection', (socket) =>
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary })),
  );
  const sandbox = served.add(await serveGuest(t, guestServer));
  const key = await served.keyring.make();
  const headers = { host: served.hostOf(sandbox), authorization: `Bearer ${key}` };
  const options = { port: served.port, host: '127.0.0.1', headers };

  const hash = createHash('sha256');
  const expected = createHash('sha256');
  for (let sent = 0; sent < sizeBytes; sent += block.length) expected.update(block);
  const digest = expected.digest('hex');
  const uploaded = await new Promise<string>((resolve, reject) => {
    const request = send({ ...options, method: 'POST', path: '/up' }, async (response) =>
      resolve(await text(response)),
    );
    request.on('error', reject);
    request.setHeader('trailer', 'x-sum');
    void (async () => {
      for (let sent = 0; sent < sizeBytes; sent += block.length)
        if (!request.write(block)) await new Promise((resolve) => request.once('drain', resolve));
      request.addTrailers({ 'x-sum': 'later' });
      request.end();
    })();
  });
  t.equal(uploaded, `${digest} {"x-sum":"later"}`);
  const trailers = await new Promise<object>((resolve, reject) => {
    send({ ...options, path: '/down' }, (response) => {
      response.on('data', (chunk: Buffer) => hash.update(chunk));
      response.on('end', () => resolve(response.trailers));
    })
      .on('error', reject)
      .end();
  });
  t.equal(hash.digest('hex'), digest);
  t.same(trailers, { 'x-sum': 'later' });

  await new Promise<void>((resolve, reject) => {
    const request = send({ ...options, path: '/events' }, (response) => {
      let count = 0;
      response.on('data', () => {
        if (++count === 3) {
          request.destroy();
          resolve();
        }
      });
      response.on('error', () => undefined);
    });
    request.on('error', reject).end();
  });
  await until(() => Reflect.get(events ?? {}, '_destroyed') === true, 'the guest sees that the client left');

  const socket = new WebSocket(`ws://127.0.0.1:${served.port}/chat`, { headers });
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
  const count = 10_000;
  let received = 0;
  let isInOrder = true;
  const all = new Promise<void>((resolve) =>
    socket.on('message', (data) => {
      isInOrder &&= String(data) === `message ${received}`;
      if (++received === count) resolve();
    }),
  );
  for (let at = 0; at < count; at++) socket.send(`message ${at}`);
  await all;
  t.ok(isInOrder);
  const closed = new Promise<number>((resolve) => socket.on('close', resolve));
  socket.close(1000);
  t.equal(await closed, 1000);
  t.match(served.ended, [{ isUpgrade: false }]);
  await until(() => served.ended.some(({ isUpgrade }) => isUpgrade), 'the end of the WebSocket');
  const refused = new WebSocket(`ws://127.0.0.1:${served.port}/chat`, { headers: { host: headers.host } });
  t.match(await new Promise((resolve) => refused.on('error', resolve)), { message: /404/ });

  const before = sandbox.connects;
  const agent = new Agent({ keepAlive: true });
  for (let at = 0; at < 5; at++) {
    const answer = await new Promise<string>((resolve, reject) =>
      send({ ...options, agent, path: '/' }, async (response) => resolve(await text(response)))
        .on('error', reject)
        .end(),
    );
    t.equal(answer, 'ok');
  }
  agent.destroy();
  t.equal(sandbox.connects - before, 1, 'the connection to the guest is used again');
});

t.test('a revoked key, a closed port, a deleted sandbox end what is open', async (t) => {
  const served = await serveIngress(t);
  const guest = await serveGuest(t, (_request, response) => void response.write('begun'));
  const open = async (headers: Record<string, string>, host: string) => {
    let isOver = false;
    await new Promise<void>((resolve, reject) => {
      const request = send(
        { port: served.port, host: '127.0.0.1', headers: { host, ...headers } },
        (response) => {
          response.on('data', () => resolve());
          response.on('error', () => undefined);
          response.on('close', () => {
            isOver = true;
          });
        },
      );
      request.on('error', reject);
      request.end();
    });
    return () => isOver;
  };
  const sandbox = served.add(guest);
  const key = await served.keyring.make({ name: 'ends' });
  const other = await served.keyring.make({ name: 'stays' });
  const first = await open({ 'x-access-token': key }, served.hostOf(sandbox));
  const second = await open({ 'x-access-token': other }, served.hostOf(sandbox));
  await served.keyring.registry.revoke('ends');
  await until(first, 'the end of the revoked');
  t.equal(second(), false);
  const shared = served.add(guest, 'public');
  const third = await open({}, served.hostOf(shared));
  shared.ports.set(3000, { ...shared.ports.get(3000)!, access: 'private' });
  await until(third, 'the end of the public');
  sandbox.ports.delete(3000);
  await until(second, 'the end of the closed');
});

t.test('a server gets Host as it was sent, or as localhost', async (t) => {
  const served = await serveIngress(t);
  const to = await serveGuest(t, (request, response) => void response.end(JSON.stringify(request.headers)));
  const sandbox = served.add(to, 'public');
  const host = served.hostOf(sandbox);
  const read = async () => {
    const { body } = await ask(served.port, '/', { headers: { host } });
    return JSON.parse(body) as Record<string, string>;
  };
  t.match(await read(), { host, 'x-forwarded-host': host });
  sandbox.ports.set(3000, { to, access: 'public', host: 'localhost' });
  t.match(await read(), { host: 'localhost:3000', 'x-forwarded-host': host });
});

t.test('requests of one client, and to one sandbox, have a rate', async (t) => {
  const served = await serveIngress(t, { rateLimits: { sandboxPerS: 1 } });
  const to = await serveGuest(t, (_request, response) => void response.end('yes'));
  const [one, other] = [served.add(to, 'public'), served.add(to, 'public')];
  const status = async (sandbox: typeof one) =>
    (await ask(served.port, '/', { headers: { host: served.hostOf(sandbox) } })).status;
  const all: number[] = [];
  for (let at = 0; at < 12; at++) all.push(await status(one));
  t.same(
    all.slice(0, 10),
    Array.from({ length: 10 }, () => 200),
    'a burst of 10 s',
  );
  t.equal(all.at(-1), 503);
  const refused = await ask(served.port, '/', { headers: { host: served.hostOf(one) } });
  t.match(refused, { headers: { 'retry-after': '1' }, body: /too many requests to this sandbox/ });
  t.equal(await status(other), 200, 'another sandbox has its own');

  const clients = await serveIngress(t, { rateLimits: { clientPerS: 1 } });
  const free = clients.add(to, 'public');
  const seen: number[] = [];
  for (let at = 0; at < 12; at++)
    seen.push(
      (await ask(clients.port, '/', { headers: { host: '3000-sbx-0000000000000.localhost' } })).status,
    );
  t.same([...new Set(seen)], [404, 503], 'refused requests count, too');
  const last = await ask(clients.port, '/', { headers: { host: clients.hostOf(free) } });
  t.match(last.body, /too many requests from this address/);
});
