// A ByteLink over a connected socket.
import { connect, type Socket } from 'node:net';
import type { ByteLink, LinkEvents } from '@sandboxd/proto';

export class SocketLink implements ByteLink {
  readonly isCopying = false;
  readonly #socket: Socket;
  #events: LinkEvents | undefined;
  #cause: Error | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    // An error before start() must not be thrown as unhandled; close follows it.
    socket.on('error', (cause) => {
      this.#cause ??= cause;
    });
  }

  start(events: LinkEvents): void {
    this.#events = events;
    this.#socket.on('data', (chunk: Buffer) => events.data(chunk));
    this.#socket.on('drain', () => events.drain());
    this.#socket.on('close', () => this.#closed());
    if (this.#socket.closed || this.#socket.destroyed) queueMicrotask(() => this.#closed());
  }

  write(chunks: readonly Uint8Array[]): boolean {
    if (this.#socket.destroyed) return false;
    let isRoom = true;
    this.#socket.cork();
    for (const chunk of chunks) isRoom = this.#socket.write(chunk);
    this.#socket.uncork();
    return isRoom;
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

/** Connects to a Unix socket; rejects with the system error, or the signal's reason. */
export function connectUnix(path: string, signal?: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const socket = connect({ path });
    const onAbort = (): void =>
      void socket.destroy(signal?.reason instanceof Error ? signal.reason : undefined);
    const onError = (cause: Error): void => {
      signal?.removeEventListener('abort', onAbort);
      reject(cause);
    };
    signal?.addEventListener('abort', onAbort);
    socket.once('error', onError);
    socket.once('close', () => onError(new Error(`the connection to ${path} was closed`)));
    socket.once('connect', () => {
      signal?.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
      socket.removeAllListeners('close');
      resolve(socket);
    });
  });
}
