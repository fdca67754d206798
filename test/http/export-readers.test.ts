// Exports and imports whose clients are slow, too many, or silent: what others, a delete and the disk see of them.
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MAX_MOVES } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { RawClient, serve } from './support.ts';

const MIB = 2 ** 20;
/** More than what lies between two sockets and in the compressor. */
const MEMORY_BYTES = 64 * MIB;
t.setTimeout(scaled(120_000));

async function start(t: Test, changes: Parameters<typeof serve>[1] = {}) {
  const daemon = await startMemoryDaemon(t);
  daemon.host.savedMemory = randomBytes(MEMORY_BYTES);
  const { manager } = daemon;
  const served = await serve(t, { sandboxes: manager, maxConnections: 500, ...changes });
  const { id } = await manager.create({});
  const snapshot = await manager.snapshot(manager.get(id));
  const left = async () => ({
    files: await readdir(join(daemon.home.dataDir, 'snapshots')),
    // A stub stays, as the sandbox came from it.
    records: daemon.store
      .table<{ deletedAtMs?: number }>('snapshots')
      .all()
      .filter(({ record }) => record.deletedAtMs === undefined),
  });
  return { ...daemon, ...served, snapshot: snapshot.id, left };
}

/** Asks, and reads no more than what arrives until the answer has begun. */
async function ask(t: Test, port: number, request: string): Promise<RawClient> {
  const client = new RawClient(t, port);
  client.write(`${request}\r\n`);
  await until(() => client.text.includes('\r\n\r\n'), 'the head of an answer');
  client.socket.pause();
  return client;
}

const exportOf = (id: string) => `GET /snapshots/${id}/export HTTP/1.1\r\nHost: x\r\n`;
const IMPORT = 'POST /snapshots/import HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n';

t.test('a delete does not wait for slow readers, and their truncated exports are recognisable', async (t) => {
  const { port, url, snapshot, left } = await start(t);
  const slow = await ask(t, port, exportOf(snapshot));
  const answer = await fetch(`${url}/snapshots/${snapshot}`, { method: 'DELETE' });
  t.equal(answer.status, 204);
  t.same(await left(), { files: [], records: [] });
  slow.socket.resume();
  await slow.ended();
  t.notMatch(slow.text.slice(-7), '\r\n0\r\n\r\n', 'the body has no end');
  t.ok(slow.received.length < MEMORY_BYTES);
});

t.test('the number of exports is limited; a reader that ends or leaves frees its place', async (t) => {
  const { port, url, snapshot, manager } = await start(t);
  const slow: RawClient[] = [];
  for (let count = 0; count < MAX_MOVES; count++) slow.push(await ask(t, port, exportOf(snapshot)));
  const refused = await fetch(`${url}/snapshots/${snapshot}/export`);
  t.equal(refused.status, 503);
  t.match(await refused.text(), /there are 32 exports already; try again later/);
  t.equal((await fetch(`${url}/snapshots/${snapshot}/export`, { method: 'HEAD' })).status, 200);
  t.match(manager.listSnapshots(), [{ id: snapshot }], 'all else goes on');
  slow[0]?.socket.destroy();
  for (let tries = 0; tries < 2; tries++) {
    let answer = await fetch(`${url}/snapshots/${snapshot}/export`);
    while (answer.status === 503) answer = await fetch(`${url}/snapshots/${snapshot}/export`);
    t.ok((await answer.arrayBuffer()).byteLength > MEMORY_BYTES, 'one after another');
  }
});

t.test('the number of imports is limited; a slow upload times out and leaves nothing', async (t) => {
  const { port, url, snapshot, left, manager } = await start(t, { bodyIdleMs: 500 });
  const whole = await fetch(`${url}/snapshots/${snapshot}/export`);
  const archive = Buffer.from(await whole.arrayBuffer());
  await manager.deleteSnapshot(snapshot);
  const clients = Array.from({ length: MAX_MOVES }, () => new RawClient(t, port));
  for (const client of clients) client.write(`${IMPORT}\r\n`);
  // A byte now and then is not enough.
  let at = 0;
  const timer = setInterval(() => {
    const byte = Buffer.concat([Buffer.from('1\r\n'), archive.subarray(at, ++at), Buffer.from('\r\n')]);
    for (const client of clients) if (!client.isEnded) client.write(byte);
  }, 100);
  t.teardown(() => clearInterval(timer));
  const importNothing = () => fetch(`${url}/snapshots/import`, { method: 'POST', body: 'x' });
  let answer = await importNothing();
  while (answer.status !== 503) answer = await importNothing();
  t.match(await answer.text(), /there are 32 imports already/);
  await until(() => clients.every(({ text }) => text.includes('}')), 'their end', 30_000);
  for (const { text } of clients) t.match(text, /^HTTP\/1.1 408 .*at less than 240 bytes a second/s);
  t.equal((await importNothing()).status, 400, 'there is room again');
  t.same(await left(), { files: [], records: [] });
});
