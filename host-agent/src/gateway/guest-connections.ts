// The connections of the guest that are read now, by the protocol that each speaks.
import type { Socket } from 'node:net';
import type { ConnectionRecord } from '../network/connection-record.ts';
import type { Gate, Handed } from './gate.ts';
import { Handshakes } from './handshakes.ts';
import { Http1 } from './http1.ts';
import { Http2 } from './http2.ts';
import { describeGuestTls, inspectTls } from './inspected-tls.ts';
import { ReadConnection } from './read-connection.ts';
import type { Settings } from './settings.ts';
import type { Substitution } from './substitution.ts';

export class GuestConnections {
  readonly #settings: Settings;
  readonly #gate: Gate;
  readonly #report: (record: ConnectionRecord) => void;
  readonly #http1: Http1;
  readonly #http2: Http2;
  readonly #handshakes = new Handshakes();
  readonly #open = new Set<ReadConnection>();

  constructor(
    settings: Settings,
    gate: Gate,
    substitution: Substitution,
    report: (record: ConnectionRecord) => void,
  ) {
    this.#settings = settings;
    this.#gate = gate;
    this.#report = report;
    this.#http1 = new Http1(substitution);
    this.#http2 = new Http2(substitution);
  }

  get size(): number {
    return this.#open.size;
  }

  add(handed: Handed, socket: Socket): void {
    const connection = new ReadConnection(handed, socket, this.#gate, this.#settings, this.#report);
    socket.once('close', () => this.#open.delete(connection));
    this.#open.add(connection);
    if (!this.#settings.isRead(handed)) connection.destroy();
    else if (handed.kind === 'http') this.#http1.serve(connection, socket, undefined);
    else void this.#inspect(connection, socket);
  }

  async #inspect(connection: ReadConnection, socket: Socket): Promise<void> {
    try {
      const { stream, protocol, server } = await inspectTls(
        connection,
        socket,
        this.#settings,
        this.#handshakes,
      );
      if (protocol === 'h2') this.#http2.serve(connection, stream, server);
      else this.#http1.serve(connection, stream, server);
    } catch (error) {
      if (!connection.isOver) connection.report({ verdict: 'denied', reason: describeGuestTls(error) });
      connection.destroy();
    }
  }

  /** Ends what is not allowed any more; returns the number of requests. */
  settle(): number {
    return [...this.#open].reduce((sum, each) => sum + each.settle(), 0);
  }
}
