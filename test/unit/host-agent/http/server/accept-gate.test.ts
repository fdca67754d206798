// Clients that connect, before anybody hears of them: who waits for its name, and who for the handshake of TLS.
import { EventEmitter } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import type { ClientName } from '../../../../../host-agent/src/http/server/accept-gate.ts';
import { AcceptGate } from '../../../../../host-agent/src/http/server/accept-gate.ts';
import { Connections, Handshakes } from '../../../../../host-agent/src/http/server/connections.ts';
import { settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';
import { until } from '../../../../support/until.ts';

const UNREAD_MS = 1000;

const gone = (sockets: readonly FakeSocket[]): boolean[] => sockets.map(({ destroyed }) => destroyed);

/** A server of which only the event matters, and who hears of its clients. */
function guarded(
  connections: Connections,
  nameClients?: (sockets: readonly Socket[]) => Promise<readonly ClientName[]>,
) {
  const warnings: object[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line)) });
  const server = new EventEmitter();
  const heard: [string, Socket][] = [];
  for (const name of ['first', 'second'])
    server.on('connection', (socket: Socket) => heard.push([name, socket]));
  const arrivals = new AcceptGate(connections, nameClients, log);
  arrivals.guard(server as Server, 'connection');
  const arrive = (count = 1): FakeSocket[] => {
    const sockets = Array.from({ length: count }, () => new FakeSocket());
    for (const socket of sockets) server.emit('connection', socket);
    return sockets;
  };
  return { arrivals, arrive, heard, warnings };
}

t.test('every listener gets each admitted client, and no other', async (t) => {
  const connections = new Connections(2, 2, UNREAD_MS);
  const { arrive, heard } = guarded(connections);
  const [first, second] = arrive(2) as [FakeSocket, FakeSocket];
  t.same(
    heard.map(([name]) => name),
    ['first', 'second', 'first', 'second'],
  );
  t.same(
    heard.map(([, socket]) => socket === first),
    [true, true, false, false],
  );
  for (const socket of [first, second])
    connections.track({ socket } as unknown as IncomingMessage, new EventEmitter() as ServerResponse);
  arrive();
  t.equal(heard.length, 4);
});

t.test('with shares, no client is admitted before its identity is known', async (t) => {
  const connections = new Connections(8, 3, UNREAD_MS);
  const asked: { sockets: readonly Socket[]; answer: (names: readonly ClientName[]) => void }[] = [];
  const { arrive, heard } = guarded(
    connections,
    (sockets) => new Promise((answer) => asked.push({ sockets, answer })),
  );
  const early = arrive(3);
  t.equal(heard.length, 6, 'three of one client are its share');
  t.equal(asked.length, 0);
  const late = arrive();
  const later = arrive(2);
  t.equal(asked.length, 1, 'one question at a time');
  t.same(asked[0]?.sockets, [...early, ...late]);
  t.equal(heard.length, 6);
  asked[0]?.answer(['a', 'b', 'c', 'd']);
  await until(() => asked.length === 2, 'the next question');
  t.equal(heard.length, 8);
  t.same(asked[1]?.sockets, later, 'who is known is not asked after again');
  const left = later[0]!;
  left.destroy();
  asked[1]?.answer(['a', undefined]);
  await until(() => later[1]!.destroyed, 'the end of one that nobody holds');
  t.equal(heard.length, 8);
  await settle();
  const last = arrive();
  await until(() => asked.length === 3, 'a question for the last');
  t.same(asked[2]?.sockets, last);
  asked[2]?.answer(['a']);
  await until(() => heard.length === 10, 'the last');
  t.equal(heard.at(-1)?.[1], last[0]);
});

t.test('without the identity of users, an address is a client, which is logged once', async (t) => {
  const connections = new Connections(8, 1, UNREAD_MS);
  const { arrive, heard, warnings } = guarded(connections, () => Promise.reject(new Error('no netlink')));
  const [first] = arrive() as [FakeSocket];
  await until(() => heard.length === 2, 'the first client');
  const [second] = arrive() as [FakeSocket];
  await until(() => heard.length === 4, 'the second client');
  t.ok(first.destroyed, 'of the same address');
  t.notOk(second.destroyed);
  arrive();
  await until(() => heard.length === 6, 'the third client');
  t.equal(warnings.length, 1);
  t.match(warnings, [{ err: { message: 'no netlink' }, msg: /cannot identify the users/ }]);
});

t.test('only so many are held, and a stop or an error ends them', async (t) => {
  const connections = new Connections(8, 1, UNREAD_MS);
  const { arrive, arrivals, heard } = guarded(connections, () => new Promise(() => undefined));
  const [admitted] = arrive();
  const held = arrive(1026);
  t.same(gone(held.slice(1022)), [false, false, true, true]);
  held[0]?.destroy(new Error('reset'));
  await settle();
  t.same(gone(arrive(2)), [false, true], 'who left has left room');
  arrivals.close();
  t.ok(held.every(({ destroyed }) => destroyed));
  t.same([admitted?.destroyed, heard.length], [false, 2]);
});

t.test('the oldest connection within its handshake is closed first', async (t) => {
  const handshakes = new Handshakes(2);
  const from = (remotePort: number) =>
    new FakeSocket({ remotePort, localPort: 1, remoteAddress: '127.0.0.2' });
  const [first, second, third] = [from(1), from(2), from(3)];
  for (const socket of [first, second]) handshakes.begin(socket);
  t.equal(handshakes.count, 2);
  t.same(gone([first, second]), [false, false]);
  // What TLS makes of a socket has its addresses.
  handshakes.end(from(2));
  t.equal(handshakes.count, 1);
  handshakes.begin(third);
  t.same(gone([first, second, third]), [false, false, false]);
  const again = from(1);
  handshakes.begin(again);
  t.ok(first.destroyed);
  await settle();
  t.equal(handshakes.count, 2, 'the end of the first is not that of the one that came after it');
  third.destroy(new Error('reset'));
  await settle();
  t.equal(handshakes.count, 1);
  handshakes.close();
  t.same(gone([second, again]), [false, true]);
});
