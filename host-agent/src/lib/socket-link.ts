// A ByteLink over a socket.
import { connect, type Socket } from 'node:net';
import type { ByteLink, LinkEvents } from '@sandboxd/proto';
import { holdSocket } from './untrusted-path.ts';
import { raceSignal } from './wait.ts';

/** Shared read buffer of all links: bytes are processed synchronously before the next read. */
const scratch = Buffer.allocUnsafeSlow(256 * 1024);

export class SocketLink implements ByteLink {
  readonly #socket: Socket;
  #events: LinkEvents | undefined;
  #cause: Error | undefined;
  /** Bytes that arrived before `start`. */
  #early: Buffer[] = [];
  #onEarly: () => void = () => {};

  /** Takes over a connected socket, which allocates its own read buffers. connectLink is the faster variant. */
  constructor(socket: Socket) {
    this.#socket = socket;
    // An error before start() must not be thrown as unhandled; `close` follows it.
    socket.on('error', (cause) => {
      this.#cause ??= cause;
    });
    socket.on('close', () => this.#onEarly());
  }

  get isOver(): boolean {
    return this.#socket.destroyed;
  }

  start(events: LinkEvents): void {
    this.#events = events;
    this.#socket.on('data', (chunk: Buffer) => this.receive(chunk));
    this.#socket.on('drain', () => events.drain());
    this.#socket.on('close', () => this.#closed());
    for (const chunk of this.#early.splice(0)) events.data(chunk);
    if (this.#socket.closed || this.#socket.destroyed) queueMicrotask(() => this.#closed());
  }

  /** For connectLink: `chunk` is part of the shared buffer. */
  receive(chunk: Buffer): void {
    if (this.#events === undefined) {
      this.#early.push(Buffer.from(chunk));
      this.#onEarly();
    } else this.#events.data(chunk);
  }

  /**
   * For links of connectLink before `start`: consumes and returns the first line, without its line end. Undefined if
   * the link closed without one, or the line is longer than `maxBytes`.
   */
  async takeLine(maxBytes: number, signal: AbortSignal): Promise<string | undefined> {
    for (;;) {
      const bytes = Buffer.concat(this.#early);
      const end = bytes.indexOf('\n');
      if (end > maxBytes || (end < 0 && bytes.length > maxBytes)) return undefined;
      if (end >= 0) {
        this.#early = end + 1 < bytes.length ? [bytes.subarray(end + 1)] : [];
        return bytes.toString('latin1', 0, end);
      }
      if (this.#socket.destroyed) return undefined;
      const arrived = new Promise<void>((resolve) => {
        this.#onEarly = resolve;
      });
      await raceSignal(arrived, signal);
    }
  }

  write(chunks: readonly Uint8Array[]): boolean {
    if (this.#socket.destroyed) return false;
    let isWritable = true;
    this.#socket.cork();
    for (const chunk of chunks) isWritable = this.#socket.write(chunk);
    this.#socket.uncork();
    return isWritable;
  }

  destroy(cause?: Error): void {
    this.#cause ??= cause;
    this.#socket.destroy();
  }

  #closed(): void {
    const events = this.#events;
    this.#events = undefined;
    events?.close(this.#cause);
  }
}

/**
 * Connects to the Unix socket at exactly this path, and does not follow symbolic links. Rejects with the system error
 * or the signal's reason.
 */
export async function connectUnix(path: string, signal?: AbortSignal): Promise<Socket> {
  using held = holdSocket(path);
  return await connected(() => connect({ path: held.path }), path, signal);
}

/** Like connectUnix, but returns a link that reads into the buffer shared by all links. */
export async function connectLink(path: string, signal?: AbortSignal): Promise<SocketLink> {
  using held = holdSocket(path);
  let link: SocketLink | undefined;
  const open = (): Socket => {
    const socket = connect({
      path: held.path,
      onread: {
        buffer: scratch,
        callback: (size, buffer) => {
          link?.receive((buffer as Buffer).subarray(0, size));
          return true;
        },
      },
    });
    link = new SocketLink(socket);
    return socket;
  };
  const socket = await connected(open, path, signal);
  return link ?? new SocketLink(socket);
}

function connected(open: () => Socket, path: string, signal?: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const socket = open();
    const onAbort = (): void =>
      void socket.destroy(signal?.reason instanceof Error ? signal.reason : undefined);
    const onError = (cause: Error): void => {
      signal?.removeEventListener('abort', onAbort);
      reject(cause);
    };
    signal?.addEventListener('abort', onAbort);
    const onClose = (): void => onError(new Error(`the connection to ${path} was closed`));
    socket.once('error', onError);
    socket.once('close', onClose);
    socket.once('connect', () => {
      signal?.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
      socket.removeListener('close', onClose);
      resolve(socket);
    });
  });
}
