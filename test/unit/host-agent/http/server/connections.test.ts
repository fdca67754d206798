// Who of many clients may be connected, in which order they make room, and what each of them is told.
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import t from 'tap';
import { Connections, SlowReaders } from '../../../../../host-agent/src/http/server/connections.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';
import { until } from '../../../../support/until.ts';

const UNREAD_MS = 1000;

/** So many that are connected, all of one client where it has a name. */
function connect(connections: Connections, count: number, name?: string): FakeSocket[] {
  return Array.from({ length: count }, () => {
    const socket = new FakeSocket();
    if (name !== undefined) connections.name(socket, name);
    if (!connections.add(socket)) throw new Error('there is no room for it');
    return socket;
  });
}

/** It asks for something; the function answers that. */
function ask(connections: Connections, socket: Socket): () => void {
  const response = new EventEmitter();
  if (!connections.track({ socket } as IncomingMessage, response as ServerResponse))
    throw new Error('it may not ask');
  return () => response.emit('close');
}

const gone = (sockets: readonly FakeSocket[]): boolean[] => sockets.map(({ destroyed }) => destroyed);

t.test(
  'the connection that has waited longest is closed first, and none with a request in progress',
  async (t) => {
    const connections = new Connections(3, 3, UNREAD_MS);
    const sockets = connect(connections, 3);
    const [first, second, third] = sockets as [FakeSocket, FakeSocket, FakeSocket];
    t.equal(connections.count, 3);
    const answers = [ask(connections, first), ask(connections, first)];
    t.equal(connections.count, 3, 'each is one, whatever it asks');
    const [fourth] = connect(connections, 1) as [FakeSocket];
    t.same(gone(sockets), [false, true, false]);
    t.equal(connections.count, 3);
    answers[0]?.();
    connect(connections, 1);
    t.same(gone(sockets), [false, true, true], 'one of its two answers has not ended');
    answers[1]?.();
    const [sixth] = connect(connections, 1) as [FakeSocket];
    t.same(
      [first, fourth, sixth].map(({ destroyed }) => destroyed),
      [false, true, false],
    );
    connect(connections, 1);
    connect(connections, 1);
    t.ok(first.destroyed, 'from its answer on it waits like any other');
    t.equal(connections.count, 3);
    second.emit('close');
    third.emit('close');
    t.equal(connections.count, 3, 'whose room was taken counts no more');
  },
);

t.test('a closed connection frees its place, in any order of events', async (t) => {
  const connections = new Connections(4, 4, UNREAD_MS);
  const [waiting, asking, taken] = connect(connections, 3) as [FakeSocket, FakeSocket, FakeSocket];
  const answered = ask(connections, asking);
  ask(connections, taken);
  connections.hijacked(taken);
  connections.hijacked(taken);
  t.equal(connections.count, 3);
  asking.destroy();
  answered();
  t.equal(connections.count, 2, 'it waits for nothing any more');
  t.throws(() => ask(connections, asking));
  for (const socket of [waiting, taken]) socket.destroy();
  await until(() => connections.count === 0, 'no connection');
});

t.test('a hijacked connection stays, whatever other responses end', async (t) => {
  const connections = new Connections(1, 1, UNREAD_MS);
  const [socket] = connect(connections, 1) as [FakeSocket];
  const answered = ask(connections, socket);
  connections.hijacked(socket);
  answered();
  t.notOk(connections.add(new FakeSocket()));
  t.notOk(socket.destroyed);
  const early = new Connections(2, 2, UNREAD_MS);
  const [taken] = connect(early, 1) as [FakeSocket];
  early.hijacked(taken);
  t.equal(early.count, 1, 'it waits no more');
});

