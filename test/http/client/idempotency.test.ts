// The library's calls with an idempotency key.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@sandboxd/client';
import t from 'tap';
import { serve } from '../support.ts';

t.test('a create with a key is sent again after a lost answer and a 503; one without is not', async (t) => {
  const keys: unknown[] = [];
  const server = createServer((incoming, outgoing) => {
    keys.push(incoming.headers['idempotency-key']);
    if (keys.length === 1) incoming.socket.destroy();
    else if (keys.length === 2) outgoing.writeHead(503).end('{"error":"x","code":"exhausted"}');
    else outgoing.writeHead(201).end('{"id":"sbx_1"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const client = new Client({ host: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  t.equal((await client.sandboxes.create({ idempotencyKey: 'k' })).id, 'sbx_1');
  t.same(keys, ['k', 'k', 'k']);
  keys.length = 0;
  await t.rejects(client.sandboxes.create(), /may or may not have been carried out/);
  t.same(keys, [undefined]);
});

t.test('the same key gives the same sandbox, another call with it a MismatchError', async (t) => {
  const { url, sandboxes } = await serve(t);
  const client = new Client({ host: url });
  const create = (options = {}) => client.sandboxes.create({ idempotencyKey: 'k', ...options });
  const sandbox = await create();
  t.equal((await create()).id, sandbox.id);
  t.equal(sandboxes.created.length, 1);
  await t.rejects(create({ vcpus: 2 }), { name: 'MismatchError', code: 'idempotency_mismatch' });
  const snapshot = await sandbox.snapshot({ idempotencyKey: 's' });
  t.equal((await sandbox.snapshot({ idempotencyKey: 's' })).id, snapshot.id);
  const fork = async () => (await snapshot.fork({ count: 2, idempotencyKey: 'f' })).map(({ id }) => id);
  t.same(await fork(), await fork());
  t.equal((await client.sandboxes.list()).length, 3);
});
