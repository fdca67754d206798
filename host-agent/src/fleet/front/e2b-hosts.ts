// The hosts as the front for clients of E2B asks them: at their own fronts, and for the key that such a client sends.
import type { IncomingMessage } from 'node:http';
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { z } from 'zod';
import { toOwnerRequest } from '../../e2b/index.ts';
import { AppError } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import type { Host } from '../catalogue.ts';
import { writeQuestion } from '../client-header.ts';
import type { FleetSeal } from '../seal.ts';
import type { Caller, Callers } from './callers.ts';
import { FanOutLimits } from './fan-out.ts';
import { clientHeader } from './headers.ts';
import type { HostAnswer, HostConnections, HostExchange, HostRequest } from './host-connections.ts';
import { readAnswer } from './json.ts';

const ASK_MS = 5000;
const FIND_MS = 12_000;
export const SNAPSHOT_ID = /^snap_[0-9a-v]{13}$/;
/** Hosts that answer with others are not asked for places of them. */
export const VCPUS = z.int().min(1).max(MAX_VCPUS);
export const MEMORY_MIB = z.int().min(1).max(MAX_MEMORY_MIB);
const SNAPSHOT_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

const snapshot = z.object({ id: z.string(), vcpus: VCPUS, memory_mib: MEMORY_MIB });
const owner = z.object({ id: z.string() });
const snapshots = z.object({ snapshots: z.array(snapshot) });

export type Asked = { readonly host: Host; readonly found: HostAnswer | undefined };
/** `silent`: hosts that may have it, too. */
type Search = { readonly located: Located | undefined; readonly silent: readonly Host[] };
type Located = { readonly host: Host; readonly vcpus: number; readonly memoryMib: number };

export class E2bHosts {
  readonly #callers: Callers;
  readonly #connections: HostConnections;
  readonly #limits = new FanOutLimits();

  constructor(callers: Callers, connections: HostConnections) {
    this.#callers = callers;
    this.#connections = connections;
  }

  /** Ready ones first. */
  hosts(): Host[] {
    return this.#callers.hosts();
  }

  /** AppError exhausted. */
  any(): Host {
    const host = this.hosts().find(({ doors }) => doors.e2b !== undefined);
    if (host !== undefined) return host;
    throw new AppError('exhausted', 'no host of the fleet serves clients of E2B', { retryAfterS: 5 });
  }

  /** AppError upstream for a host that serves none. */
  doorOf(host: Host): Host {
    const url = host.doors.e2b;
    if (url !== undefined) return { ...host, url };
    throw new AppError('upstream', `the host ${host.name} serves no clients of E2B; it needs --e2b-listen`);
  }

  async find(request: Pick<IncomingMessage, 'headers'>, signal: AbortSignal): Promise<Caller> {
    return await this.#callers.find(toRest(request), signal);
  }

  identify(request: Pick<IncomingMessage, 'headers'>): Pick<Caller, 'digest' | 'hasKey'> {
    return this.#callers.identify(toRest(request));
  }

  async send(
    host: Host,
    request: HostRequest,
    body: { readonly bytes: Buffer } | undefined,
    signal: AbortSignal,
    exchange?: HostExchange,
  ): Promise<HostAnswer> {
    return await this.#connections.send(this.doorOf(host), request, body, signal, exchange);
  }

  /** The answers of all, or of some, to a GET. RefusedCaller; AppError exhausted. */
  async ask(
    request: Pick<IncomingMessage, 'headers'>,
    path: string,
    hosts: readonly Host[] = this.hosts(),
    more: readonly string[] = [],
  ): Promise<readonly Asked[]> {
    const { headers } = request;
    using memory = this.#limits.acquire(await this.find(request, AbortSignal.timeout(FIND_MS)));
    const kept = (['x-api-key', 'authorization'] as const).flatMap((name) =>
      typeof headers[name] === 'string' ? [name, headers[name]] : [],
    );
    const limit = AbortSignal.timeout(ASK_MS);
    const asked = { method: 'GET', path, headers: [...kept, ...more, ...clientHeader(request)] };
    return await Promise.all(
      hosts.map(async (host) => {
        const found = await this.send(host, asked, undefined, limit, memory).catch(() => undefined);
        return { host, found: (found?.answer.statusCode ?? 500) < 500 ? found : undefined };
      }),
    );
  }

  /** The sandbox that is meant by a signed URL of a file, or by an access token. */
  async findOwner(request: IncomingMessage, seal: FleetSeal): Promise<string | undefined> {
    const { path, headers } = toOwnerRequest(request);
    const limit = AbortSignal.timeout(ASK_MS);
    const asked = { method: 'GET', path, headers: [...headers, ...writeQuestion(path, seal)] };
    const found = await Promise.all(
      this.hosts().map(async (host) => {
        const answer = await this.send(host, asked, undefined, limit).catch(() => undefined);
        const said = answer?.answer.statusCode === 200 ? readAnswer(owner, answer) : undefined;
        return said !== undefined && isId('sbx', said.id) ? [said.id] : [];
      }),
    );
    return found.flat()[0];
  }

  /** The host that has a snapshot, by its id or name, as the client may see it. RefusedCaller. */
  async locate(request: Pick<IncomingMessage, 'headers'>, nameOrId: string): Promise<Search> {
    const isSnapshot = SNAPSHOT_ID.test(nameOrId);
    if (!isSnapshot && !SNAPSHOT_NAME.test(nameOrId)) return { located: undefined, silent: [] };
    using memory = this.#limits.acquire(await this.find(request, AbortSignal.timeout(FIND_MS)));
    const authorization = toAuthorization(request);
    const headers = [
      ...(authorization === undefined ? [] : ['Authorization', authorization]),
      ...clientHeader(request),
    ];
    const path = isSnapshot ? `/snapshots/${nameOrId}` : `/snapshots?name=${encodeURIComponent(nameOrId)}`;
    const limit = AbortSignal.timeout(ASK_MS);
    const silent: Host[] = [];
    const asked = await Promise.all(
      this.hosts().map(async (host) => {
        const rest = { method: 'GET', path, headers };
        const found = await this.#connections
          .send(host, rest, undefined, limit, memory)
          .catch(() => undefined);
        const status = found?.answer.statusCode ?? 500;
        if (status >= 500) silent.push(host);
        if (found === undefined || status !== 200) return [];
        const first = isSnapshot ? readAnswer(snapshot, found) : readAnswer(snapshots, found)?.snapshots[0];
        return first === undefined ? [] : [{ host, vcpus: first.vcpus, memoryMib: first.memory_mib }];
      }),
    );
    return { located: asked.flat()[0], silent };
  }
}

function toRest(request: Pick<IncomingMessage, 'headers'>): Pick<IncomingMessage, 'headers'> {
  return { headers: { ...request.headers, authorization: toAuthorization(request) } };
}

/** Of a client of E2B, as the REST interface takes it. */
export function toAuthorization({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const key = headers['x-api-key'];
  return typeof key === 'string' ? `Bearer ${key}` : headers.authorization;
}
