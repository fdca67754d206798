// A guest that speaks HTTP/2 frame by frame, also where a server would not.
import type { Socket } from 'node:net';
import type { Test } from 'tap';
import { serveRaw } from './ingress-host.ts';

export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, goaway: 7 } as const;
export const END_STREAM = 1;
export const END_HEADERS = 4;
const ACK = 1;
const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;

export function toFrame(type: number, flags: number, stream: number, payload: Buffer | string = ''): Buffer {
  const bytes = Buffer.from(payload);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(bytes.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, bytes]);
}

/** A block of headers without compression; names and values are shorter than 127 bytes. */
export function toBlock(headers: Readonly<Record<string, string>>): Buffer {
  const fields = Object.entries(headers).flatMap(([name, value]) => [
    Buffer.of(0, name.length),
    Buffer.from(name),
    Buffer.of(value.length),
    Buffer.from(value, 'latin1'),
  ]);
  return Buffer.concat(fields);
}

/** Resolves with its port; `answer` is called with the number of each stream. */
export async function serveFrames(
  t: Test,
  answer: (stream: number, socket: Socket) => void,
): Promise<number> {
  return await serveRaw(t, (socket) => {
    socket.write(toFrame(FRAME.settings, 0, 0));
    let rest = Buffer.alloc(0);
    let isBegun = false;
    socket.on('end', () => socket.end());
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      if (!isBegun && rest.length < PREFACE_BYTES) return;
      if (!isBegun) rest = rest.subarray(PREFACE_BYTES);
      isBegun = true;
      while (rest.length >= HEAD_BYTES && rest.length >= HEAD_BYTES + rest.readUIntBE(0, 3)) {
        const [type, flags, stream] = [rest[3], rest[4] ?? 0, rest.readUInt32BE(5)];
        rest = rest.subarray(HEAD_BYTES + rest.readUIntBE(0, 3));
        if (type === FRAME.settings && (flags & ACK) === 0) socket.write(toFrame(FRAME.settings, ACK, 0));
        if (type === FRAME.headers) answer(stream, socket);
      }
    });
  });
}
