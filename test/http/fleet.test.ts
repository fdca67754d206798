// A fleet: hosts join, a gateway places sandboxes and passes requests on, and the catalogue agrees with the registries.
import t from 'tap';
import WebSocket from 'ws';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { BODY, head, stdin, stdinClose } from './cat.ts';
import { openKeyring } from './keyed.ts';
import { RawClient } from './support.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('sandboxes are placed over the hosts, and requests find them', async (t) => {
  const fleet = await startFleet(t);
  const hosts = [await fleet.host('h0'), await fleet.host('h1'), await fleet.host('h2')];
  await fleet.ready(3);
  const { url, map } = await fleet.gateway();
  const made = [];
  for (let n = 0; n < 9; n++) made.push(await ask(url, 'POST', '/sandboxes', { labels: { n: String(n) } }));
  t.same(new Set(made.map(({ status }) => status)), new Set([201]), JSON.stringify(made[0]?.body));
  const ids = made.map(({ body }) => body.id);
  t.equal(new Set(ids).size, 9);
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 3);
  t.equal(map.size, 9);

  const { body: list } = await ask(url, 'GET', '/sandboxes');
  t.same(
    (list.sandboxes as { id: string }[]).map(({ id }) => id),
    ids,
    'oldest first, of all hosts',
  );
  const { body: page } = await ask(url, 'GET', '/sandboxes?limit=4');
  const { body: next } = await ask(url, 'GET', `/sandboxes?limit=5&cursor=${page.next_cursor}`);
  t.same(
    [...(page.sandboxes as []), ...(next.sandboxes as [])].map(({ id }) => id),
    ids,
  );
  t.notOk(next.next_cursor);

  for (const id of ids) {
    t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { id } });
    t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  }
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
  t.match(await ask(url, 'GET', `/sandboxes/${ids[0]}`), { status: 404, body: { code: 'not_found' } });
  for (const { records } of hosts) await until(() => records.all().length === 0, 'no places');
});

