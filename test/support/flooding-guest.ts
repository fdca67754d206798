// A compromised guest agent at the other side of a real socket: it answers hello and ping correctly, and sends the
// output of each command in frames of one byte for as long as it has credit. usage: node flooding-guest.ts SOCKET
import { createServer } from 'node:net';
import { FrameCodec, type FrameInput } from '@sandboxd/proto';
import { DEFAULT_WINDOW_BYTES, FRAME_CREDIT_BYTES } from '../../proto/src/limits.ts';
import { FrameDecoder } from '../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../proto/src/wire/sync-mark.ts';

const FRAMES = 1000;
const COST = FRAMES * (1 + FRAME_CREDIT_BYTES);

createServer((socket) => {
  socket.on('error', () => undefined);
  const say = (frame: FrameInput): void => {
    for (const bytes of encodeFrame(frame)) socket.write(bytes);
  };
  const credits = new Map<number, number>();
  const flood = (stream: number, credit: number): void => {
    let left = (credits.get(stream) ?? 0) + credit;
    const one = Buffer.concat(encodeFrame({ stream, flow: 1, data: Buffer.of(120) }));
    const many = Buffer.concat(Array.from({ length: FRAMES }, () => one));
    for (; left >= COST; left -= COST) socket.write(many);
    credits.set(stream, left);
  };
  const decoder = new FrameDecoder('skip', (encoded) => {
    const { stream, hello, ping, request, credit } = FrameCodec.decode(Buffer.from(encoded));
    if (hello) {
      socket.write(syncMark(hello.nonce ?? Buffer.alloc(0)));
      const own = { version: 1, window: 65_536, agentVersion: '1', bootId: 'b', capabilities: [] };
      say({ helloReply: { ...own, nonce: hello.nonce ?? null } });
    } else if (ping) say({ pong: { payload: ping.payload ?? null } });
    else if (request?.exec) flood(stream, DEFAULT_WINDOW_BYTES);
    else if (credit) flood(stream, credit);
  });
  socket.on('data', (bytes: Buffer) => decoder.push(bytes));
}).listen(process.argv[2], () => process.send?.('listening'));
