// The header by which a gateway names the client of a request to a host: `<address> <seal>`. Limits of one client, the
// audit trail, and what guests get of their clients, are about that address. A question of the gateway itself has
// another one.
import type { IncomingMessage } from 'node:http';
import type { FleetSeal } from './seal.ts';

export const CLIENT_HEADER = 'sandboxd-client';
export const QUESTION_HEADER = 'sandboxd-question';

export function writeClientHeader(address: string, seal: FleetSeal): string {
  return `${address} ${seal.make('client', address)}`;
}

/** Undefined for a header that no gateway of this fleet wrote. */
export function readClientHeader(text: unknown, seal: FleetSeal): string | undefined {
  if (typeof text !== 'string') return undefined;
  const [address = '', proof = '', ...rest] = text.split(' ');
  return rest.length === 0 && address !== '' && seal.isOf(proof, 'client', address) ? address : undefined;
}

/** That a gateway asks this by itself, and no client of it. */
export function writeQuestion(path: string, seal: FleetSeal): string[] {
  return [QUESTION_HEADER, seal.make('question', path)];
}

export function isQuestion({ headers, url = '' }: IncomingMessage, seal: FleetSeal): boolean {
  const proof = headers[QUESTION_HEADER];
  return typeof proof === 'string' && seal.isOf(proof, 'question', url);
}
