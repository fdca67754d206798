// `GET /metrics` of a gateway: its own, and those of all hosts with the host's name as a label.
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import PQueue from 'p-queue';
import { ConcurrencyLimit } from '../../../lib/concurrency-limit.ts';
import { AppError } from '../../../lib/errors.ts';
import type { FleetMap, Host } from '../../catalogue.ts';
import { answer } from '../creates.ts';
import type { HostAnswer, HostConnections } from '../host-connections.ts';
import { Exposition } from './exposition.ts';
import type { GatewayMetrics } from './gateway-metrics.ts';

/** Below the time that Prometheus waits by default. */
const HOST_MS = 5000;
const MAX_ASKED_AT_ONCE = 32;
const MAX_TOTAL_BYTES = 64 * 2 ** 20;
const MAX_SCRAPES = 4;
const MAX_PERMITTED = 100;
const PERMITTED_MS = 3_600_000;
const REFUSED: readonly (number | undefined)[] = [401, 403, 501];

type Asked = { readonly host: Host; readonly found: HostAnswer | undefined };

export class FleetMetrics {
  readonly #map: FleetMap;
  readonly #connections: HostConnections;
  readonly #own: GatewayMetrics;
  readonly #limit = new ConcurrencyLimit({
    what: 'requests for metrics',
    max: MAX_SCRAPES,
    maxPerClient: MAX_SCRAPES,
  });
  /** Digests of keys that a host has accepted for it, with the time: a scrape works also while no host answers. */
  readonly #permitted = new Map<string, number>();

  constructor(map: FleetMap, connections: HostConnections, own: GatewayMetrics) {
    this.#map = map;
    this.#connections = connections;
    this.#own = own;
  }

  /** AppError exhausted, upstream when no host answers who could check the key. */
  async serve(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    using _slot = this.#limit.acquire(undefined);
    const isOwnOnly = new URLSearchParams(path.split('?')[1] ?? '').get('hosts') === '0';
    const { authorization = '' } = request.headers;
    const asked = await (isOwnOnly ? this.#check(authorization) : this.#askAll(authorization));
    const accepted = asked.filter(({ found }) => found?.answer.statusCode === 200);
    const refusal = asked.find(({ found }) => REFUSED.includes(found?.answer.statusCode))?.found;
    if (accepted.length === 0 && refusal !== undefined) return answer(response, refusal);
    this.#assertPermitted(authorization, accepted.length > 0);
    const exposition = new Exposition();
    exposition.add(await this.#own.render());
    if (!isOwnOnly) {
      exposition.add(toHostsUp(asked));
      for (const { host, found } of accepted) if (found) exposition.add(found.body.toString(), host.name);
    }
    send(response, this.#own.contentType, exposition.toText());
  }

  #assertPermitted(authorization: string, isAccepted: boolean): void {
    const digest = createHash('sha256').update(authorization).digest('base64url');
    const atMs = this.#permitted.get(digest);
    if (isAccepted) {
      this.#permitted.delete(digest);
      this.#permitted.set(digest, performance.now());
      // The oldest is the first.
      if (this.#permitted.size > MAX_PERMITTED) this.#permitted.delete([...this.#permitted.keys()][0] ?? '');
    } else if (atMs === undefined || performance.now() - atMs > PERMITTED_MS)
      throw new AppError('upstream', 'no host of the fleet answers, so that the key cannot be checked');
  }

  /** Whether one host accepts the key. */
  async #check(authorization: string): Promise<readonly Asked[]> {
    const hosts = this.#map.hosts().toSorted((a, b) => Number(b.isReady) - Number(a.isReady));
    for (const host of hosts.slice(0, 3)) {
      const found = await this.#ask(host, 'HEAD', authorization).catch(() => undefined);
      if (found !== undefined && (found.answer.statusCode ?? 500) < 500) return [{ host, found }];
    }
    return [];
  }

  async #askAll(authorization: string): Promise<readonly Asked[]> {
    const queue = new PQueue({ concurrency: MAX_ASKED_AT_ONCE });
    let left = MAX_TOTAL_BYTES;
    const ask = async (host: Host): Promise<Asked> => {
      const found = left > 0 ? await this.#ask(host, 'GET', authorization).catch(() => undefined) : undefined;
      left -= found?.body.length ?? 0;
      return { host, found };
    };
    const sorted = this.#map.hosts().toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return await Promise.all(sorted.map((host) => queue.add(() => ask(host))));
  }

  #ask(host: Host, method: string, authorization: string): Promise<HostAnswer> {
    const headers = authorization === '' ? [] : ['Authorization', authorization];
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