t.test('with no connection to close a client gets 503, at most 32 at once', async (t) => {
  const connections = new Connections(1, 1, UNREAD_MS);
  const [socket] = connect(connections, 1) as [FakeSocket];
  ask(connections, socket);
  const refused = Array.from({ length: 34 }, () => new FakeSocket());
  for (const each of refused) t.notOk(connections.add(each));
  await settle();
  t.same(
    [32, 33].map((at) => refused[at]?.said),
    ['', ''],
  );
  t.same(gone(refused.slice(30)), [false, false, true, true]);
  for (const { said } of refused.slice(0, 32))
    t.match(said, /^HTTP\/1.1 503 .*Retry-After: 5\r\n.*"1 clients are connected, which is all/s);
  t.equal(connections.count, 1);
  refused[0]?.destroy();
  await settle();
  const next = [new FakeSocket(), new FakeSocket()];
  for (const each of next) connections.add(each);
  await settle();
  t.same(gone(next), [false, true], 'there is room for one to be told');
  for (const each of [...refused, socket]) each.destroy();
});

t.test('an error of a connection without listeners ends only that connection', async (t) => {
  const connections = new Connections(1, 1, UNREAD_MS);
  const [socket] = connect(connections, 1) as [FakeSocket];
  ask(connections, socket);
  const refused = new FakeSocket();
  connections.add(refused);
  for (const each of [socket, refused]) each.destroy(new Error('reset'));
  await settle();
  t.equal(connections.count, 0);
});

t.test('more requests behind each other than are answered close the connection', async (t) => {
  const connections = new Connections(2, 2, UNREAD_MS);
  const [socket] = connect(connections, 1) as [FakeSocket];
  for (let count = 0; count < MAX_PIPELINED_REQUESTS; count++) ask(connections, socket);
  t.notOk(socket.destroyed);
  t.throws(() => ask(connections, socket));
  t.ok(socket.destroyed);
});

t.test('a client at its share replaces its own connections', async (t) => {
  const connections = new Connections(5, 2, UNREAD_MS);
  t.notOk(connections.mayExceedShare(1));
  t.ok(connections.mayExceedShare(2));
  t.ok(new Connections(1, 2, UNREAD_MS).mayExceedShare(1), 'no share is more than there is');
  const [unnamed] = connect(connections, 1) as [FakeSocket];
  const greedy = connect(connections, 2, 'greedy');
  const [other] = connect(connections, 1, 'other') as [FakeSocket];
  t.ok(connections.mayExceedShare(0));
  ask(connections, other);
  const answered = ask(connections, unnamed);
  t.same(connections.unidentified(), [unnamed], 'whatever it is at');
  answered();
  t.same(connections.unidentified(), [unnamed]);
  const [third] = connect(connections, 1, 'greedy') as [FakeSocket];
  t.same(gone([unnamed, ...greedy, other]), [false, true, false, false]);
  for (const socket of [greedy[1]!, third]) ask(connections, socket);
  const fourth = new FakeSocket();
  connections.name(fourth, 'greedy');
  t.notOk(connections.add(fourth));
  await settle();
  t.match(fourth.said, /"this client has 2 connections, which is all that one client may have; close some/);
  t.notOk(unnamed.destroyed, 'which waits, but is another');
  third.destroy();
  await settle();
  t.same(connect(connections, 1, 'greedy')[0]?.destroyed, false, 'there is room in its share');
});

t.test('clients without a known identity have no share', async (t) => {
  const connections = new Connections(4, 1, UNREAD_MS);
  const named = connect(connections, 1, 'a');
  const sockets = connect(connections, 3);
  t.same(gone([...named, ...sockets]), [false, false, false, false]);
});

t.test('with all connections in use, the waiting client with the most gives up its first', async (t) => {
  const connections = new Connections(6, 6, UNREAD_MS);
  const [alone] = connect(connections, 1, 'alone') as [FakeSocket];
  const many = connect(connections, 3, 'many');
  const few = connect(connections, 2, 'few');
  ask(connections, many[0]!);
  connect(connections, 1, 'new');
  t.same(gone([alone, ...many, ...few]), [false, false, true, false, false, false], 'requests count, too');
  connect(connections, 1, 'new');
  t.same(gone([alone, ...many, ...few]), [false, false, true, true, false, false]);
});

t.test(
  'a client that has not read its response for long is disconnected when connections are short',
  async (t) => {
    const timers = new FakeClock(t);
    const connections = new Connections(4, 2, UNREAD_MS);
    const slow = connect(connections, 1, 'slow');
    const slower = connect(connections, 1, 'slower');
    const reading = connect(connections, 1, 'reading');
    const silent = connect(connections, 1, 'silent');
    for (const socket of [...slow, ...slower, ...reading, ...silent]) ask(connections, socket);
    const refuses = (name: string): boolean => {
      const socket = new FakeSocket();
      connections.name(socket, name);
      if (!connections.add(socket)) return true;
      ask(connections, socket);
      return false;
    };
    for (const socket of [...slow, ...slower]) socket.isStuck = true;
    slower[0]?.write('answer');
    t.ok(refuses('new'));
    await timers.pass(200);
    slow[0]?.write('answer');
    t.ok(refuses('new'));
    await timers.pass(799);
    t.ok(refuses('new'), 'it may yet read');
    await timers.pass(101);
    reading[0]?.write('answer');
    t.notOk(refuses('new'));
    t.equal(connections.count, 4);
    t.same(
      gone([...slow, ...slower, ...reading, ...silent]),
      [false, true, false, false],
      'not the next one',
    );
    await timers.pass(1000);
    t.notOk(refuses('new'));
    t.same(gone([...slow, ...reading, ...silent]), [true, false, false]);
    timers.restore();
  },
);

t.test('a client at its share loses only its own slow connections', async (t) => {
  const timers = new FakeClock(t);
  const connections = new Connections(4, 1, UNREAD_MS);
  const stuck = ['a', 'b'].map((name) => connect(connections, 1, name)[0]!);
  for (const socket of stuck) {
    ask(connections, socket);
    socket.isStuck = true;
    socket.write('answer');
  }
  const again = () => {
    const socket = new FakeSocket();
    connections.name(socket, 'b');
    return connections.add(socket);
  };
  t.notOk(again());
  await timers.pass(UNREAD_MS);
  t.ok(again());
  t.same(gone(stuck), [false, true]);
  timers.restore();
});

t.test('what clients have read is looked at now and then', async (t) => {
  const timers = new FakeClock(t);
  const sockets = [new FakeSocket(), new FakeSocket()] as const;
  for (const socket of sockets) {
    socket.isStuck = true;
    socket.write('x');
  }
  const quick = new SlowReaders(50);
  t.equal(quick.find(sockets), undefined);
  await timers.pass(50);
  t.equal(quick.find(sockets), sockets[0], 'of two the first');
  const unread = new SlowReaders(100);
  let looks = 0;
  const watched = {
    *[Symbol.iterator]() {
      looks += 1;
      yield* sockets;
    },
  };
  unread.find(watched);
  await timers.pass(99);
  t.equal(unread.find(watched), undefined);
  t.equal(looks, 1, 'not for each client that wants to connect');
  await timers.pass(1);
  t.equal(unread.find(watched), sockets[0]);
  t.equal(looks, 2);
  sockets[0].tookBefore += 1;
  await timers.pass(100);
  t.equal(unread.find(watched), sockets[1], 'the first has read something');
  timers.restore();
});
