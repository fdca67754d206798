// Somebody at a control socket who says what a test likes.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { Test } from 'tap';

/** A server at a path that says what it likes. */
export async function serve(t: Test, path: string, onConnect: (socket: Socket) => void): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnect(socket);
  }).listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
}
