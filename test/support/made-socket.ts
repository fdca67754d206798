// A control-socket server whose responses a test defines.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { Test } from 'tap';

/** Serves a Unix socket at a path with the test's handler. */
export async function serve(t: Test, path: string, onConnect: (socket: Socket) => unknown): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnect(socket);
  }).listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
}
