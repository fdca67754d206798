// Connections of a guest that end while their server is dialled.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { Duplex } from 'node:stream';
import t from 'tap';
import { ReadConnection } from '../../../../host-agent/src/gateway/read-connection.ts';

t.test('a server gets no byte for a connection that has ended meanwhile', async (t) => {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.teardown(() => void listener.close());
  const { port } = listener.address() as { port: number };
  const [dialled, accepted] = [connect(port, '127.0.0.1'), once(listener, 'connection')];
  const [server] = await accepted;
  const bytes: Buffer[] = [];
  server.on('data', (data: Buffer) => bytes.push(data));
  const ended = once(server, 'end');

  const { promise, resolve } = Promise.withResolvers<typeof dialled>();
  const guest = new Duplex({ read: () => undefined });
  const connection = new ReadConnection(
    { id: '1', kind: 'tls', name: 'ok.test', port: 443, hasH2: false },
    guest,
    { dial: () => promise } as never,
    {} as never,
    () => undefined,
  );
  const refused = t.rejects(connection.connect(['http/1.1']), /the connection has ended/);
  connection.destroy();
  resolve(dialled);
  await refused;
  await ended;
  t.equal(Buffer.concat(bytes).length, 0);
});
