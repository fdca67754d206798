// Sandboxes that only the snapshot store has, as their host was lost after it had offered them: a resume finds a host.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PARKED_HEADER, readParked } from '../../http/index.ts';
import { AppError } from '../../lib/errors.ts';
import type { Catalogue } from '../catalogue.ts';
import { type Callers, RefusedCaller } from './callers.ts';
import { clientHeader } from './headers.ts';
import type { HostConnections } from './host-connections.ts';
import { signalOf } from './keyed.ts';

export type ParkedDeps = {
  readonly catalogue: Pick<Catalogue, 'restore'>;
  readonly callers: Pick<Callers, 'find' | 'hosts'>;
  readonly connections: Pick<HostConnections, 'send'>;
};

/**
 * Resolves when a host has it. A host looks in the store, with the client's own key. RefusedCaller with its answer;
 * AppError exhausted, forbidden.
 */
export async function restoreParked(
  request: IncomingMessage,
  response: ServerResponse,
  id: string,
  { catalogue, callers, connections }: ParkedDeps,
): Promise<void> {
  const signal = signalOf(request, response);
  await callers.find(request, signal);
  const [host] = callers.hosts();
  if (host === undefined) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
  const { authorization = '' } = request.headers;
  const headers = authorization === '' ? [] : ['Authorization', authorization];
  const asked = {
    method: 'POST',
    path: `/sandboxes/${id}/resume`,
    headers: [...headers, ...clientHeader(request), 'Content-Length', '0'],
  };
  const found = await connections.send(host, asked, undefined, signal);
  const parked = readParked([found.answer.headers[PARKED_HEADER]].flat()[0] ?? '');
  if (parked === undefined) throw new RefusedCaller(found);
  await catalogue.restore({ id, ...parked }, signal);
}
