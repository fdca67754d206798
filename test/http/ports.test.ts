// Connections to ports over HTTP, joined to a server of this process in place of a guest; open ports.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { until } from '../support/until.ts';
import { serve, UNKNOWN_ID } from './support.ts';

/** What the guest's server gets, and how its connections end. */
async function serveGuest(t: Test) {
  const served = await serve(t);
  const sockets: Socket[] = [];
  const ends: string[] = [];
  let isRefused = false;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let text = '';
    sockets.push(socket);
    socket.on('data', (chunk) => {
      text += chunk;
      if (text.endsWith('echo')) socket.write(text);
    });
    socket.on('end', () => ends.push(`end after ${text}`));
    socket.on('error', (error: NodeJS.ErrnoException) => ends.push(`${error.code}`));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port: guestPort } = server.address() as { port: number };
  served.sandboxes.onConnect = async (port) => {
    if (isRefused) throw new AppError('port_not_listening', `nothing listens on port ${port} of the sandbox`);
    const socket = connect({ port: guestPort, host: '127.0.0.1', allowHalfOpen: true });
    await once(socket, 'connect');
    return Object.assign(socket, { port, reset: () => void socket.resetAndDestroy() }) as never;
  };
  return {
    ...served,
    ...{ id: served.sandboxes.add().id, sockets, ends },
    refuse: () => {
      isRefused = true;
    },
  };
}

async function tunnel(t: Test, port: number, path: string, headers = '') {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  const client = { socket, text: '', hasEnded: false, code: '' };
  socket.on('data', (chunk) => {
    client.text += chunk;
  });
  socket.on('end', () => {
    client.hasEnded = true;
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    client.code = error.code ?? '';
  });
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: 0\r\n\r\n`);
  await until(() => client.text.includes('\r\n\r\n') || socket.destroyed);
  return client;
}

t.test('a hijacked POST carries bytes, and each direction ends by itself', async (t) => {
  const { port, id, sockets, ends } = await serveGuest(t);
  const path = `/sandboxes/${id}/ports/80/connect`;
  const client = await tunnel(t, port, path);
  t.match(client.text, /^HTTP\/1.1 200 OK\r\n/);
  client.socket.write('echo');
  await until(() => client.text.endsWith('\r\n\r\necho'));
  client.socket.end();
  await until(() => ends.length === 1);
  t.same(ends, ['end after echo']);
  t.notOk(client.hasEnded, 'the other direction is open');
  sockets[0]?.end('last');
  await until(() => client.hasEnded);
  t.ok(client.text.endsWith('echolast'));

  const other = await tunnel(t, port, path, 'Connection: Upgrade\r\nUpgrade: tcp\r\n');
  t.equal(other.text, 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
  sockets[1]?.end();
  await until(() => other.hasEnded);
  other.socket.end('bye');
  await until(() => ends.length === 2);
  t.equal(ends[1], 'end after bye');
});

t.test('bytes right behind the request are for the server', async (t) => {
  const { port, id } = await serveGuest(t);
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  const head = `POST /sandboxes/${id}/ports/80/connect HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`;
  socket.write(`${head}GET / HTTP/1.1\r\n\r\necho`);
  await until(() => text.endsWith('\r\n\r\nGET / HTTP/1.1\r\n\r\necho'));
});

t.test('resets pass through in both directions', async (t) => {
  const { port, id, sockets, ends } = await serveGuest(t);
  const path = `/sandboxes/${id}/ports/80/connect`;
  const client = await tunnel(t, port, path);
  sockets[0]?.resetAndDestroy();
  await until(() => client.code === 'ECONNRESET');
  const other = await tunnel(t, port, path);
  other.socket.resetAndDestroy();
  await until(() => ends.includes('ECONNRESET'));
});

t.test('a refusal is an ordinary answer', async (t) => {
  const { port, id, refuse } = await serveGuest(t);
  refuse();
  const post = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' });
  const refused = await post(`/sandboxes/${id}/ports/81/connect`);
  t.equal(refused.status, 502);
  t.same(await refused.json(), {
    error: 'nothing listens on port 81 of the sandbox',
    code: 'port_not_listening',
  });
  t.equal((await post(`/sandboxes/${UNKNOWN_ID}/ports/81/connect`)).status, 404);
  for (const bad of ['0', '65536', '080', 'x', '-1']) {
    const answer = await post(`/sandboxes/${id}/ports/${bad}/connect`);
    t.equal(answer.status, 400, bad);
  }
  const get = await fetch(`http://127.0.0.1:${port}/sandboxes/${id}/ports/81/connect`);
  t.equal(get.status, 426);
});

