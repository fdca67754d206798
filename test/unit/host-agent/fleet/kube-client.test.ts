// Idle connections that the API server ends when the next request is on its way.
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t from 'tap';
import { KubeClient } from '../../../../host-agent/src/fleet/index.ts';

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}';

t.test('a request on a connection that was idle goes again on a new one', async (t) => {
  let connections = 0;
  const isAnswered = { next: true };
  const server = createServer((socket: Socket) => {
    connections++;
    let requests = 0;
    socket.on('error', () => undefined);
    socket.on('data', () => {
      if (++requests === 1 && isAnswered.next) socket.write(ANSWER);
      else socket.resetAndDestroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const client = new KubeClient({ server: new URL(`http://127.0.0.1:${port}`) } as never);
  t.teardown(() => client.close());
  const create = () => client.request({ method: 'POST', path: '/api/v1/namespaces/x/pods', body: {} });
  t.same(await Promise.all([create(), create(), create()]), [{}, {}, {}]);
  t.equal(connections, 3);
  for (let n = 0; n < 3; n++) t.same(await create(), {});
  t.ok(connections > 3, 'all that were idle are reset');
  isAnswered.next = false;
  await t.rejects(
    create(),
    { code: 'upstream', message: /ECONNRESET/ },
    'new ones that are reset are no such',
  );
});
