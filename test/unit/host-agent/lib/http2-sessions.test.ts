// An HTTP/2 session that ends before it has got the first bytes of its connection.
import { once } from 'node:events';
import { performServerHandshake } from 'node:http2';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { guardFirstBytes } from '../../../../host-agent/src/lib/http2-sessions.ts';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

t.test('nothing is thrown, and the session closes', async (t) => {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.teardown(() => {
    client.destroy();
    server.close();
  });
  client.on('error', () => undefined);
  client.write(PREFACE);
  const [socket] = (await accepted) as [Socket];
  socket.on('error', () => undefined);
  socket.unshift(Buffer.from(PREFACE));
  const session = performServerHandshake(socket);
  guardFirstBytes(session, socket);
  const closed = once(session, 'close');
  session.destroy();
  await closed;
  await setImmediate();
  t.equal(session.destroyed, true);
});