t.test('a WebSocket carries bytes, and the message that ends a direction', async (t) => {
  const { port, id, sockets, ends } = await serveGuest(t);
  const open = async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/sandboxes/${id}/ports/80/connect`);
    t.teardown(() => socket.terminate());
    const messages: string[] = [];
    const state = { socket, messages, code: 0 };
    socket.on('message', (data, isBinary) => messages.push(`${isBinary ? 'bytes' : 'text'} ${data}`));
    socket.on('close', (code) => {
      state.code = code;
    });
    socket.on('error', () => undefined);
    await once(socket, 'open');
    return state;
  };
  const client = await open();
  client.socket.send(Buffer.from('echo'));
  await until(() => client.messages.length === 1);
  client.socket.send('end');
  await until(() => ends.length === 1);
  sockets[0]?.end();
  await until(() => client.code !== 0);
  t.same([client.messages, client.code, ends], [['bytes echo', 'text end'], 1000, ['end after echo']]);

  const reset = await open();
  sockets[1]?.resetAndDestroy();
  await until(() => reset.code !== 0);
  t.equal(reset.code, 1011, 'a reset of the server');

  const closed = await open();
  closed.socket.send(Buffer.from('x'));
  closed.socket.close(1000);
  await until(() => ends.length === 2);
  t.equal(ends[1], 'end after x', 'a close of the client');

  const broken = await open();
  broken.socket.terminate();
  await until(() => ends.length === 3);
  t.equal(ends[2], 'ECONNRESET', 'a client that breaks off');

  const wrong = await open();
  wrong.socket.send('GET /');
  await until(() => wrong.code !== 0);
  t.equal(wrong.code, 1003);
});

t.test('ports are opened, changed, listed and closed', async (t) => {
  const { app, sandboxes } = await serveGuest(t);
  const { id } = sandboxes.add();
  const path = `/sandboxes/${id}/ports`;
  const ask = async (method: string, to: string, body?: object) => {
    const answer = await app.request(to, { method, ...(body && { body: JSON.stringify(body) }) });
    return { status: answer.status, body: answer.status === 204 ? undefined : await answer.json() };
  };
  const opened_at = '1970-01-01T00:00:00.000Z';
  t.same(await ask('GET', path), { status: 200, body: { ports: [] } });
  const opened = { port: 3000, access: 'private', opened_at };
  t.same(await ask('POST', path, { port: 3000 }), { status: 200, body: opened });
  const open = { ...opened, access: 'public' };
  t.same(await ask('POST', path, { port: 3000, access: 'public' }), { status: 200, body: open });
  const masked = { ...open, host: 'localhost' };
  t.same(await ask('POST', path, { port: 3000, access: 'public', host: 'localhost' }), {
    status: 200,
    body: masked,
  });
  t.same(await ask('GET', path), { status: 200, body: { ports: [masked] } });
  t.same(await ask('DELETE', `${path}/3000`), { status: 204, body: undefined });
  t.same(await ask('DELETE', `${path}/3000`), { status: 204, body: undefined });
  t.same(await ask('GET', path), { status: 200, body: { ports: [] } });
  for (const body of [
    {},
    { port: 0 },
    { port: 65_536 },
    { port: 80, access: 'secret' },
    { port: 80, host: 'x' },
  ])
    t.equal((await ask('POST', path, body)).status, 400, JSON.stringify(body));
});

t.test('ports are published and freed while a sandbox exists', async (t) => {
  const { app, sandboxes } = await serveGuest(t);
  const { id } = sandboxes.add();
  const ask = async (method: string, to: string, body?: object) => {
    const answer = await app.request(`/sandboxes/${id}/ports${to}`, {
      method,
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: answer.status === 204 ? undefined : await answer.json() };
  };
  const published = { host_port: 8080, guest_port: 80, protocol: 'tcp' };
  const local = { host_ip: '127.0.0.1', ...published, host_port: 8081 };
  t.same(await ask('POST', '/80/publish', { host_port: 8080 }), { status: 200, body: published });
  t.same(await ask('POST', '/80/publish', { host_port: 8081, host_ip: '127.0.0.1' }), {
    status: 200,
    body: local,
  });
  t.same(await ask('GET', ''), { status: 200, body: { ports: [], published: [published, local] } });
  t.same(await ask('DELETE', '/80/publish/8080'), { status: 204, body: undefined });
  t.same((await ask('GET', '')).body, { ports: [], published: [local] });
  for (const body of [{}, { host_port: 0 }, { host_port: 80, host_ip: '224.0.0.1' }, { host_port: '80' }])
    t.equal((await ask('POST', '/80/publish', body)).status, 400, JSON.stringify(body));
  t.equal((await ask('DELETE', '/80/publish/0')).status, 400);
  t.match((await ask('DELETE', '/80/publish/x')).body, {
    error: /host_port must be a number from 1 to 65535/,
  });
});
