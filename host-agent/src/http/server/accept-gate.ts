// Admission control for new connections. Under load the gate identifies each client before it admits the connection, so
// that no client exceeds its share. A client is a user of this host, or an address (for IPv6 a /64 network) of another
// host.
import { fstatSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { runProgram } from '../../lib/programs.ts';
import type { Connections } from './connections.ts';
import { type ConnectionEvent, deferConnections, descriptorOf } from './node-internals.ts';

/** Maximum number of connections that wait for identification. Further ones are closed. */
const MAX_PENDING = 1024;
/** Pause between two queries. A query identifies all connections since the previous one. */
const PAUSE_MS = 10;

export class AcceptGate {
  readonly #connections: Connections;
  readonly #nameClients: NameClients | undefined;
  readonly #log: Logger;
  /** Connections that wait for identification, with the function that admits them. */
  readonly #pending = new Map<Socket, () => void>();
  #isIdentifying = false;
  #hasFailed = false;

  /** Without `nameClients` the gate admits every connection, and clients have no shares. */
  constructor(connections: Connections, nameClients: NameClients | undefined, log: Logger) {
    this.#connections = connections;
    this.#nameClients = nameClients;
    this.#log = log;
  }

  /** Call it after all other listeners of the event are added. They see a connection only after its admission. */
  guard(server: Server, event: ConnectionEvent): void {
    deferConnections(server, event, (socket, accept) =>
      this.#add(socket, () => {
        if (this.#connections.add(socket)) accept();
      }),
    );
  }

  close(): void {
    for (const socket of this.#pending.keys()) socket.destroy();
  }

  #add(socket: Socket, admit: () => void): void {
    if (this.#nameClients === undefined || !this.#connections.mayExceedShare(this.#pending.size)) {
      admit();
      return;
    }
    socket.on('error', () => undefined);
    if (this.#pending.size >= MAX_PENDING) {
      socket.destroy();
      return;
    }
    this.#pending.set(socket, admit);
    socket.once('close', () => this.#pending.delete(socket));
    if (!this.#isIdentifying) void this.#identifyAll(this.#nameClients);
  }

  async #identifyAll(nameClients: NameClients): Promise<void> {
    this.#isIdentifying = true;
    while (this.#pending.size > 0) {
      await this.#identify(nameClients);
      if (this.#pending.size > 0) await sleep(PAUSE_MS);
    }
    this.#isIdentifying = false;
  }

  async #identify(nameClients: NameClients): Promise<void> {
    const sockets = [...this.#connections.unidentified(), ...this.#pending.keys()];
    const names = await nameClients(sockets).catch((err: unknown) => {
      if (!this.#hasFailed)
        this.#log.warn(
          { err },
          'cannot identify the users of local connections; treating each address as one client',
        );
      this.#hasFailed = true;
      return sockets.map(nameByAddress);
    });
    for (const [at, socket] of sockets.entries()) {
      const [name, admit] = [names[at], this.#pending.get(socket)];
      this.#pending.delete(socket);
      if (name === undefined) socket.destroy();
      else if (!socket.destroyed) {
        this.#connections.name(socket, name);
        admit?.();
      }
    }
  }
}

/** Undefined if no process has the other end of the connection open any more. */
export type ClientName = string | undefined;
type NameClients = (sockets: readonly Socket[]) => Promise<readonly ClientName[]>;

/** More than the answers for all possible clients. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20;

/** `program` is the path of native/peers.c. Rejects if the kernel does not support the query. */
export function nameClients(program: string): NameClients {
  return async (sockets) => {
    const queries = sockets.map(toQuery);
    const answers = await queryPeers(program, queries.filter((query) => query !== undefined).join(''));
    let next = 0;
    return sockets.map((socket, at) => {
      const answer = queries[at] === undefined ? 'gone' : answers[next++];
      if (answer === 'gone') return undefined;
      return answer === '-' ? nameByAddress(socket) : `user ${answer}`;
    });
  };
}

/** The client by its address, if the kernel cannot name its user. */
export function nameByAddress({ remoteAddress }: Socket): string {
  return remoteAddress === undefined ? 'this host' : toNetwork(toPlain(remoteAddress));
}

async function queryPeers(program: string, queries: string): Promise<string[]> {
  const { stdout } = await runProgram(program, [], { maxBuffer: MAX_ANSWER_BYTES, input: queries });
  return stdout.split('\n');
}

function toQuery(socket: Socket): string | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (socket.destroyed) return undefined;
  if (remoteAddress !== undefined && localAddress !== undefined)
    return `tcp ${toPlain(remoteAddress)} ${remotePort} ${toPlain(localAddress)} ${localPort}\n`;
  // A TCP connection that was reset has no address either, and no open descriptor.
  const descriptor = descriptorOf(socket);
  return descriptor === undefined ? undefined : `unix ${fstatSync(descriptor).ino}\n`;
}

/** Converts an IPv4-mapped IPv6 address to IPv4. */
function toPlain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** An IPv6 client usually controls the whole /64 network, so that counts as one client. */
function toNetwork(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const zeros = tail === undefined ? [] : Array<string>(8 - first.length - last.length).fill('0');
  return `${[...first, ...zeros, ...last].slice(0, 4).join(':')}::/64`;
}
