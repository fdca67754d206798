import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { coalesceChunks } from '../../../../../host-agent/src/http/server/coalesce-chunks.ts';

/** The request as a server sees it whose client sends these bytes behind a head; the connection stays open. */
async function receive(t: Test, body: string, gather: boolean): Promise<IncomingMessage> {
  const server = createServer();
  const asked = once(server, 'request');
  if (gather) server.prependListener('request', coalesceChunks);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.teardown(() => {
    client.destroy();
    server.close();
  });
  client.on('error', () => undefined);
  client.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
  const [request] = (await asked) as [IncomingMessage];
  return request;
}

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const LETTERS = Array.from({ length: 30_000 }, (_, at) => String.fromCharCode(97 + (at % 26)));

/** Nobody reads until no more comes; then how many pieces there are of how many bytes. */
async function waiting(request: IncomingMessage): Promise<{ pieces: number; bytes: number }> {
  for (let before = -1; before !== request.readableLength; await sleep(200)) before = request.readableLength;
  const { buffer } = Reflect.get(request, '_readableState') as { buffer: unknown[] };
  return { pieces: buffer.length, bytes: request.readableLength };
}

t.test('a body in chunks of a byte waits in few pieces', async (t) => {
  const body = LETTERS.map(chunk).join('');
  const plain = await waiting(await receive(t, body, false));
  t.ok(plain.pieces >= 10_000, `${plain.pieces} pieces, or this test could not fail`);
  const request = await receive(t, body, true);
  const { pieces, bytes } = await waiting(request);
  t.ok(bytes >= 10_000 && pieces <= 100, `${pieces} pieces of ${bytes} bytes`);
});

t.test('all of it comes, in order, and its end behind it', async (t) => {
  const mixed = LETTERS.map((letter, at) => (at % 1000 === 999 ? letter.repeat(300) : letter));
  const request = await receive(t, `${mixed.map(chunk).join('')}0\r\n\r\n`, true);
  let text = '';
  for await (const piece of request) text += String(piece);
  t.equal(text, mixed.join(''));
});

t.test('a single byte does not wait for others, and a client that leaves is told of', async (t) => {
  const request = await receive(t, chunk('x'), true);
  const [piece] = (await once(request, 'data')) as [Buffer];
  t.equal(String(piece), 'x');
  const failed = once(request, 'error');
  request.socket.destroy();
  t.match(await failed, [{ code: 'ECONNRESET' }]);
});

/** A request of which only its buffer matters: what it got, and what is said of its room. */
function buffered() {
  const pushed: (string | null)[] = [];
  const request = {
    push: (piece: Buffer | null) => {
      pushed.push(piece === null ? null : String(piece));
      return 'whatever it says';
    },
    destroyed: false,
    readableLength: 0,
    readableHighWaterMark: 65_536,
  };
  coalesceChunks(request as unknown as IncomingMessage);
  const push = (piece: string | null): unknown => request.push(piece === null ? null : Buffer.from(piece));
  return { request, pushed, push };
}
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test(
  'only small ones are gathered, till a large one, the end, a full block or the next turn',
  async (t) => {
    const { pushed, push } = buffered();
    push('a');
    push('b'.repeat(255));
    t.same(pushed, []);
    t.equal(push('c'.repeat(256)), 'whatever it says');
    t.same(pushed.splice(0), [`a${'b'.repeat(255)}`, 'c'.repeat(256)]);
    push('d');
    await turn();
    t.same(pushed.splice(0), ['d']);
    push('e');
    t.equal(push(null), 'whatever it says');
    await turn();
    t.same(pushed.splice(0), ['e', null], 'and nothing of no bytes');
    const other = buffered();
    for (let count = 0; count < 65; count++) other.push(String.fromCharCode(65 + (count % 26)).repeat(255));
    t.equal(other.pushed.length, 1);
    await turn();
    t.same(
      other.pushed.map((text) => text?.length),
      [64 * 255, 255],
    );
    t.match(other.pushed[0], /^A{255}B{255}/, 'what was given away stays as it is');
  },
);

t.test('what was given away stays as it is, and a request that is gone gets nothing', async (t) => {
  const views: Buffer[] = [];
  const request = { push: (piece: Buffer) => views.push(piece), destroyed: false, readableLength: 0 };
  Object.assign(request, { readableHighWaterMark: 65_536 });
  coalesceChunks(request as unknown as IncomingMessage);
  for (const text of ['first', 'second']) {
    request.push(Buffer.from(text));
    await turn();
  }
  t.same(views.map(String), ['first', 'second']);
  request.push(Buffer.from('late'));
  request.destroyed = true;
  await turn();
  t.equal(views.length, 2);
});

t.test('a client waits after 64 pieces of a turn, or when there is no room', async (t) => {
  const { request, push } = buffered();
  const answers = Array.from({ length: 65 }, () => push('x'));
  t.same([answers[0], answers[62], answers[63], answers[64]], [true, true, false, false]);
  await turn();
  t.equal(push('x'), true);
  request.readableLength = 65_536 - 3;
  t.equal(push('x'), true);
  t.equal(push('x'), false, 'what is gathered counts');
});
