// `GET /metrics` of a gateway: its own, and those of all hosts with the host's name as a label.
import type { IncomingMessage, ServerResponse } from 'node:http';
import PQueue from 'p-queue';
import { ConcurrencyLimit } from '../../../lib/concurrency-limit.ts';
import { AppError, isAppError } from '../../../lib/errors.ts';
import type { FleetMap, Host } from '../../catalogue.ts';
import { type Caller, type Callers, clientOf, identify, RefusedCaller } from '../callers.ts';
import { refusalOf } from '../fan-out.ts';
import { pickHostHeaders } from '../headers.ts';
import type { HostAnswer, HostConnections } from '../host-connections.ts';
import { Exposition } from './exposition.ts';
import type { GatewayMetrics } from './gateway-metrics.ts';

/** Below the time that Prometheus waits by default. */
const HOST_MS = 5000;
const MAX_ASKED_AT_ONCE = 32;
const MAX_TOTAL_BYTES = 64 * 2 ** 20;
const MAX_SCRAPES = 8;
const MAX_SCRAPES_OF_EACH = 4;
const MAX_PERMITTED = 100;
const PERMITTED_MS = 3_600_000;
const REFUSED: readonly (number | undefined)[] = [401, 403, 501];

type Asked = { readonly host: Host; readonly found: HostAnswer | undefined };

export type FleetMetricsDeps = {
  readonly map: FleetMap;
  readonly connections: HostConnections;
  readonly callers: Callers;
  readonly own: GatewayMetrics;
};

export class FleetMetrics {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;
  readonly #callers: Callers;
  readonly #own: GatewayMetrics;
  readonly #limit = new ConcurrencyLimit({
    what: 'requests for metrics',
    max: MAX_SCRAPES,
    maxPerClient: MAX_SCRAPES_OF_EACH,
  });
  /** Digests of keys that a host has accepted for it, with the time: a scrape works also while no host answers. */
  readonly #permitted = new Map<string, number>();

  constructor({ map, connections, callers, own }: FleetMetricsDeps) {
    this.#map = map;
    this.#connections = connections;
    this.#callers = callers;
    this.#own = own;
  }

  /** RefusedCaller. AppError exhausted, upstream when no host answers who could check the key. */
  async serve(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const isOwnOnly = new URLSearchParams(path.split('?')[1] ?? '').get('hosts') === '0';
    // Only who may read them gets a slot.
    const caller = await this.#findPermitted(request, response, isOwnOnly);
    using _slot = this.#limit.acquire(clientOf(caller));
    const asked = isOwnOnly ? [] : await this.#askAll(request);
    const accepted = asked.filter(({ found }) => found?.answer.statusCode === 200);
    if (!isOwnOnly && accepted.length === 0) this.#throwRefusal(asked, caller);
    const exposition = new Exposition();
    exposition.add(await this.#own.render());
    if (!isOwnOnly) {
      exposition.add(toHostsUp(asked));
      for (const { host, found } of accepted) if (found) exposition.add(found.body.toString(), host.name);
    }
    send(response, this.#own.contentType, exposition.toText());
  }

  /** `isFresh`: a host is asked in any case. */
  async #findPermitted(
    request: IncomingMessage,
    response: ServerResponse,
    isFresh: boolean,
  ): Promise<Pick<Caller, 'digest' | 'hasKey'>> {
    const { authorization = '' } = request.headers;
    const caller = await this.#callers.findFor(request, response).catch((error: unknown) => {
      // No host answers.
      if (isAppError(error) && error.code === 'exhausted') return identify(authorization);
      throw error;
    });
    const atMs = this.#permitted.get(caller.digest);
    const isPermitted = atMs !== undefined && performance.now() - atMs <= PERMITTED_MS;
    if (isPermitted && !isFresh) return caller;
    const asked = await this.#check(request);
    if (asked.some(({ found }) => found?.answer.statusCode === 200)) {
      this.#permit(caller);
      return caller;
    }
    this.#throwRefusal(asked, caller);
    if (isPermitted) return caller;
    throw new AppError('upstream', 'no host of the fleet answers, so that the key cannot be checked');
  }

  #permit({ digest }: Pick<Caller, 'digest'>): void {
    this.#permitted.delete(digest);
    this.#permitted.set(digest, performance.now());
    // The oldest is the first.
    if (this.#permitted.size > MAX_PERMITTED) this.#permitted.delete([...this.#permitted.keys()][0] ?? '');
  }

  /** RefusedCaller if a host refuses the key; it is permitted no more. */
  #throwRefusal(asked: readonly Asked[], { digest }: Pick<Caller, 'digest'>): void {
    const refusal = refusalOf(asked.filter(({ found }) => REFUSED.includes(found?.answer.statusCode)));
    if (refusal === undefined) return;
    this.#permitted.delete(digest);
    throw new RefusedCaller(refusal);
  }

  /** Whether one host accepts the key. */
  async #check(request: IncomingMessage): Promise<readonly Asked[]> {
    const hosts = this.#map.hosts().toSorted((a, b) => Number(b.isReady) - Number(a.isReady));
    for (const host of hosts.slice(0, 3)) {
      const found = await this.#ask(host, 'HEAD', request).catch(() => undefined);
      if (found !== undefined && (found.answer.statusCode ?? 500) < 500) return [{ host, found }];
    }
    return [];
  }

  async #askAll(request: IncomingMessage): Promise<readonly Asked[]> {
    const queue = new PQueue({ concurrency: MAX_ASKED_AT_ONCE });
    let left = MAX_TOTAL_BYTES;
    const ask = async (host: Host): Promise<Asked> => {
      const found = left > 0 ? await this.#ask(host, 'GET', request).catch(() => undefined) : undefined;
      left -= found?.body.length ?? 0;
      return { host, found };
    };
    const sorted = this.#map.hosts().toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return await Promise.all(sorted.map((host) => queue.add(() => ask(host))));
  }

  #ask(host: Host, method: string, client: IncomingMessage): Promise<HostAnswer> {
    const headers = pickHostHeaders(client, ['authorization']);
    const request = { method, path: '/metrics', headers };
    return this.#connections.send(host, request, undefined, AbortSignal.timeout(HOST_MS));
  }
}

function toHostsUp(asked: readonly Asked[]): string {
  const name = 'sandboxd_gateway_host_up';
  const lines = asked.map(
    ({ host, found }) => `${name}{host="${host.name}"} ${Number(found?.answer.statusCode === 200)}`,
  );
  return [
    `# HELP ${name} Whether the metrics of the host are in this answer`,
    `# TYPE ${name} gauge`,
    ...lines,
  ].join('\n');
}

function send(response: ServerResponse, contentType: string, text: string): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(200, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}
