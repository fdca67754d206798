// TLS of the guest, which ends here: it speaks to the gateway the protocol that the server speaks, so that no request
// is translated from one version of HTTP to another.

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { Handshakes } from './handshakes.ts';
import { NoServer, type Protocol, type ReadConnection } from './read-connection.ts';
import type { Settings } from './settings.ts';

const HTTP1: readonly Protocol[] = ['http/1.1'];
const BOTH: readonly Protocol[] = ['h2', 'http/1.1'];

export type Inspected = {
  readonly stream: TLSSocket;
  readonly protocol: Protocol;
  /** A connection to the server, of the same protocol; or why there is none. */
  readonly server: Duplex | NoServer;
};

/** Rejects if the guest does not take the certificate, or the handshake fails otherwise; both are over then. */
export async function inspectTls(
  connection: ReadConnection,
  socket: Socket,
  settings: Settings,
  handshakes: Handshakes,
): Promise<Inspected> {
  const { name, hasH2 } = connection.handed;
  const dialled = connection
    .connect(hasH2 ? BOTH : HTTP1)
    .catch((error: unknown) => (error instanceof NoServer ? error : new NoServer(502, 'the server failed')));
  const secureContext = await settings.contextFor(name);
  // A guest without HTTP/2 leaves no choice, so neither handshake waits for the other.
  const protocols = hasH2 ? protocolsFor(await dialled) : HTTP1;
  const stream = await handshakes.shake(socket, { secureContext, protocols });
  // What egressd read, and what TLS has read, are the same.
  if (toName(stream.servername) !== name) {
    stream.destroy();
    throw new Error('its TLS handshake says another name');
  }
  const server = await dialled;
  if (stream.destroyed) throw new Error('it ended the connection');
  const protocol = protocolOf(stream);
  // Its second hello may offer less than its first, by which the server was chosen.
  if (!(server instanceof NoServer) && protocol !== protocolOf(server)) {
    stream.destroy();
    throw new Error('its TLS handshake changed its protocols');
  }
  return { stream, protocol, server };
}

/** That of the server; without one, any will do to say so. */
function protocolsFor(server: Duplex | NoServer): readonly Protocol[] {
  return server instanceof NoServer ? ['http/1.1', 'h2'] : [protocolOf(server)];
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
