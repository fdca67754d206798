// `GET /hosts` of a gateway: what each host answers about itself, and what the map knows of those that do not.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { answer } from './creates.ts';
import { type FanOut, refusalOf } from './fan-out.ts';
import type { HostAnswer } from './host-connections.ts';
import { parseJson } from './json.ts';
import { send } from './lists.ts';

const own = z.object({ hosts: z.array(z.looseObject({ name: z.string() })).length(1) });

export class HostTable {
  readonly #map: FleetMap;
  readonly #fanOut: FanOut;

  constructor(map: FleetMap, fanOut: FanOut) {
    this.#map = map;
    this.#fanOut = fanOut;
  }

  /** The refusal of a host is the client’s answer. AppError exhausted; upstream when no host can check the key. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = await this.#fanOut.askAll(request, response, '/hosts', 'GET');
    if (!asked.some(({ found }) => found?.answer.statusCode === 200)) {
      const refusal = refusalOf(asked);
      if (refusal !== undefined) return answer(response, refusal);
      throw new AppError('upstream', 'no host of the fleet answers, so that the key cannot be checked');
    }
    const places = countByHost(this.#map);
    const hosts = asked.map(({ host, found, failure }) => ({
      ...describe(host, found, failure),
      places: places.get(host.name) ?? 0,
    }));
    send(response, { hosts: hosts.toSorted((a, b) => (a.name < b.name ? -1 : 1)) });
  }
}

function describe(host: Host, found: HostAnswer | undefined, failure: string | undefined) {
  const { name, isReady } = host;
  const status = found?.answer.statusCode;
  const { data } = own.safeParse(found && status === 200 ? parseJson(found.body.toString()) : undefined);
  const facts = data?.hosts[0];
  if (facts !== undefined) return { ...facts, name, state: isReady ? 'ready' : 'not-ready' };
  const reason = failure ?? `it answers with status ${status}`;
  return { name, state: 'unreachable', reason };
}

function countByHost(map: FleetMap): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { host = '' } of map.all()) counts.set(host, (counts.get(host) ?? 0) + 1);
  return counts;
}
