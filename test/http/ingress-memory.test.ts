// Memory of the ingress while visitors do not read what guests send.
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { until } from '../support/until.ts';
import { serveIngress, serveRaw } from './ingress-host.ts';

const READERS = 4;
/** Far above what coalesced chunks take, and a small part of what an object for each chunk takes. */
const MAX_MIB = 24;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function measureMib(): number {
  collectGarbage();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return (heapUsed + external + arrayBuffers) / 2 ** 20;
}

for (const [what, more] of [
  ['an answer', ''],
  ['a refusal of an upgrade', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'],
] as const)
  t.test(`${what} in chunks of one byte takes little memory while the visitor reads nothing`, async (t) => {
    const served = await serveIngress(t);
    let sentBytes = 0;
    const chunks = Buffer.from('1\r\nx\r\n'.repeat(10_000));
    const guest = await serveRaw(t, (socket) => {
      const send = (): void => {
        do sentBytes += chunks.length;
        while (socket.write(chunks));
      };
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        socket.on('drain', send);
        send();
      });
    });
    const sandbox = served.add(guest, 'public');
    const beforeMib = measureMib();
    for (let at = 0; at < READERS; at++) {
      const client = connect({ port: served.port, host: '127.0.0.1' }).on('error', () => undefined);
      t.teardown(() => client.destroy());
      client.pause().write(`GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\n${more}\r\n`);
    }
    await until(() => sandbox.streams.size === READERS && sentBytes > 0);
    for (let before = -1; before !== sentBytes; await sleep(500)) before = sentBytes;
    const tookMib = measureMib() - beforeMib;
    t.comment(`${tookMib.toFixed(1)} MiB, ${sentBytes} bytes sent`);
    t.ok(tookMib < MAX_MIB, `${tookMib.toFixed(1)} MiB`);
  });

t.test('uploads of one HTTP/2 connection that a guest does not read have a bound', async (t) => {
  const served = await serveIngress(t);
  const client = connectHttp2(`http://127.0.0.1:${served.port}`);
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  await new Promise((resolve) => client.once('remoteSettings', resolve));
  const { maxConcurrentStreams = 0, initialWindowSize = 0 } = client.remoteSettings;
  const mayBytes = maxConcurrentStreams * initialWindowSize;
  t.ok(mayBytes <= 8 * 2 ** 20, `${mayBytes} bytes in ${maxConcurrentStreams} streams`);
});
