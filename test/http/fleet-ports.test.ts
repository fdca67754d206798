// URLs of ports at the gateway of a fleet: requests reach the ingress of the host that has the sandbox, as they are.
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  type ServerHttp2Stream,
} from 'node:http2';
import t from 'tap';
import { WebSocket } from 'ws';
import { LINK_PARAMETER } from '../../host-agent/src/keys/index.ts';
import { DOMAIN, serveIngress } from '../support/fleet/doors.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { makeOpen, startWithPorts, toHost } from '../support/fleet/ports.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { makeAuthority } from './certificates.ts';
import { ask as askPort, serveGuest, serveRaw } from './ingress-host.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('requests find the host of the sandbox, and reach the guest as they would there', async (t) => {
  const { hosts, gateway, port } = await startWithPorts(t);
  const ids = [];
  for (let n = 0; n < 4; n++) ids.push(await makeOpen(gateway.url, 'public'));
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 2);
  const { body: listed } = await ask(gateway.url, 'GET', `/sandboxes/${ids[0]}/ports`);
  t.match(
    listed.ports,
    [{ port: 3000, url: `http://${toHost(ids[0]!)}:8080/` }],
    'URLs have the domain of the fleet',
  );

  for (const id of ids) {
    const host = `${toHost(id)}:8080`;
    const sent = {
      'x-forwarded-for': '6.6.6.6',
      'sandboxd-client': 'x y',
      'sandboxd-place': 'x',
      cookie: 'c=1',
    };
    const answer = await askPort(port, host, { method: 'POST', path: '//a?b=%20', headers: sent });
    t.equal(answer.status, 200, answer.body);
    const got = JSON.parse(answer.body);
    t.match(got, { url: '//a?b=%20', method: 'POST', headers: { host, cookie: 'c=1' } });
    t.match(got.headers, {
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': host,
      'x-forwarded-proto': 'http',
    });
    t.notOk('sandboxd-client' in got.headers, 'what the gateway says of the client is for the host');
    t.notOk('sandboxd-place' in got.headers);
    t.same(answer.headers['set-cookie'], ['a=1', 'b=2']);
  }
  const [id = ''] = ids;
  t.equal((await askPort(port, toHost(id, 3001))).status, 403, 'a port that is not open');
  const named = { 'x-sandbox-id': id, 'x-sandbox-port': '3000' };
  t.match(await askPort(port, DOMAIN, { headers: named }), { status: 200 }, 'headers name the port, too');
  const two = { ...named, 'e2b-sandbox-id': ids[1]!, 'e2b-sandbox-port': '3000' };
  t.equal((await askPort(port, DOMAIN, { headers: two })).status, 404, 'two that disagree name none');
  const other = JSON.parse(
    (await askPort(port, toHost(id), { headers: { ...named, 'x-sandbox-id': ids[1]! } })).body,
  );
  t.equal(other.headers.host, toHost(id), 'a host name decides alone');

  for (const host of [toHost('sbx_0123456789abc'), '3000-web.box.example', DOMAIN, 'evil.example']) {
    t.match(
      await askPort(port, host),
      { status: 404, headers: { 'content-type': 'application/json' } },
      host,
    );
    const page = await askPort(port, host, { headers: { accept: 'text/html' } });
    t.match(page, { status: 404, body: /^<!doctype html>/ });
    const { error } = JSON.parse((await askPort(port, host)).body);
    t.equal(
      error,
      JSON.parse((await askPort(hosts[0]!.ingressPort, host)).body).error,
      'in the words of a host',
    );
  }
});

t.test('a host decides who may: keys, links and their cookies', async (t) => {
  const keyring = await openKeyring(t);
  const authorization = `Bearer ${await keyring.make()}`;
  const { gateway, port } = await startWithPorts(t, { authenticator: keyring.authenticator });
  const id = await makeOpen(gateway.url, 'private', { authorization });
  const host = `${toHost(id)}:8080`;
  t.equal((await askPort(port, host)).status, 404);
  const bearer = await askPort(port, host, { headers: { authorization } });
  t.equal(bearer.status, 200);
  t.notMatch(bearer.body, /Bearer/, 'no guest gets a key');
  t.equal((await askPort(port, host, { headers: { authorization: 'Bearer sbk_wrong' } })).status, 401);

  const made = await ask(
    gateway.url,
    'POST',
    `/sandboxes/${id}/ports/3000/links`,
    { expires_s: 60 },
    { authorization },
  );
  const link = new URL(made.body.url as string);
  t.equal(link.host, host);
  const visit = await askPort(port, host, { path: `/${link.search}`, headers: { accept: 'text/html' } });
  t.match(visit, { status: 303, headers: { location: '/' } });
  const [cookie = ''] = visit.headers['set-cookie'] ?? [];
  t.match(cookie, /^sandbox-link=sbl_/);
  const jar = { cookie: cookie.split(';', 1)[0]!, referer: `http://${host}/a` };
  t.match(await askPort(port, host, { headers: jar }), { status: 200 });
  const foreign = { cookie: jar.cookie, origin: `http://${toHost('sbx_0123456789abc')}` };
  t.equal((await askPort(port, host, { headers: foreign })).status, 403, 'a page of another sandbox');
  const program = await askPort(port, host, {
    path: `/?${LINK_PARAMETER}=${link.searchParams.get(LINK_PARAMETER)}`,
  });
  t.match(JSON.parse(program.body), { url: '/' }, 'no guest gets a token');
});

