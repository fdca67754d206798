// Throughput of the agent protocol: frames through a host and a guest channel, connected in memory.
// `node test/bench/proto.ts`
import { Channel, FLOW, type Stream } from '@sandboxd/proto';
import { FrameDecoder } from '../../proto/src/wire/frame-decoder.ts';
import { memoryLinks } from '../support/memory-link.ts';

const SECONDS = 1;
const WINDOW_BYTES = 512 * 1024;

async function measure(payloadBytes: number): Promise<void> {
  const links = memoryLinks(1024 * 1024);
  const payload = Buffer.alloc(payloadBytes, 'x');
  const channels = {
    host: new Channel({
      role: 'host',
      link: links.host,
      sendWindow: WINDOW_BYTES,
      receiveWindow: WINDOW_BYTES,
    }),
    guest: new Channel({
      role: 'guest',
      link: links.guest,
      sendWindow: WINDOW_BYTES,
      receiveWindow: WINDOW_BYTES,
      onRequest(stream) {
        stream.setSource(FLOW.out, (maxBytes) => payload.subarray(0, maxBytes));
        stream.ready(FLOW.out);
      },
    }),
  };
  for (const side of ['host', 'guest'] as const) {
    const decoder = new FrameDecoder('skip', (encoded) => channels[side].receive(encoded));
    links[side].start({
      data: (chunk) => decoder.push(chunk),
      drain: () => channels[side].drained(),
      close: () => undefined,
    });
  }
  let frames = 0;
  let bytes = 0;
  const stream: Stream = channels.host.open(
    { stats: {} },
    {
      data(_flow, chunk) {
        frames += 1;
        bytes += chunk.length;
        stream.consumed(chunk.length);
      },
    },
  );
  const startedAt = performance.now();
  while (performance.now() - startedAt < SECONDS * 1000) {
    links.host.deliver(1024 * 1024);
    links.guest.deliver(1024 * 1024);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `${String(payloadBytes).padStart(6)} bytes a frame: ${Math.round(frames / seconds)} frames/s, ${(bytes / seconds / 2 ** 20).toFixed(0)} MiB/s`,
  );
  channels.host.abandon({ kind: 'lost', cause: new Error('done') });
  channels.guest.abandon({ kind: 'superseded' });
}

for (const payloadBytes of [65_536, 4096, 100, 1]) await measure(payloadBytes);
