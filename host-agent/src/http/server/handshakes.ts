// Clients that are connected, and not yet through the handshake of TLS: they have asked for nothing, and count apart.
import type { Socket } from 'node:net';

export class Handshakes {
  readonly #max: number;
  /** By the client's end, which the socket that TLS makes of it has, too; oldest first. */
  readonly #open = new Map<string, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  get count(): number {
    return this.#open.size;
  }

  /** The oldest makes room for a new one. */
  begin(socket: Socket): void {
    // Until TLS has it nobody else hears of its errors.
    socket.on('error', () => undefined);
    const [oldest] = this.#open.values();
    if (this.#open.size >= this.#max) oldest?.destroy();
    const from = toKey(socket);
    this.#open.set(from, socket);
    socket.once('close', () => {
      if (this.#open.get(from) === socket) this.#open.delete(from);
    });
  }

  /** Ends them all: who leaves within the handshake is noticed late. */
  close(): void {
    for (const socket of this.#open.values()) socket.destroy();
  }

  end(socket: Socket): void {
    this.#open.delete(toKey(socket));
  }
}

function toKey({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return [remoteAddress, remotePort, localAddress, localPort].join(' ');
}
