// Handshakes of the gateway with clients of a guest, over loopback.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import t from 'tap';
import { Handshakes } from '../../../../host-agent/src/gateway/handshakes.ts';
import { Leaves, makeAuthority } from '../../../../host-agent/src/network/authority/index.ts';

const authority = await makeAuthority('test');
const leaves = new Leaves(authority);
const contextFor = async (name: string) =>
  createSecureContext({ ...(await leaves.get(name)), minVersion: 'TLSv1.2' });
const HTTP1 = ['http/1.1'] as const;
const BOTH = ['http/1.1', 'h2'] as const;

type Options = {
  readonly name: string;
  readonly alpn?: string[];
  readonly session?: Buffer;
  readonly maxVersion?: 'TLSv1.2';
};

async function open(t: Tap): Promise<{ handshakes: Handshakes; pair: () => Promise<[Socket, Socket]> }> {
  const arrived: ((socket: Socket) => void)[] = [];
  const server = createServer({ pauseOnConnect: false }, (socket) => arrived.shift()?.(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as { port: number };
  // One after another, so that both ends belong together.
  const pair = async (): Promise<[Socket, Socket]> => {
    const { promise, resolve } = Promise.withResolvers<Socket>();
    arrived.push(resolve);
    const client = connect(port, '127.0.0.1');
    client.on('error', () => undefined);
    const ours = await promise;
    ours.on('error', () => undefined);
    sockets.push(client, ours);
    return [client, ours];
  };
  return { handshakes: new Handshakes(), pair };
}
type Tap = { teardown: (end: () => void) => void };

async function greet(socket: Socket, { name, alpn = ['http/1.1'], ...rest }: Options): Promise<TLSSocket> {
  const client = connectTls({
    socket,
    servername: name,
    ca: authority.certificate,
    ALPNProtocols: alpn,
    ...rest,
  });
  await once(client, 'secureConnect');
  client.on('error', () => undefined);
  return client;
}

t.test('handshakes at the same time get each its own certificate and protocol', async (t) => {
  const { handshakes, pair } = await open(t);
  const names = Array.from({ length: 40 }, (_, at) => `h${at}.test`);
  // More than are kept, and a second time with those that are.
  for (let round = 0; round < 2; round++) {
    const ends = [];
    for (const name of names) ends.push({ name, ends: await pair() });
    const found = await Promise.all(
      ends.map(async ({ name, ends: [client, ours] }, at) => {
        const protocols = at % 2 === 0 ? HTTP1 : (['h2'] as const);
        const shaken = handshakes.shake(ours, { secureContext: await contextFor(name), protocols });
        const [stream, peer] = await Promise.all([shaken, greet(client, { name, alpn: [...BOTH] })]);
        return [stream.servername, peer.getPeerCertificate().subjectaltname, peer.alpnProtocol];
      }),
    );
    t.same(
      found,
      names.map((name, at) => [name, `DNS:${name}`, at % 2 === 0 ? 'http/1.1' : 'h2']),
    );
  }
});

t.test('nothing of one connection is good for another', async (t) => {
  const { handshakes, pair } = await open(t);
  const secureContext = await contextFor('ok.test');
  for (const maxVersion of [undefined, 'TLSv1.2'] as const) {
    let session: Buffer | undefined;
    for (let round = 0; round < 3; round++) {
      const [client, ours] = await pair();
      const shaken = handshakes.shake(ours, { secureContext, protocols: HTTP1 });
      const options = { name: 'ok.test', ...(maxVersion && { maxVersion }), ...(session && { session }) };
      const peer = await greet(client, options);
      peer.on('session', (next: Buffer) => {
        session = next;
      });
      const stream = await shaken;
      t.equal(peer.isSessionReused(), false, `${maxVersion}, round ${round}`);
      // TLS 1.3 says it behind the handshake.
      stream.write('x');
      await once(peer, 'data');
      session ??= peer.getSession();
    }
    t.ok(session, 'control: the client has a session to offer');
  }
});

t.test('an open connection of TLS 1.2 does not renegotiate', async (t) => {
  const { handshakes, pair } = await open(t);
  const [client, ours] = await pair();
  const shaken = handshakes.shake(ours, { secureContext: await contextFor('ok.test'), protocols: HTTP1 });
  const peer = await greet(client, { name: 'ok.test', maxVersion: 'TLSv1.2' });
  await shaken;
  const { promise, resolve } = Promise.withResolvers<Error | null>();
  peer.renegotiate({}, resolve);
  peer.once('error', resolve);
  peer.once('close', () => resolve(new Error('closed')));
  t.ok(await promise);
});

t.test('one that fails does not disturb those after it', async (t) => {
  const { handshakes, pair } = await open(t);
  const secureContext = await contextFor('ok.test');
  const shake = (socket: Socket) => handshakes.shake(socket, { secureContext, protocols: HTTP1 });
  const good = async () => {
    const [client, ours] = await pair();
    const [stream] = await Promise.all([shake(ours), greet(client, { name: 'ok.test' })]);
    return stream.servername;
  };
  t.equal(await good(), 'ok.test');
  const ways: ((client: Socket) => void)[] = [
    (client) => client.end('no TLS at all, and long enough for a record\r\n\r\n'),
    (client) => client.destroy(),
    (client) => connectTls({ socket: client, servername: 'ok.test' }).on('error', () => undefined),
    (client) =>
      connectTls({
        socket: client,
        servername: 'ok.test',
        ca: authority.certificate,
        ALPNProtocols: ['h2'],
      }).on('error', () => undefined),
  ];
  for (const way of ways) {
    const [client, ours] = await pair();
    const failed = t.rejects(shake(ours));
    way(client);
    // Beside it, one that does not fail.
    t.equal(await good(), 'ok.test');
    await failed;
    t.equal(ours.destroyed, true);
    t.equal(await good(), 'ok.test');
  }
});

t.test('a connection that has ended before its handshake is refused at once', async (t) => {
  const { handshakes, pair } = await open(t);
  const secureContext = await contextFor('ok.test');
  const [, ours] = await pair();
  ours.destroy();
  await once(ours, 'close');
  // By its reason, as it would be refused in the end.
  await t.rejects(handshakes.shake(ours, { secureContext, protocols: HTTP1 }), /it ended the TLS handshake/);
});
