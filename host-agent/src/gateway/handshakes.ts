// TLS handshakes with the guest. A server of TLS takes half a millisecond to make, more than a signature, so each
// serves many handshakes: one at a time, as none of its events names the socket.
import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import { createServer, type SecureContext, type Server, type TLSSocket } from 'node:tls';
import type { Protocol } from './read-connection.ts';

type Handshake = {
  readonly secureContext: SecureContext;
  /** Those that the guest may choose from. */
  readonly protocols: readonly Protocol[];
};

type Waiting = Handshake & {
  readonly resolve: (stream: TLSSocket) => void;
  readonly reject: (error: Error) => void;
};

const HANDSHAKE_MS = 10_000;
const ENDED = 'it ended the TLS handshake';
/** As many as may shake hands at once without making another. */
const MAX_SPARE = 16;

export class Handshakes {
  readonly #spare: HandshakeServer[] = [];

  /** Rejects if the guest does not take the certificate, or it fails otherwise; the socket is destroyed then. */
  async shake(socket: Socket, handshake: Handshake): Promise<TLSSocket> {
    // It has no event to come.
    if (socket.destroyed) throw new Error(ENDED);
    const server = this.#spare.pop() ?? new HandshakeServer();
    try {
      const stream = await server.shake(socket, handshake);
      stream.on('error', () => stream.destroy());
      // One that failed may still have an event to come.
      if (this.#spare.length < MAX_SPARE) this.#spare.push(server);
      return stream;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }
}

class HandshakeServer {
  #waiting: Waiting | undefined;
  readonly #server: Server;

  constructor() {
    this.#server = createServer({
      minVersion: 'TLSv1.2',
      // Nothing of one connection is good for another, and one that is open asks for no certificate again.
      secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
      SNICallback: (_name, done) => done(null, this.#waiting?.secureContext),
      ALPNCallback: ({ protocols }) => this.#waiting?.protocols.find((each) => protocols.includes(each)),
    });
    this.#server.on('secureConnection', (stream) => this.#waiting?.resolve(stream));
    this.#server.on('tlsClientError', (error) => this.#waiting?.reject(error));
  }

  async shake(socket: Socket, handshake: Handshake): Promise<TLSSocket> {
    const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
    const timer = setTimeout(() => reject(new Error('its TLS handshake took too long')), HANDSHAKE_MS);
    const onClose = (): void => reject(new Error(ENDED));
    socket.once('close', onClose);
    this.#waiting = { ...handshake, resolve, reject };
    this.#server.emit('connection', socket);
    try {
      return await promise;
    } finally {
      this.#waiting = undefined;
      socket.off('close', onClose);
      clearTimeout(timer);
    }
  }
}
