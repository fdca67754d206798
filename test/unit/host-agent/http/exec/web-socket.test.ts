// The time that a WebSocket has for its first message, and no other.
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import type { ExecEvents } from '../../../../../host-agent/src/guest/exec-types.ts';
import { ExecRun } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { serveWebSocket } from '../../../../../host-agent/src/http/exec/web-socket.ts';

const FIRST_MESSAGE_MS = 200;

async function serve(t: Test): Promise<{ readonly url: string; readonly commands: ExecEvents[] }> {
  const commands: ExecEvents[] = [];
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket, { socket: connection }) =>
    serveWebSocket(socket, {
      startRun: () =>
        new ExecRun({
          start: (events) => {
            commands.push(events);
            queueMicrotask(() => events.started?.(1));
            return {
              consumed: () => {},
              write: () => true,
              closeStdin: () => {},
              signal: () => {},
              resize: () => {},
              cancel: () => {},
            };
          },
        }),
      log: pino({ level: 'silent' }),
      connection: connection as Socket,
      firstMessageMs: FIRST_MESSAGE_MS,
    }),
  );
  await once(server, 'listening');
  t.teardown(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, commands };
}

t.test('a client that says nothing is told so', async (t) => {
  const { url, commands } = await serve(t);
  const [code, reason] = await once(new WebSocket(url), 'close');
  t.equal(code, 1008);
  t.match(String(reason), /^no exec request came/);
  t.same(commands, []);
});

t.test('a command may run for longer', async (t) => {
  const { url, commands } = await serve(t);
  const client = new WebSocket(url);
  await once(client, 'open');
  const closed = once(client, 'close');
  client.send('{"cmd":["x"]}');
  await sleep(2 * FIRST_MESSAGE_MS);
  t.equal(client.readyState, WebSocket.OPEN);
  commands[0]?.exit({ exitCode: 0, durationMs: 1 });
  t.equal((await closed)[0], 1000);
});