t.test('WebSockets, events, uploads and HTTP/2 pass', async (t) => {
  const { hosts, gateway, port } = await startWithPorts(t, {}, 1);
  const id = await makeOpen(gateway.url, 'public');
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host: toHost(id) } });
  const heard: string[] = [];
  socket.on('message', (data) => heard.push(data.toString()));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send('again');
  await until(() => heard.length === 2, 'two messages');
  t.same(heard, ['hello', 'again']);

  const events = await fetch(`http://127.0.0.1:${port}/events`, {
    headers: { 'x-sandbox-id': id, 'x-sandbox-port': '3000' },
  });
  const reader = events.body!.getReader();
  t.equal(Buffer.from((await reader.read()).value!).toString(), 'data: 1\n\n');

  const client = connectHttp2(`http://127.0.0.1:${port}`);
  t.teardown(() => client.destroy());
  const text = await new Promise<string>((resolve, reject) => {
    const stream = client.request({
      ':method': 'POST',
      ':path': '/h2',
      ':authority': toHost(id),
      cookie: 'x=1',
    });
    let all = '';
    stream.setEncoding('utf8').on('data', (chunk) => {
      all += chunk;
    });
    stream.once('end', () => resolve(all)).once('error', reject);
    stream.end('x'.repeat(200_000));
  });
  t.match(JSON.parse(text), {
    url: '/h2',
    body: /^x{200000}$/,
    headers: { host: toHost(id), cookie: 'x=1' },
  });

  // What allowed an open stream ends, and the host ends it through the gateway.
  const ended = new Promise((resolve) => socket.once('close', resolve));
  await hosts[0]!.daemon.manager.delete(id);
  await ended;
  t.ok((await reader.read().catch(() => ({ done: true }))).done);
  await until(() => gateway.map.find(id) === undefined, 'a map without it');
  t.equal((await askPort(port, toHost(id))).status, 404);
});

t.test('gRPC reaches guests as HTTP/2', async (t) => {
  const guest = createHttp2Server();
  guest.on('stream', (stream: ServerHttp2Stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end('answer');
  });
  const to = await serveRaw(t, (socket) => guest.emit('connection', socket));
  const { gateway, port } = await startWithPorts(t, { to }, 1);
  const id = await makeOpen(gateway.url, 'public');
  const client = connectHttp2(`http://127.0.0.1:${port}`);
  t.teardown(() => client.destroy());
  for (let n = 0; n < 2; n++) {
    const stream = client.request({
      ...{
        ':method': 'POST',
        ':path': '/call',
        ':authority': toHost(id),
        'content-type': 'application/grpc',
      },
      te: 'trailers',
    });
    let trailers: object = {};
    let text = '';
    stream.on('trailers', (given) => {
      trailers = given;
    });
    stream.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    stream.end('request');
    await new Promise((resolve) => stream.once('close', resolve));
    t.equal(text, 'answer');
    t.match(trailers, { 'grpc-status': '0' });
  }
});

t.test('a sandbox that sleeps wakes, and a host that is gone is named', async (t) => {
  const { hosts, gateway, port } = await startWithPorts(t, {}, 1);
  const id = await makeOpen(gateway.url, 'public');
  t.match(await ask(gateway.url, 'POST', `/sandboxes/${id}/pause`, {}), { body: { state: 'paused' } });
  t.equal((await askPort(port, toHost(id))).status, 200);
  t.equal(hosts[0]!.daemon.manager.get(id).state, 'running');
  await hosts[0]!.ingress!.close();
  const gone = await askPort(port, toHost(id));
  t.match(gone, { status: 502, body: /the host h0 does not answer/ });
});

t.test('a host without an ingress, and one whose address no host wrote', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const gateway = await fleet.gateway();
  const port = await serveIngress(t, gateway);
  const { body } = await ask(gateway.url, 'POST', '/sandboxes', {});
  t.match(await askPort(port, toHost(body.id)), { status: 501, body: /h0 .*--ingress-listen/ });
  const to = await serveGuest(t, () => t.fail('a request reached an address that no host wrote'));
  const node = fleet.api.objects.list('nodes')[0]!;
  const annotations = { ...node.metadata.annotations, 'sandboxd.dev/ingress-url': `http://127.0.0.1:${to}/` };
  const path = '/api/v1/nodes/h0';
  await fleet
    .client()
    .request({ method: 'PATCH', path, patch: 'merge', body: { metadata: { annotations } } });
  await until(() => gateway.map.host('h0') !== undefined, 'the host');
  t.equal((await askPort(port, toHost(body.id))).status, 501);
});

t.test('hosts with certificates', async (t) => {
  const authority = makeAuthority(t);
  const issued = authority.issue('host');
  const { gateway, port } = await startWithPorts(t, { issued }, 1);
  const id = await makeOpen(gateway.url, 'public');
  t.equal((await askPort(port, toHost(id))).status, 200);
});
