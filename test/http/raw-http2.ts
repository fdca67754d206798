// A guest that speaks HTTP/2 frame by frame, also where a server would not.
import type { Socket } from 'node:net';
import type { Test } from 'tap';
import { serveRaw } from './ingress-host.ts';

export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, goaway: 7, windowUpdate: 8 } as const;
export const END_STREAM = 1;
export const END_HEADERS = 4;
const ACK = 1;
const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;
const INITIAL_WINDOW_SIZE = 4;
const DEFAULT_WINDOW_BYTES = 65_535;

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

/** How many bytes may be sent on each stream; 0 is the connection. */
export class Windows {
  readonly #bytes = new Map([[0, DEFAULT_WINDOW_BYTES]]);
  #initialBytes = DEFAULT_WINDOW_BYTES;

  read(type: number, stream: number, payload: Buffer): void {
    if (type === FRAME.windowUpdate) this.#add(stream, payload.readUInt32BE(0));
    if (type !== FRAME.settings) return;
    for (let at = 0; at < payload.length; at += 6)
      if (payload.readUInt16BE(at) === INITIAL_WINDOW_SIZE) this.#initialBytes = payload.readUInt32BE(at + 2);
  }

  /** Of these, how many may be sent now. */
  take(stream: number, bytes: number): number {
    const taken = Math.max(0, Math.min(bytes, this.#of(stream), this.#of(0)));
    this.#add(stream, -taken);
    this.#add(0, -taken);
    return taken;
  }

  #of(stream: number): number {
    return this.#bytes.get(stream) ?? this.#initialBytes;
  }

  #add(stream: number, bytes: number): void {
    this.#bytes.set(stream, this.#of(stream) + bytes);
  }
}

/** Resolves with its port; `answer` is called with the number of each stream. */
export async function serveFrames(
  t: Test,
  answer: (stream: number, socket: Socket, windows: Windows) => void,
): Promise<number> {
  return await serveRaw(t, (socket) => {
    const windows = new Windows();
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
        const end = HEAD_BYTES + rest.readUIntBE(0, 3);
        windows.read(type ?? 0, stream, rest.subarray(HEAD_BYTES, end));
        rest = rest.subarray(end);
        if (type === FRAME.settings && (flags & ACK) === 0) socket.write(toFrame(FRAME.settings, ACK, 0));
        if (type === FRAME.headers) answer(stream, socket, windows);
      }
    });
  });
}
