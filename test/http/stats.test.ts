// What a sandbox takes of the host: once, as lines, as server-sent events, and what readers without end cost.
import { MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import { Client } from '@sandboxd/client';
import t from 'tap';
import { ConcurrencyLimit } from '../../host-agent/src/lib/concurrency-limit.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { runCommand } from '../support/command.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';
import { ask, RawClient, serve, UNKNOWN_ID } from './support.ts';

t.test('once, as JSON; unknown ones are 404', async (t) => {
  const { app, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  t.match(await ask(app, 'GET', `/sandboxes/${id}/stats`), {
    status: 200,
    body: { id, cpu_us: 10_000, resident_bytes: 2, private_bytes: 1, memory_limit_bytes: 512 * 2 ** 20 },
  });
  t.equal((await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}/stats`)).status, 404);
  t.equal((await ask(app, 'GET', '/sandboxes/x/stats')).status, 400);
});

t.test('a line each second with the share of CPU, until it is gone', async (t) => {
  const { url, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  const seen: (number | undefined)[] = [];
  for await (const each of new Client({ host: url }).sandboxes.get(id).watchStats()) {
    seen.push(each.cpu_percent);
    // Three seconds of CPU within one: 300 per cent, less what the timer is late.
    sandboxes.stats = { ...sandboxes.stats, cpuMs: sandboxes.stats.cpuMs + 3000 };
    if (seen.length === 3) await sandboxes.delete(id);
  }
  t.equal(seen.length, 3);
  t.equal(seen[0], undefined);
  for (const percent of seen.slice(1)) t.ok((percent ?? 0) > 10 && (percent ?? 0) <= 310, `${percent}`);
});

t.test('as server-sent events; a reader that leaves gives its place back', async (t) => {
  const { port, url, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  const client = new RawClient(t, port);
  client.write(`GET /sandboxes/${id}/stats HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n`);
  await until(() => /data: \{.*"cpu_us":10000.*\}\n\n/.test(client.text), 'an event');
  t.match(client.text, /content-type: text\/event-stream/i);
  client.socket.destroy();
  const lines = { headers: { accept: 'application/x-ndjson' } };
  t.equal((await fetch(`${url}/sandboxes/${id}/stats`, { method: 'HEAD', ...lines })).status, 200);
});

t.test('readers that read nothing, of a sandbox that is deleted meanwhile', async (t) => {
  const { port, url, sandboxes, server } = await serve(t, { maxConnections: 500 });
  const { id } = sandboxes.add();
  const request = `GET /sandboxes/${id}/stats HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n`;
  const clients = Array.from({ length: 300 }, () => new RawClient(t, port));
  for (const client of clients) client.write(request);
  await until(() => clients.every(({ text }) => text.includes('data: ')), 'a reading for each', 30_000);
  for (const { socket } of clients) socket.pause();
  await sandboxes.delete(id);
  t.equal((await fetch(`${url}/sandboxes/${id}/stats`)).status, 404);
  // Each that reads on comes to the end.
  for (const client of clients.slice(0, 100)) {
    client.socket.resume();
    await until(() => client.text.endsWith('\r\n0\r\n\r\n'), 'the end of the answer', 30_000);
  }
  for (const { socket } of clients) socket.destroy();
  await until(() => server.connectionCount <= 1, 'none is left but our own');
});

t.test('one tenant cannot take the places of all', async (t) => {
  const keyring = await openKeyring(t);
  const { port, url, sandboxes } = await serve(t, {
    authenticator: keyring.authenticator,
    maxConnections: 2000,
  });
  const { id } = sandboxes.add();
  const greedy = await keyring.make({ tenant: 'greedy' });
  const modest = await keyring.make({ tenant: 'modest' });
  const clients = Array.from({ length: MAX_WATCHERS_OF_EACH + 3 }, () => {
    const client = new RawClient(t, port);
    client.write(
      `GET /sandboxes/${id}/stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${greedy}\r\nAccept: text/event-stream\r\n\r\n`,
    );
    return client;
  });
  await until(() => clients.every(({ text }) => text.includes('\r\n\r\n')), 'answers');
  t.equal(clients.filter(({ text }) => text.startsWith('HTTP/1.1 503')).length, 3);
  t.match(
    clients.find(({ text }) => text.startsWith('HTTP/1.1 503'))?.text,
    /you have 256 streams of stats already/,
  );
  const answer = await fetch(`${url}/sandboxes/${id}/stats`, {
    headers: { authorization: `Bearer ${modest}`, accept: 'text/event-stream' },
  });
  t.equal(answer.status, 200);
  await answer.body?.cancel();
  clients[0]?.socket.destroy();
  const again = async () =>
    (
      await fetch(`${url}/sandboxes/${id}/stats`, {
        method: 'GET',
        headers: { authorization: `Bearer ${greedy}`, accept: 'text/event-stream' },
        signal: AbortSignal.timeout(60_000),
      })
    ).status;
  while ((await again()) !== 200) await new Promise((resolve) => setTimeout(resolve, 10));
});

t.test('places: of everybody, of each, given back once', (t) => {
  const places = new ConcurrencyLimit({ what: 'things', max: 3, maxPerClient: 2 });
  const first = places.acquire('a');
  places.acquire('a');
  t.throws(() => places.acquire('a'), {
    code: 'exhausted',
    message: 'you have 2 things already; close some',
  });
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  t.equal(places.count, 1);
  places.acquire('b');
  places.acquire(undefined);
  t.throws(() => places.acquire('c'), { message: 'there are 3 things already; try again later' });
  t.end();
});

t.test('stats of a VM that ended are an error, those of one that hangs are returned', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const sandbox = manager.get(id);
  sandbox.awake.hang = 'it hangs';
  t.throws(() => sandbox.assertAlive(), { code: 'guest_unreachable' });
  // The machines of this test are no processes.
  t.throws(() => sandbox.stats(), { code: 'internal', message: /about to end/ });
  await sandbox.awake.vm.kill();
  await until(() => sandbox.state === 'failed');
  t.throws(() => sandbox.stats(), { code: 'internal', message: /is dead/ });
  await manager.delete(id);
  t.throws(() => sandbox.stats(), AppError);
});

t.test('the command shows a table, or JSON', async (t) => {
  const { url, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  sandboxes.stats = {
    ...sandboxes.stats,
    residentBytes: 100 * 2 ** 20,
    network: { receivedBytes: 2048, receivedPackets: 1, sentBytes: 1024, sentPackets: 1 },
  };
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir({}) };
  const table = await runCommand(['stats', '--no-stream'], env);
  t.match(table, { code: 0, stderr: '' });
  t.match(table.stdout, /^SANDBOX +CPU % +MEMORY \/ LIMIT/);
  t.match(table.stdout, new RegExp(`^${id} +0\\.0 +100 MiB / 512 MiB .*2\\.0 KiB / 1\\.0 KiB$`, 'm'));
  const json = await runCommand(['stats', '--no-stream', '--json', id], env);
  t.match(JSON.parse(json.stdout), [{ id, cpu_percent: 0 }]);
  t.match(await runCommand(['stats', '--no-stream', UNKNOWN_ID], env), { code: 1, stderr: /does not exist/ });
});
