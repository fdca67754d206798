// Connections to ports through an agent in this process, to servers of this machine.
import '../../guest-agent/support/addon-dir.ts';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { FLOW, PORT_WINDOW_BYTES, type Stream } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { GuestPorts, type PortConnection } from '../../../../host-agent/src/guest/port-stream.ts';
import { settle } from '../../../support/memory-link.ts';
import { until } from '../../../support/until.ts';
import { type LocalAgent, leaveAndComeBack, startLocalAgent } from '../../guest-agent/support/local-agent.ts';
import { openDescriptors } from '../../guest-agent/support/open-descriptors.ts';
import { channelPair } from '../../proto/support/channel-pair.ts';

const MIB = 2 ** 20;

async function serve(t: Test, onConnect: (socket: Socket) => void, host = '127.0.0.1'): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    onConnect(socket);
  });
  server.listen(0, host);
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function start(t: Test): Promise<{ agent: LocalAgent; ports: GuestPorts }> {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const announced = Object.assign(Object.create(channel), {
    can: () => true,
    open: channel.open.bind(channel),
  }) as typeof channel;
  const ports = new GuestPorts(() => ({ channel: announced }));
  return { agent, ports };
}

/** Unlike node:stream/consumers, leaves the other direction open. */
async function readAll(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(stream, 'end');
  return Buffer.concat(chunks);
}

/** Resolves once `count` stays the same for a while. */
async function settled(count: () => number): Promise<void> {
  for (let before = -1; count() !== before; await sleep(100)) before = count();
}

const codeOf = async (connection: PortConnection): Promise<string> => {
  const [error] = await once(connection, 'error');
  return (error as NodeJS.ErrnoException).code ?? String(error);
};

t.test('bytes both ways, at every address of the guest', async (t) => {
  const { agent, ports } = await start(t);
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  for (const host of ['127.0.0.1', '::1', '127.0.1.1', ...(own === undefined ? [] : [own])]) {
    const port = await serve(t, (socket) => socket.pipe(socket), host);
    const connection = await ports.connect(port);
    connection.end('hello');
    t.equal(String(await readAll(connection)), 'hello', host);
  }
  t.same(agent.faults, []);
});

t.test('32 MiB each way at once arrive whole', async (t) => {
  const { ports } = await start(t);
  const sent = randomBytes(32 * MIB);
  const port = await serve(t, (socket) => socket.pipe(socket));
  const connection = await ports.connect(port);
  const hash = createHash('sha256');
  await Promise.all([pipeline(Readable.from(slices(sent)), connection), pipeline(connection, hash)]);
  t.equal(hash.digest('hex'), createHash('sha256').update(sent).digest('hex'));
  t.same([connection.bytesRead, connection.bytesWritten], [sent.length, sent.length]);
});

function* slices(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 50_000) yield bytes.subarray(at, at + 50_000);
}

t.test('each direction ends by itself', async (t) => {
  const { ports } = await start(t);
  let received = '';
  const port = await serve(t, (socket) => {
    socket.end('first');
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.resume();
  });
  const connection = await ports.connect(port);
  t.equal(String(await readAll(connection)), 'first', 'the server ends first');
  connection.end('later');
  await until(() => received === 'later', 'the later bytes arrive');
  await until(() => connection.closed, 'the connection is closed');
  t.equal(connection.errored, null);

  const other = await serve(t, async (socket) => socket.end(`got ${await readAll(socket)}`));
  const second = await ports.connect(other);
  second.end('all');
  t.equal(String(await readAll(second)), 'got all', 'the client ends first');
});

t.test('a reset of the server comes after its bytes, and is no end', async (t) => {
  const { ports } = await start(t);
  const port = await serve(t, (socket) => {
    socket.write('before', () => setTimeout(() => socket.resetAndDestroy(), 50));
  });
  const connection = await ports.connect(port);
  let text = '';
  connection.on('data', (chunk) => {
    text += chunk;
  });
  connection.on('end', () => t.fail('a reset looks like an end'));
  t.equal(await codeOf(connection), 'ECONNRESET');
  t.equal(text, 'before');

  // Also when a write learns of it first.
  const writing = await ports.connect(port);
  const failed = codeOf(writing);
  const timer = setInterval(() => writing.write(Buffer.alloc(1000)), 5);
  writing.resume();
  t.equal(await failed, 'ECONNRESET');
  clearInterval(timer);
});

t.test('a reset after the end of the server ends the other direction', async (t) => {
  const { ports } = await start(t);
  const port = await serve(t, (socket) => {
    socket.end('bye');
    setTimeout(() => socket.resetAndDestroy(), 100);
  });
  const connection = await ports.connect(port);
  const failed = codeOf(connection);
  t.equal(String(await readAll(connection)), 'bye');
  t.equal(await failed, 'ECONNRESET');
});

t.test('a reset of the client is one for the server, a close is an end', async (t) => {
  const { ports } = await start(t);
  const ends: string[] = [];
  const port = await serve(t, (socket) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('end', () => ends.push(`end after ${text}`));
    socket.on('error', (error: NodeJS.ErrnoException) => ends.push(`${error.code} after ${text}`));
    socket.resume();
  });
  const write = async (): Promise<PortConnection> => {
    const connection = await ports.connect(port);
    connection.on('error', () => undefined);
    await new Promise((resolve) => connection.write('bytes', resolve));
    return connection;
  };
  (await write()).destroy();
  await until(() => ends.length === 1, 'the server sees it');
  (await write()).reset();
  await until(() => ends.length === 2, 'the server sees it');
  (await write()).destroy(new Error('the client failed'));
  await until(() => ends.length === 3, 'the server sees it');
  t.match(ends, ['end after bytes', /^ECONNRESET/, /^ECONNRESET/]);
});

