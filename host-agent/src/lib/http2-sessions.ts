// A fault of Node's module http2.
import type { Http2Session } from 'node:http2';
import type { Duplex } from 'node:stream';

/**
 * To be called right after a session was made on a connection that may have bytes already. Node gives these to the
 * session in the next tick even if it has ended since, and then throws what no caller can catch.
 */
export function guardFirstBytes(session: Http2Session, connection: Duplex): void {
  const read = connection.read.bind(connection);
  connection.read = (size) => (session.destroyed ? null : read(size));
  process.nextTick(() => Reflect.deleteProperty(connection, 'read'));
}
