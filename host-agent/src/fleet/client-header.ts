// The header by which a gateway names the client of a request to the ingress of a host: `<address> <seal>`. Limits of
// one client, and what guests get of their clients, are about that address.
import type { FleetSeal } from './seal.ts';

export const CLIENT_HEADER = 'sandboxd-client';

export function writeClientHeader(address: string, seal: FleetSeal): string {
  return `${address} ${seal.make('client', address)}`;
}

/** Undefined for a header that no gateway of this fleet wrote. */
export function readClientHeader(text: unknown, seal: FleetSeal): string | undefined {
  if (typeof text !== 'string') return undefined;
  const [address = '', proof = '', ...rest] = text.split(' ');
  return rest.length === 0 && address !== '' && seal.isOf(proof, 'client', address) ? address : undefined;
}
