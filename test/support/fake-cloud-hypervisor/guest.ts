// The guest of a fake VMM: an agent that answers, and a memory that can be saved and copied.
import { appendFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { type ByteLink, GuestConnection, type LinkEvents, type Request, type Stream } from '@sandboxd/proto';

/** The guest's whole state, which is stored in memory files. */
export type GuestMemory = {
  readonly bootId: string;
  hostname: string;
  /** How often its clock was set. */
  clockSteps: number;
  /** For a probe guest: its counter. */
  count?: number;
};

/** The guest's side of a connection, here over a Unix socket. */
class Link implements ByteLink {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  start(events: LinkEvents): void {
    this.#socket.on('data', (chunk: Buffer) => events.data(chunk));
    this.#socket.on('drain', () => events.drain());
    this.#socket.on('close', () => events.close());
  }

  write(chunks: readonly Uint8Array[]): boolean {
    let isWritable = true;
    for (const chunk of chunks) isWritable = this.#socket.write(Buffer.from(chunk));
    return isWritable;
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** The guest's effects on its machine. */
type GuestMachine = {
  readonly powerOff: () => void;
  /** Why its disks have no root; undefined when they do. */
  readonly takeDisks: () => string | undefined;
};

export class FakeGuest {
  readonly memory: GuestMemory;
  readonly #connection: GuestConnection;
  readonly #machine: GuestMachine;
  #isPaused = false;
  readonly #pausable = new Set<Socket>();

  constructor(memory: GuestMemory, machine: GuestMachine) {
    this.memory = memory;
    this.#machine = machine;
    this.#connection = new GuestConnection({
      describe: () => ({
        agentVersion: '0.1.0',
        bootId: memory.bootId,
        agentStartUs: 1,
        agentReadyUs: 2,
        capabilities: [],
      }),
      onRequest: (stream, request) => this.#answer(stream, request),
    });
  }

  accept(socket: Socket): void {
    this.#pausable.add(socket);
    socket.on('close', () => this.#pausable.delete(socket));
    this.#connection.attach(new Link(socket));
    if (!this.#isPaused) socket.resume();
  }

  /** Data written to the guest waits in the sockets. */
  pause(): void {
    this.#isPaused = true;
    for (const socket of this.#pausable) socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const socket of this.#pausable) socket.resume();
  }

  end(): void {
    for (const socket of this.#pausable) socket.destroy();
  }

  #answer(stream: Stream, request: Request): void {
    if (request.identity) {
      const failure = request.identity.entersRoot ? this.#machine.takeDisks() : undefined;
      if (failure !== undefined) {
        stream.finish({ error: { code: 'not_found', message: `cannot enter the root: ${failure}` } });
        return;
      }
      this.memory.hostname = request.identity.hostname ?? '';
      stream.finish({ identity: {} });
    } else if (request.setClock) {
      this.memory.clockSteps += 1;
      stream.finish({ setClock: {} });
    } else if (request.growDisk) {
      stream.finish({ growDisk: { sizeBytes: 1 } });
    } else if (request.exec) {
      if (request.exec.cmd?.[0] === 'poweroff') this.#machine.powerOff();
      stream.finish({ exec: { exitCode: 0, durationUs: 1 } } as never);
    } else {
      stream.finish({ error: { code: 'unsupported', message: 'a fake guest' } });
    }
  }
}

export function printConsole(path: string, text: string): void {
  appendFileSync(path, text);
}
