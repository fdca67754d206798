// What clients of E2B's interface can make the daemon keep is bounded in bytes.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type Created, serveE2b } from './e2b-front.ts';
import { FILE } from './fake-sandboxes.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring });
  const make = async (name: string): Promise<Created> => {
    const { text: key } = await keyring.registry.create({ name, tenant: name }, 'e2b');
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
