// A template that a client of E2B builds in a real guest, at another host of the same bucket, after its builder is gone.
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Json } from '../http/e2b-front.ts';
import { type DaemonOptions, makeDirectories, removeDirectories, startDaemon } from '../support/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, storeFlags } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function startHost(
  t: Test,
  storeFlags: readonly string[],
  options: Pick<DaemonOptions, 'directories'> = {},
) {
  const port = await freePort();
  const daemon = await startDaemon(t, {
    ...options,
    flags: [...storeFlags, '--e2b-listen', `127.0.0.1:${port}`],
  });
  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { 'x-api-key': `e2b_${'0'.repeat(48)}` },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, json: (text === '' ? undefined : JSON.parse(text)) as Json };
  };
  return { daemon, ask };
}

t.test('it has what was built, and the program that ran', async (t) => {
  const { url } = await startS3(t);
  const flags = storeFlags(makeStoreSettings(t, url));
  // Of a host that is gone: it hears nothing of the delete.
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const builder = await startHost(t, flags, { directories });
  const { json: made } = await builder.ask('POST', '/v3/templates', { name: 'built:v1' });
  const path = `/templates/${made.templateID}/builds/${made.buildID}`;
  const request = {
    fromTemplate: 'base',
    steps: [
      { type: 'ENV', args: ['COLOUR', 'red'] },
      { type: 'RUN', args: ['echo $COLOUR > /srv/colour', 'root'] },
    ],
    startCmd: 'echo started > /dev/shm/memory; exec sleep 1000',
    readyCmd: '[ -f /dev/shm/memory ]',
  };
  t.equal((await builder.ask('POST', `/v2${path}`, request)).status, 202);
  let status: Json;
  do {
    await sleep(100);
    status = (await builder.ask('GET', `${path}/status`)).json;
  } while (!['ready', 'error'].includes(status.status));
  t.match(status, { status: 'ready' }, JSON.stringify(status.reason));
  t.equal(await builder.daemon.end(), 0);

  const { daemon, ask } = await startHost(t, flags);
  const create = { templateID: 'built:v1', timeout: 300, allow_internet_access: false };
  const created = await ask('POST', '/v2/sandboxes', create);
  t.equal(created.status, 201, JSON.stringify(created.json));
  const id = created.json.sandboxID;
  // Clients of E2B see it without the underscore.
  const own = String(id).replace(/^sbx/, 'sbx_');
  t.equal(await daemon.api.sh(own, 'cat /srv/colour /dev/shm/memory; pgrep -c sleep'), 'red\nstarted\n1');
  t.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204);
  t.equal((await ask('DELETE', `/templates/${made.templateID}`)).status, 204);
  t.same((await ask('GET', '/templates')).json, []);
});
