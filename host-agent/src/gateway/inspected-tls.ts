// TLS of the guest, which ends here: it speaks to the gateway the protocol that the server speaks, so that no request
// is translated from one version of HTTP to another.

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer, type SecureContext, TLSSocket } from 'node:tls';
import { NoServer, type Protocol, type ReadConnection } from './read-connection.ts';
import type { Settings } from './settings.ts';

export type Inspected = {
  readonly stream: TLSSocket;
  readonly protocol: Protocol;
  /** A connection to the server, of the same protocol; or why there is none. */
  readonly server: Duplex | NoServer;
};

const HANDSHAKE_MS = 10_000;

/** Rejects if the guest does not take the certificate, or the handshake fails otherwise; both are over then. */
export async function inspectTls(
  connection: ReadConnection,
  socket: Socket,
  settings: Settings,
): Promise<Inspected> {
  const { name, hasH2 } = connection.handed;
  const [context, server] = await Promise.all([
    settings.contextFor(name),
    connection
      .connect(hasH2 ? ['h2', 'http/1.1'] : ['http/1.1'])
      .catch((error: unknown) =>
        error instanceof NoServer ? error : new NoServer(502, 'the server failed'),
      ),
  ]);
  const stream = await shakeHands(
    socket,
    context,
    server instanceof NoServer ? undefined : protocolOf(server),
  );
  // What egressd read, and what TLS has read, are the same.
  if (toName(stream.servername) !== name) {
    stream.destroy();
    throw new Error('its TLS handshake says another name');
  }
  const protocol = protocolOf(stream);
  // Its second hello may offer less than its first, by which the server was chosen.
  if (!(server instanceof NoServer) && protocol !== protocolOf(server)) {
    stream.destroy();
    throw new Error('its TLS handshake changed its protocols');
  }
  return { stream, protocol, server };
}

/** `protocol`: of the server; undefined: there is none, and any will do to say so. */
async function shakeHands(
  socket: Socket,
  secureContext: SecureContext,
  protocol?: Protocol,
): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const timer = setTimeout(() => reject(new Error('its TLS handshake took too long')), HANDSHAKE_MS);
  const server = createServer({
    minVersion: 'TLSv1.2',
    SNICallback: (_name, done) => done(null, secureContext),
    ALPNCallback: ({ protocols }) =>
      (protocol === undefined ? ['http/1.1', 'h2'] : [protocol]).find((each) => protocols.includes(each)),
  });
  server.once('secureConnection', resolve);
  server.once('tlsClientError', (error) => reject(error));
  socket.once('close', () => reject(new Error('it ended the TLS handshake')));
  server.emit('connection', socket);
  try {
    const stream = await promise;
    stream.on('error', () => stream.destroy());
    return stream;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function protocolOf(stream: Duplex): Protocol {
  return stream instanceof TLSSocket && stream.alpnProtocol === 'h2' ? 'h2' : 'http/1.1';
}

function toName(servername: unknown): string {
  return typeof servername === 'string' ? servername.toLowerCase().replace(/\.$/, '') : '';
}

/** For the log: alerts of clients that do not know the authority, or know the server's own certificate. */
export function describeGuestTls(error: unknown): string {
  const { code = '', message = '' } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  if (/UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNSUPPORTED_CERTIFICATE/.test(code))
    return 'its client does not trust the certificate authority of the sandbox, or pins the server’s certificate';
  if (/NO_APPLICATION_PROTOCOL|no application protocol/i.test(code + message))
    return 'client and server have no protocol in common';
  if (message.startsWith('its ') || message.startsWith('the sandbox')) return message;
  return 'its TLS handshake with the gateway failed';
}
