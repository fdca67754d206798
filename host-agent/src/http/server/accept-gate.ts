// Clients that connect: whether they are heard at all. While there are many nobody is before it is known who it is, so
// that none takes more than its share.
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type NameClients, nameByAddress } from './client-names.ts';
import type { Connections } from './connections.ts';

/** That are asked after at the same time; others find their connection closed. */
const MAX_HELD = 1024;
/** Between two questions, of which each is for all that came since the last. */
const PAUSE_MS = 10;

export class AcceptGate {
  readonly #connections: Connections;
  readonly #nameClients: NameClients | undefined;
  readonly #log: Logger;
  /** With what is to be done once it is known who they are. */
  readonly #held = new Map<Socket, () => void>();
  #isAsking = false;
  #hasFailed = false;

  /** Without `nameClients` there are no shares. */
  constructor(connections: Connections, nameClients: NameClients | undefined, log: Logger) {
    this.#connections = connections;
    this.#nameClients = nameClients;
    this.#log = log;
  }

  /** To be called when all who listen to that event do. They hear of a client when it is admitted. */
  guard(server: Server, connected: 'connection' | 'secureConnection'): void {
    const listeners = server.listeners(connected);
    server.removeAllListeners(connected);
    server.on(connected, (socket: Socket) =>
      this.#add(socket, () => {
        // One that is refused says nothing that anybody would do.
        if (!this.#connections.add(socket)) return;
        for (const listener of listeners) listener.call(server, socket);
      }),
    );
  }

  close(): void {
    for (const socket of this.#held.keys()) socket.destroy();
  }

  #add(socket: Socket, admit: () => void): void {
    if (this.#nameClients === undefined || !this.#connections.mayExceedShare(this.#held.size)) {
      admit();
      return;
    }
    socket.on('error', () => undefined);
    if (this.#held.size >= MAX_HELD) {
      socket.destroy();
      return;
    }
    this.#held.set(socket, admit);
    socket.once('close', () => this.#held.delete(socket));
    if (!this.#isAsking) void this.#askAll(this.#nameClients);
  }

  async #askAll(nameClients: NameClients): Promise<void> {
    this.#isAsking = true;
    while (this.#held.size > 0) {
      await this.#ask(nameClients);
      if (this.#held.size > 0) await sleep(PAUSE_MS);
    }
    this.#isAsking = false;
  }

  async #ask(nameClients: NameClients): Promise<void> {
    const sockets = [...this.#connections.unnamed(), ...this.#held.keys()];
    const names = await nameClients(sockets).catch((err: unknown) => {
      if (!this.#hasFailed)
        this.#log.warn({ err }, 'cannot tell users of this host apart: each address is one client');
      this.#hasFailed = true;
      return sockets.map(nameByAddress);
    });
    for (const [at, socket] of sockets.entries()) {
      const [name, admit] = [names[at], this.#held.get(socket)];
      this.#held.delete(socket);
      if (name === undefined) socket.destroy();
      else if (!socket.destroyed) {
        this.#connections.name(socket, name);
        admit?.();
      }
    }
  }
}
