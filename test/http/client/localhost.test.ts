// The library by the name of this host itself.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@sandboxd/client';
import t from 'tap';

t.test('localhost is both loopback addresses, whatever the files of the host say', async (t) => {
  for (const address of ['127.0.0.1', '::1']) {
    const server = createServer((_incoming, outgoing) => outgoing.end('{"sandboxes":[]}'));
    await new Promise<void>((resolve) => server.listen(0, address, resolve));
    t.teardown(() => server.close());
    const { port } = server.address() as AddressInfo;
    const client = new Client({ host: `http://localhost:${port}` });
    t.same(await client.sandboxes.list(), []);
  }
  const error = await new Client({ host: 'http://localhost:1', retries: 0 }).sandboxes
    .list()
    .catch((reason: unknown) => reason);
  t.match(error, {
    message: /^cannot reach the daemon at http:\/\/localhost:1: .*ECONNREFUSED/,
    isUnsent: true,
  });
});
