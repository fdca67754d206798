// Requests for ports of sandboxes that only the snapshot store has: a host says whether a request may wake one, and
// another one takes it over.
import { PARKED_HEADER, readParked } from '../../http/index.ts';
import { type AccessRequest, ADDRESS_HEADERS } from '../../ingress/index.ts';
import type { Catalogue, FleetMap } from '../catalogue.ts';
import { CLIENT_HEADER, writeClientHeader, writeQuestion } from '../client-header.ts';
import type { FleetSeal } from '../seal.ts';
import { AskLimits } from './ask-limits.ts';
import type { HostConnections } from './host-connections.ts';

const ASK_MS = 12_000;
/** Then the client is asked to try again. */
const RESTORE_MS = 30_000;
const MAX_ASKED = 2;
/** By which hosts decide who may use a port. */
const DECIDING: readonly string[] = [
  'authorization',
  'x-access-token',
  'cookie',
  'origin',
  'referer',
  'accept',
  'sec-fetch-site',
  'sec-fetch-mode',
  'sec-fetch-dest',
  'service-worker',
  'upgrade-insecure-requests',
  ...ADDRESS_HEADERS,
];

export type ParkedPortsDeps = {
  readonly catalogue: Pick<Catalogue, 'restore'>;
  readonly map: Pick<FleetMap, 'hosts'>;
  readonly connections: Pick<HostConnections, 'send'>;
  readonly seal: FleetSeal;
};

export class ParkedPorts {
  readonly #deps: ParkedPortsDeps;
  readonly #limits = new AskLimits();

  constructor(deps: ParkedPortsDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves with whether a host has it now: false where no host says that the request may wake it. AppError exhausted,
   * forbidden, upstream.
   */
  async restore(id: string, { request, host: name, address }: AccessRequest): Promise<boolean> {
    const { map, connections, catalogue, seal } = this.#deps;
    this.#limits.count(address);
    const { method = 'GET', url = '/', headers } = request;
    const path = url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '') || '/';
    const kept = DECIDING.flatMap((each) => {
      const value = headers[each];
      return typeof value === 'string' ? [each, value] : [];
    });
    const own = [CLIENT_HEADER, writeClientHeader(address, seal), ...writeQuestion(path, seal)];
    const length = method === 'GET' ? [] : ['Content-Length', '0'];
    const asked = { method, path, host: name, headers: [...kept, ...own, ...length] };
    const doors = map
      .hosts()
      .flatMap((each) =>
        each.doors.ingress !== undefined && each.isReady ? [{ ...each, url: each.doors.ingress }] : [],
      );
    const limit = AbortSignal.timeout(ASK_MS);
    let failure: unknown;
    for (const door of doors.slice(0, MAX_ASKED)) {
      const found = await connections.send(door, asked, undefined, limit).catch((error: unknown) => {
        failure = error;
      });
      if (found === undefined) continue;
      const parked = readParked([found.answer.headers[PARKED_HEADER]].flat()[0] ?? '');
      if (parked === undefined) return false;
      await catalogue.restore({ id, ...parked }, AbortSignal.timeout(RESTORE_MS));
      return true;
    }
    if (failure !== undefined) throw failure;
    return false;
  }
}
