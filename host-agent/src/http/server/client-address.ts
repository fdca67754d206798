// The address of a request's client: that of its connection, or the one that a gateway of the fleet names.
import type { IncomingMessage } from 'node:http';

/** The client of a request that a gateway of the fleet passed on; undefined: it came from no gateway. */
export type ClientOf = (request: IncomingMessage) => string | undefined;

const NAMED = new WeakMap<IncomingMessage, string>();

/** Before anything reads its address. */
export function nameClient(request: IncomingMessage, clientOf: ClientOf | undefined): void {
  const address = clientOf?.(request);
  if (address !== undefined) NAMED.set(request, address);
}

/** An IP address, or `local`. */
export function addressOfClient(request: IncomingMessage): string {
  return NAMED.get(request) ?? request.socket.remoteAddress ?? 'local';
}