t.test('a slow reader stops its own connection only, and little waits for it', async (t) => {
  const { ports } = await start(t);
  let sentBytes = 0;
  const port = await serve(t, (socket) => {
    const fill = (): void => {
      do sentBytes += 65_536;
      while (socket.write(Buffer.alloc(65_536)));
    };
    socket.on('drain', fill);
    fill();
  });
  const slow = await ports.connect(port);
  const echo = await serve(t, (socket) => socket.pipe(socket));
  await settled(() => sentBytes);
  t.ok(slow.bytesRead <= PORT_WINDOW_BYTES, `${slow.bytesRead} bytes wait on the host`);
  const other = await ports.connect(echo);
  other.end(randomBytes(MIB));
  t.equal((await readAll(other)).length, MIB);
  const before = sentBytes;
  slow.resume();
  await until(() => sentBytes > before + MIB, 'the slow one continues');
  slow.destroy();
});

t.test('a server that reads nothing stops its writer only', async (t) => {
  const { ports } = await start(t);
  const port = await serve(t, () => undefined);
  const connection = await ports.connect(port);
  const fill = (): void => {
    while (connection.write(Buffer.alloc(65_536)));
  };
  connection.on('drain', fill);
  fill();
  await settled(() => connection.bytesWritten);
  const echo = await serve(t, (socket) => socket.pipe(socket));
  const other = await ports.connect(echo);
  other.end('x');
  t.equal(String(await readAll(other)), 'x');
  connection.reset();
});

t.test('where nothing listens', async (t) => {
  const { ports } = await start(t);
  const { port, close } = await new Promise<{ port: number; close: () => Promise<unknown> }>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve({
        port: typeof address === 'object' && address !== null ? address.port : 0,
        close: () => new Promise((done) => server.close(done)),
      });
    });
  });
  await close();
  await t.rejects(ports.connect(port), {
    code: 'port_not_listening',
    message: `nothing listens on port ${port} of the sandbox`,
  });
});

t.test('a client that gives up while it connects', async (t) => {
  const { ports } = await start(t);
  const port = await serve(t, () => undefined);
  await t.rejects(ports.connect(port, { signal: AbortSignal.abort(new Error('left before')) }), {
    message: 'left before',
  });
  const leaving = new AbortController();
  const connecting = ports.connect(port, { signal: leaving.signal });
  leaving.abort(new Error('left'));
  await t.rejects(connecting, { message: 'left' });
  const connection = await ports.connect(port, { signal: new AbortController().signal });
  connection.destroy();
});

t.test('there are at most 256 connections at once', async (t) => {
  const { ports } = await start(t);
  const port = await serve(t, (socket) => socket.resume());
  const all = await Promise.all(Array.from({ length: 256 }, () => ports.connect(port)));
  await t.rejects(ports.connect(port), { code: 'exhausted' });
  await Promise.all(all.map((connection) => once(connection.destroy(), 'close')));
  (await ports.connect(port)).destroy();
});

t.test('a new host of the agent, or a copy of it: its servers see resets', async (t) => {
  const { agent, ports } = await start(t);
  const before = openDescriptors();
  let code: string | undefined;
  const port = await serve(t, (socket) => {
    socket.on('error', (error: NodeJS.ErrnoException) => {
      code = error.code;
    });
    socket.resume();
  });
  const connection = await ports.connect(port);
  const failed = codeOf(connection);
  await leaveAndComeBack(agent);
  t.match(await failed, 'guest_unreachable');
  await until(() => code === 'ECONNRESET', 'the server sees it');
  await until(() => openDescriptors() <= before + 3, 'nothing is left open');
});

t.test('a guest that breaks the rules of the stream', async (t) => {
  const attempt = async (act: (stream: Stream) => void) => {
    const pair = channelPair((stream) => {
      stream.narrow(PORT_WINDOW_BYTES);
      act(stream);
    });
    const channel = Object.assign(Object.create(pair.host), {
      can: () => true,
      open: pair.host.open.bind(pair.host),
    }) as typeof pair.host;
    const connecting = new GuestPorts(() => ({ channel })).connect(80);
    connecting.catch(() => undefined);
    await settle(pair.links).catch((error: unknown) =>
      pair.host.abandon({ kind: 'lost', cause: error as Error }),
    );
    return { connecting };
  };
  const send = (stream: Stream, flow: 1 | 2, text: string): void => {
    let rest: Buffer | null = Buffer.from(text);
    stream.setSource(flow, () => {
      const bytes = rest;
      rest = null;
      return bytes;
    });
    stream.ready(flow);
  };
  const early = await attempt((stream) => send(stream, FLOW.out, 'early'));
  await t.rejects(early.connecting, { code: 'guest_unreachable' }, 'bytes before the connection');
  const noStart = await attempt((stream) => stream.finish({ portConnect: {} }));
  await t.rejects(noStart.connecting, { code: 'guest_unreachable' }, 'an end without a beginning');
  const wrong = await attempt((stream) => stream.finish({ stats: {} }));
  await t.rejects(wrong.connecting, { code: 'guest_unreachable' }, 'the result of another call');
  const unfinished = await attempt((stream) => {
    stream.started(0);
    stream.finish({ portConnect: {} });
  });
  const connection = await unfinished.connecting;
  const failed = codeOf(connection);
  connection.resume();
  t.equal(await failed, 'ECONNRESET', 'an end while the client may still write');
});
