// Guests that answer gRPC with what no server would send.
import { type ClientHttp2Session, connect } from 'node:http2';
import t, { type Test } from 'tap';
import type { FakeSandbox, Served } from './ingress-host.ts';
import { serveIngress } from './ingress-host.ts';
import { END_HEADERS, END_STREAM, FRAME, serveFrames, toBlock, toFrame } from './raw-http2.ts';

type Answer = { readonly status: number | undefined; readonly code: number | undefined };

function connectTo(t: Test, { port }: Served): ClientHttp2Session {
  const client = connect(`http://127.0.0.1:${port}`);
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  return client;
}

function call(
  client: ClientHttp2Session,
  served: Served,
  sandbox: FakeSandbox,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const stream = client.request({
    ':method': 'POST',
    ':path': '/call',
    ':authority': served.hostOf(sandbox),
    'content-type': 'application/grpc',
    ...headers,
  });
  let status: number | undefined;
  stream.on('response', (given) => {
    status = given[':status'];
  });
  stream.on('error', () => undefined);
  stream.resume().end();
  return new Promise((resolve) => stream.on('close', () => resolve({ status, code: stream.rstCode })));
}

t.test('an answer that cannot be passed on is 502, and ends no more than its request', async (t) => {
  const served = await serveIngress(t, { idleMs: 2000 });
  let frames: (stream: number) => readonly Buffer[] = () => [];
  const port = await serveFrames(t, (stream, socket) => void socket.write(Buffer.concat(frames(stream))));
  const sandbox = served.add(port, 'public');
  const client = connectTo(t, served);
  const head = (stream: number, flags: number, headers: Record<string, string>): Buffer =>
    toFrame(FRAME.headers, END_HEADERS | flags, stream, toBlock(headers));
  for (const status of ['600', '999', '000', '099'])
    for (const flags of [0, END_STREAM]) {
      frames = (stream) => [head(stream, flags, { ':status': status })];
      t.match(await call(client, served, sandbox), { status: 502, code: 0 }, `${status}, flags ${flags}`);
    }
  const data = (stream: number): Buffer => toFrame(FRAME.data, END_STREAM, stream, 'data');
  const odd: Record<string, (stream: number) => readonly Buffer[]> = {
    'a body behind 204': (stream) => [head(stream, 0, { ':status': '204' }), data(stream)],
    'a body behind 304': (stream) => [head(stream, 0, { ':status': '304' }), data(stream)],
    'a length that is wrong': (stream) => [
      head(stream, 0, { ':status': '200', 'content-length': '5' }),
      data(stream),
    ],
    'names of the prototype': (stream) => [
      head(stream, 0, { ':status': '200', __proto__x: 'y', constructor: 'z', 'x y': 'z' }),
      data(stream),
    ],
    'a reset with the largest code': (stream) => [
      head(stream, 0, { ':status': '200' }),
      toFrame(FRAME.reset, 0, stream, Buffer.alloc(4, 0xff)),
    ],
    'a reset before the answer': (stream) => [toFrame(FRAME.reset, 0, stream, Buffer.alloc(4, 0xff))],
    'trailers of every kind': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(stream, END_STREAM, { te: 'x', etag: '\xff', 'grpc-status': '0', 'set-cookie': 'a=b', date: 'x' }),
    ],
    'trailers that are too large': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(
        stream,
        END_STREAM,
        Object.fromEntries(Array.from({ length: 110 }, (_, at) => [`x${at}`, 'v'.repeat(120)])),
      ),
    ],
    'pseudo headers as trailers': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(stream, END_STREAM, { ':status': '200' }),
    ],
    'the connection is lost': () => [toFrame(FRAME.goaway, 0, 0, Buffer.alloc(8, 0xff))],
  };
  for (const [what, given] of Object.entries(odd)) {
    frames = given;
    const answer = await call(client, served, sandbox);
    t.ok(answer.status !== 500 && answer.status !== undefined, `${what}: ${JSON.stringify(answer)}`);
  }
  frames = (stream) => [head(stream, 0, { ':status': '200' }), data(stream)];
  for (const method of ['HEAD', 'GET', 'POST']) {
    const { status } = await call(client, served, sandbox, { ':method': method }).catch(() => ({
      status: 0,
    }));
    t.not(status, 500, method);
  }
  t.match(await call(client, served, sandbox), { status: 200, code: 0 });
  t.notOk(served.lines.some(({ msg }) => msg === 'ingress request failed'));
});