t.test('a deleted pod ends its sandbox, and a host takes no sandbox without a place', async (t) => {
  const fleet = await startFleet(t);
  const { url: direct, daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await until(() => fleet.api.objects.list('pods')[0]?.status.phase === 'Running', 'a running pod');
  fleet.api.objects.delete('pods', 'sandboxd', body.id.replace('_', '-'), undefined);
  await until(() => daemon.manager.list().length === 0, 'no sandbox');
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pod');

  t.match(await ask(direct, 'POST', '/sandboxes', {}), { status: 409, body: { code: 'conflict' } });
  const forged = { 'sandboxd-place': 'place sandboxd sbx_0123456789abc=1 AAAA' };
  t.match(await ask(direct, 'POST', '/sandboxes', {}, forged), { status: 403, body: { code: 'forbidden' } });
  t.equal(
    (await ask(url, 'POST', '/sandboxes', {}, forged)).status,
    201,
    'a gateway drops what clients say of places',
  );
  t.match(await ask(url, 'POST', '/sandboxes', { vcpus: -1 }), { status: 400 });
  t.equal(fleet.api.objects.list('pods').length, 1);
});

t.test('many creates at once are spread, and the catalogue is the union of the registries', async (t) => {
  const fleet = await startFleet(t);
  const hosts = await Promise.all(['h0', 'h1', 'h2'].map((name) => fleet.host(name)));
  await fleet.ready(3);
  const { url, map } = await fleet.gateway();
  const count = Number(process.env.FLEET_CREATES ?? 60);
  const startedAt = performance.now();
  const ids: string[] = [];
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const made = await ask(url, 'POST', '/sandboxes', {});
      if (made.status !== 201) throw new Error(JSON.stringify(made));
      ids.push(made.body.id);
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  t.comment(`${count} creates: ${Math.round(count / ((performance.now() - startedAt) / 1000))} a second`);
  const counts = hosts.map(({ daemon }) => daemon.manager.list().length);
  for (const each of counts) t.ok(Math.abs(each - count / 3) <= count / 15, `${counts}`);
  const registries = hosts.flatMap(({ daemon }) => daemon.manager.list().map(({ id }) => id));
  t.same(new Set(registries), new Set(ids));
  t.same(
    new Set([...fleet.api.objects.list('pods')].map(({ metadata }) => metadata.name.replace('-', '_'))),
    new Set(ids),
  );
  t.equal(map.size, count);
  const { body } = await ask(url, 'DELETE', '/sandboxes?state=running');
  t.equal((body.deleted as string[]).length, count);
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
});

t.test('connections that leave HTTP are the host’s byte for byte', async (t) => {
  const fleet = await startFleet(t);
  const { url: direct } = await fleet.host('h0');
  await fleet.ready(1);
  const { port, url } = await fleet.gateway();
  const { id } = (await ask(url, 'POST', '/sandboxes', {})).body;
  const request = Buffer.concat([
    Buffer.from(
      head(id).replace('Host: x', 'Host: x\r\nSandboxd-Place: place x y z') + BODY.replace('cat', 'was'),
    ),
    stdin('hello '),
    stdinClose,
  ]);
  const run = async (to: number): Promise<string> => {
    const client = new RawClient(t, to);
    client.write(request.subarray(0, 50));
    client.write(request.subarray(50));
    await until(() => client.text.includes('\r\n\r\n'), 'an answer');
    client.socket.destroy();
    return client.text.replace(/x-request-id: .*/i, '');
  };
  const own = await run(Number(new URL(direct).port));
  t.match(own, /^HTTP\/1\.1 200 OK/);
  t.equal(await run(port), own);

  const told: Buffer[] = [];
  const socket = new WebSocket(`${url.replace('http', 'ws')}/sandboxes/${id}/exec`);
  socket.on('message', (data) => told.push(Buffer.from(data as Buffer)));
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send(JSON.stringify({ cmd: ['true'] }));
  await new Promise((resolve) => socket.once('close', resolve));
  t.match(Buffer.concat(told).toString(), /exit_code":0/);

  const gone = new RawClient(t, port);
  gone.write(head('sbx_0123456789abc') + BODY);
  await gone.ended();
  t.match(gone.text, /^HTTP\/1\.1 404 /);
});

t.test(
  'what could be read in two ways is refused, and what the gateway does not serve yet says so',
  async (t) => {
    const fleet = await startFleet(t);
    await fleet.host('h0');
    await fleet.ready(1);
    const { port, url } = await fleet.gateway();
    const other = await startFleet(t);
    const keyring = await openKeyring(t);
    await keyring.make({ tenant: 'acme' });
    await other.host('h0', { authenticator: keyring.authenticator });
    await other.ready(1);
    const locked = await other.gateway();
    const { id } = (await ask(url, 'POST', '/sandboxes', {})).body;
    for (const [name, lines] of Object.entries({
      'two lengths': `POST /sandboxes/${id}/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      'length and chunks': `POST /sandboxes/${id}/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      'another coding': `POST /sandboxes/${id}/pause HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      'two hosts': `GET /sandboxes/${id} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n`,
      'two keys': `GET /sandboxes/${id} HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n`,
    })) {
      const client = new RawClient(t, port);
      client.write(lines);
      await until(() => client.text.includes('\r\n\r\n'), name);
      t.match(client.text, /^HTTP\/1\.1 400 /, name);
    }
    const dropped = `GET /sandboxes/${id} HTTP/1.1\r\nHost: x\r\nConnection: close, content-length, authorization\r\n\r\n`;
    const client = new RawClient(t, port);
    client.write(dropped);
    await client.ended();
    t.match(client.text, /^HTTP\/1\.1 200 /);
    t.match(await ask(url, 'GET', '/sandboxes', undefined, { origin: 'http://evil.example' }), {
      status: 403,
    });
    // A body that nobody may send, or that is too long, is not waited for.
    for (const [status, lines] of [
      [401, 'Authorization: Bearer wrong\r\nContent-Length: 100'],
      [413, 'Content-Length: 1000000000'],
    ] as const) {
      const early = new RawClient(t, status === 401 ? locked.port : port);
      early.write(`POST /sandboxes HTTP/1.1\r\nHost: x\r\n${lines}\r\n\r\n{`);
      await until(() => early.text.includes('\r\n\r\n'), lines);
      t.match(early.text, new RegExp(`^HTTP/1\\.1 ${status} `));
      t.match(early.text, /^connection: close/im);
    }
    t.match(await ask(url, 'POST', '/images/import'), { status: 501, body: { code: 'unsupported' } });
    t.match(await ask(url, 'GET', '/nothing'), { status: 404, body: { code: 'unknown_path' } });
    t.match(await ask(url, 'PATCH', '/sandboxes', {}), { status: 405 });
    t.match(await ask(url, 'GET', '/healthz'), { status: 200, body: { status: 'ok', engine: 'chosen' } });
    t.match(await ask(url, 'GET', '/whoami'), { status: 200, body: { scoped: false } });
    t.match(await ask(url, 'GET', '/sandboxes/sbx_0123456789abc'), { status: 404 });
    t.match(await ask(url, 'GET', '/sandboxes/..%2f..%2fimages'), { status: 404 });
  },
);
