// A hijacked request behind one whose answer is still sent: the answer goes on, and ends with its client.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { until } from '../support/until.ts';
import { RawClient, serve } from './support.ts';

const MIB = 2 ** 20;
const BYTES = 64 * MIB;

async function setUp(t: Parameters<typeof serve>[0], pulls = 1) {
  const served = await serve(t);
  const { id } = served.sandboxes.add();
  let cancelled = 0;
  served.sandboxes.onPull = async () => {
    let left = BYTES;
    const next = async () => {
      if (left === 0) return undefined;
      left -= MIB;
      return { bytes: Buffer.alloc(MIB, 'x'), release: () => undefined };
    };
    const cancel = (): void => void cancelled++;
    return { contentBytes: BYTES, body: { next, cancel } };
  };
  const client = new RawClient(t, served.port);
  client.socket.pause();
  client.write(
    `GET /sandboxes/${id}/files?path=/x HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(pulls) +
      `POST /sandboxes/${id}/ports/1/connect HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`,
  );
  await sleep(300);
  return { ...served, client, cancelled: () => cancelled };
}

t.test(
  'an answer that waits for its client goes on when it reads, and the next request follows',
  async (t) => {
    const { client } = await setUp(t);
    let bytes = 0;
    let last = '';
    client.socket.removeAllListeners('data');
    client.socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      last = (last + chunk.toString('latin1')).slice(-2000);
    });
    client.socket.resume();
    await until(() => bytes > BYTES && /x+HTTP\/1.1 \d+ /.test(last), 'all of both answers', 20_000);
    t.pass('all of both answers');
  },
);

t.test('a client that leaves ends all answers that wait for it', async (t) => {
  const { client, server, cancelled } = await setUp(t, 3);
  client.socket.resetAndDestroy();
  await until(() => server.connectionCount === 0 && cancelled() >= 3, 'the end of the answers');
  t.equal(server.connectionCount, 0);
});
