// What clients of E2B's interface can make the daemon keep is bounded in bytes.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeWatchRecord } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type Created, serveE2b } from './e2b-front.ts';
import { FILE } from './fake-sandboxes.ts';
import { watchOf } from './fake-watch.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring });
  let count = 0;
  const make = async (tenant: string): Promise<Created> => {
    const { text: key } = await keyring.registry.create({ name: `key-${count++}`, tenant }, 'e2b');
    const body = { templateID: 'base', allow_internet_access: false };
    return (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  };
  return { ...fixture, e2b, make, made: await make('one') };
}

t.test('lists of files are bounded, and few large ones are in work at a time', async (t) => {
  const { e2b, make, made, sandboxes } = await start(t);
  let pages = 0;
  let last = 1;
  const path = (page: number, at: number) => Buffer.from(`${'d/'.repeat(1900)}${page}-${at}`);
  sandboxes.onFileCall = async ({ list }) => {
    const page = 1 + Number(/(\d+)-\d+$/.exec(Buffer.from(list?.after ?? '').toString())?.[1] ?? 0);
    if (list !== undefined) pages += 1;
    const entries = Array.from({ length: 500 }, (_, at) => ({ ...FILE, path: path(page, at) }));
    return {
      entry: { ...FILE, type: 'directory' },
      entries: list === undefined ? [] : entries,
      hasMore: page < last,
      count: 1,
    };
  };
  const list = (sandbox: Created) => e2b.call('filesystem.Filesystem/ListDir', { path: '/d' }, sandbox);
  t.equal((await list(made)).json.entries.length, 500);
  last = Number.POSITIVE_INFINITY;
  const giant = await list(made);
  t.match([giant.status, giant.json.code], [429, 'resource_exhausted']);
  t.ok(pages < 20, 'it is over soon');

  // Clients that do not read their answers.
  last = 7;
  const body = JSON.stringify({ path: '/d' });
  const stall = async ({ envdAccessToken, sandboxID }: Created) => {
    const socket = connect(e2b.port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    const head = {
      ...{ host: `127.0.0.1:${e2b.port}`, 'x-access-token': envdAccessToken },
      ...{ 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': 49983 },
      ...{ 'content-type': 'application/json', 'content-length': body.length },
    };
    const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
    const before = pages;
    socket.write(`POST /filesystem.Filesystem/ListDir HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
    await until(() => pages >= before + last);
    return socket;
  };
  const stalled = [await stall(made), await stall(made)];
  await sleep(200);
  t.match((await list(made)).json, { code: 'resource_exhausted' });
  t.equal((await list(await make('two'))).status, 200, 'others have their own share');
  for (const socket of stalled) socket.destroy();
  await sleep(200);
  t.equal((await list(made)).status, 200, 'the share is free again');
});

t.test('long descriptions of processes are not kept', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const running = {
    ...{ id: 'cmd_0123456789abc', cmd: ['x', 'cut'], isCmdCut: true, isDetached: true, hasStdin: true },
    ...{ pid: 7, startedUnixMs: 1000 },
  };
  sandboxes.commandCalls.start = async () => running;
  sandboxes.commandCalls.list = async () => [running];
  const listed = async (args: readonly string[]) => {
    const process = { cmd: 'x', args, envs: { A: 'b' } };
    await e2b.stream('process.Process/Start', { process, tag: 'tag' }, made);
    return (await e2b.call('process.Process/List', {}, made)).json.processes;
  };
  t.match(await listed(['short']), [{ config: { args: ['short'], envs: { A: 'b' } }, tag: 'tag' }]);
  const long = await listed(Array.from({ length: 9 }, () => 'a'.repeat(100_000)));
  t.match(long, [{ config: { cmd: 'x', args: ['cut'], envs: {} }, pid: 7, tag: 'tag' }]);
});

t.test('events that wait are bounded in bytes, and each tenant has its share of watchers', async (t) => {
  const { e2b, make, made, sandboxes } = await start(t);
  sandboxes.onFileCall = async ({ place }) => {
    const entry = { ...FILE, type: 'directory' as const, path: Buffer.from(place?.path ?? '') };
    return { entry, entries: [entry], hasMore: false, count: 1 };
  };
  const paths = Array.from({ length: 500 }, (_, at) => `/w/${'d/'.repeat(1900)}${at}`);
  sandboxes.onWatch = watchOf(paths.map((path) => ({ type: 'create' as const, path })));
  const watch = (sandbox: Created) =>
    e2b.call('filesystem.Filesystem/CreateWatcher', { path: '/w' }, sandbox);
  const { watcherId } = (await watch(made)).json;
  const taken = await e2b.call('filesystem.Filesystem/GetWatcherEvents', { watcherId }, made);
  const { events } = taken.json;
  t.ok(taken.text.length < 1.1 * 2 ** 20 && events.length > 200, `${events.length}`);
  t.match(events.at(-1)?.name, /499$/, 'the oldest go first');

  // Watches that have ended make room.
  for (let at = 0; at < 40; at++) t.equal((await watch(made)).status, 200);
  sandboxes.onWatch = (_watch, events) => {
    queueMicrotask(() => {
      const bytes = Buffer.alloc(100);
      const length = writeWatchRecord(bytes, 0, { type: 'armed', directories: 1 });
      events.records(bytes.subarray(0, length), length);
    });
    return { consumed: () => undefined, cancel: () => undefined };
  };
  const own = [await make('a'), await make('a'), await make('a')];
  const statuses: number[] = [];
  for (const sandbox of own) for (let at = 0; at < 33; at++) statuses.push((await watch(sandbox)).status);
  t.equal(statuses.filter((status) => status === 200).length, 64);
  t.same(new Set(statuses), new Set([200, 429]));
  t.equal((await watch(await make('b'))).status, 200, 'others have their own share');
});
