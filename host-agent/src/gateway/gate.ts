// Connections to the process that dials (native/egressd-gate.h): it hands over those of the guest that must be read,
// and dials servers for them.
import { connect, type Socket } from 'node:net';

/** A connection of the guest, as that process judged it. */
export type Handed = {
  readonly id: string;
  readonly kind: 'tls' | 'http';
  readonly name: string;
  readonly port: number;
  /** The guest offers HTTP/2. */
  readonly hasH2: boolean;
};

/** Why a server was not dialled, in a word of native/egressd.c. */
export class DialError extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`the server was not dialled: ${reason}`);
    this.reason = reason;
  }
}

/** As many may come at once without waiting for the next to open. */
const SPARE = 16;
const MAX_LINE = 512;
const REASON = /^no ([a-z-]{1,32})$/;

export class Gate {
  readonly #path: string;
  readonly #onGuest: (handed: Handed, socket: Socket) => void;
  readonly #onEnded: () => void;
  isOpen = false;

  /** `onEnded`: the process has ended. */
  constructor(path: string, onGuest: (handed: Handed, socket: Socket) => void, onEnded: () => void) {
    this.#path = path;
    this.#onGuest = onGuest;
    this.#onEnded = onEnded;
  }

  open(): void {
    this.isOpen = true;
    for (let count = 0; count < SPARE; count++) this.#wait();
  }

  /** Rejects with a DialError. */
  async dial(id: string): Promise<Socket> {
    const socket = connect(this.#path);
    socket.write(`dial ${id}\n`);
    const { line, rest } = await readLine(socket).catch(() => ({ line: 'no gone', rest: 0 }));
    // A server of HTTP does not speak before it is asked.
    if (line === 'ok' && rest === 0) return socket.resume();
    socket.destroy();
    throw new DialError(line === 'ok' ? 'spoke' : (REASON.exec(line)?.[1] ?? 'gone'));
  }

  #wait(): void {
    const socket = connect(this.#path);
    socket.write('wait\n');
    readLine(socket).then(
      ({ line }) => {
        this.#wait();
        const handed = parseHanded(line);
        if (handed === undefined) socket.destroy();
        else this.#onGuest(handed, socket);
      },
      () => this.#onEnded(),
    );
  }
}

/** What follows the line stays in the socket, which is paused. */
function readLine(socket: Socket): Promise<{ readonly line: string; readonly rest: number }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ line: string; rest: number }>();
  let bytes = Buffer.alloc(0);
  const onData = (data: Buffer): void => {
    bytes = Buffer.concat([bytes, data]);
    const end = bytes.indexOf('\n');
    if (end < 0 && bytes.length < MAX_LINE) return;
    stop();
    socket.pause();
    const rest = bytes.subarray(end + 1);
    if (rest.length > 0) socket.unshift(rest);
    if (end < 0) reject(new Error('no line'));
    else resolve({ line: bytes.toString('latin1', 0, end), rest: rest.length });
  };
  const onEnd = (): void => {
    stop();
    socket.destroy();
    reject(new Error('the connection ended'));
  };
  const stop = (): void => {
    socket.off('data', onData);
    socket.off('end', onEnd);
    socket.off('close', onEnd);
  };
  // The protocol that takes the socket has listeners of its own besides.
  socket.on('error', () => socket.destroy());
  socket.on('data', onData);
  socket.once('end', onEnd);
  socket.once('close', onEnd);
  return promise;
}

function parseHanded(line: string): Handed | undefined {
  const [, id, kind, name, port, alpn] =
    /^(\d{1,20}) (tls|http) ([a-z0-9._-]{1,253}) (\d{1,5}) (h2|-)$/.exec(line) ?? [];
  if (id === undefined || name === undefined || (kind !== 'tls' && kind !== 'http')) return undefined;
  return { id, kind, name, port: Number(port), hasH2: alpn === 'h2' };
}
