// The gateway of a fleet: the REST interface of one daemon over many hosts. It keeps nothing; which host has a sandbox
// is in the map.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ERRORS, ROUTES, type Route, toPathPattern } from '@sandboxd/api';
import type { Logger } from 'pino';
import { z } from 'zod';
import { HttpError } from '../../http/errors.ts';
import { newRequestId } from '../../http/middleware.ts';
import { findRoute, toPath } from '../../http/serve-routes.ts';
import { type AllowedHost, Cors, findRefusal, HostNames } from '../../http/server/request-check.ts';
import { refuse as refuseSocket } from '../../http/server/responses.ts';
import type { ServedGateway } from '../../ingress/index.ts';
import { refuse } from '../../ingress/refusals.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import { VERSION } from '../../lib/version.ts';
import type { Catalogue, FleetMap } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';
import { Callers, RefusedCaller } from './callers.ts';
import { leadToConsole, type ServedConsole, serveConsole } from './console.ts';
import { answer, Creates } from './creates.ts';
import { FleetEvents } from './events/events.ts';
import { FanOut } from './fan-out.ts';
import { nameClient } from './headers.ts';
import { serveHostChecks } from './host-checks.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { HostTable } from './host-table.ts';
import { FleetImages } from './images.ts';
import { chooseImportHost } from './import-host.ts';
import { readAnswerOf } from './json.ts';
import { KeyedRequests, signalOf } from './keyed.ts';
import { Lists, send } from './lists.ts';
import { FleetMetrics } from './metrics/fleet-metrics.ts';
import { GatewayMetrics } from './metrics/gateway-metrics.ts';
import { Parked, untilClosed } from './parked.ts';
import { pass, passConnection } from './pass.ts';
import { type FoundPlace, Places } from './places.ts';
import { Renames } from './renames.ts';
import { FleetSecrets } from './secrets.ts';
import { Tools } from './tools.ts';

/** Routes that any host answers alike. */
const ANYWHERE: ReadonlySet<string> = new Set([
  'whoami',
  'listProfiles',
  'describe',
  'showReference',
  'listNetworkPresets',
]);
/** Paths of the gateway’s own, where a host refuses other methods. */
const OWN: ReadonlySet<string> = new Set(['/sandboxes', '/mcp']);
/** Of one sandbox, which the snapshot store answers alone. */
const ANSWERED: ReadonlySet<string> = new Set(['getSandbox', 'deleteSandbox']);
const SANDBOX = /^\/sandboxes\/([^/]+)/;
const SNAPSHOT = /^\/snapshots\/([^/]+)/;

const snapshotBody = z.object({ vcpus: z.number(), memory_mib: z.number(), storage: z.string().optional() });
/** States of a snapshot in which any host can get a copy. */
const SHARED: readonly (string | undefined)[] = ['stored', 'remote'];

export type FleetFrontOptions = ServedConsole & {
  readonly catalogue: Catalogue;
  readonly map: FleetMap;
  readonly connections: HostConnections;
  readonly seal: FleetSeal;
  readonly hasTls: boolean;
  readonly allowedHosts: readonly AllowedHost[];
  readonly log: Logger;
};

export class FleetFront implements ServedGateway {
  readonly #options: FleetFrontOptions;
  readonly #callers: Callers;
  readonly #creates: Creates;
  readonly #lists: Lists;
  readonly #fanOut: FanOut;
  readonly #tools: Tools;
  readonly #events: FleetEvents;
  readonly #fleetMetrics: FleetMetrics;
  readonly #hostTable: HostTable;
  readonly #secrets: FleetSecrets;
  readonly #images: FleetImages;
  readonly #places: Places;
  readonly #renames: Renames;
  readonly #parked: Parked;
  /** Of the gateway itself. */
  readonly metrics: GatewayMetrics;
  readonly #names: HostNames;
  readonly #cors = new Cors([]);
  #running = 0;
  #onIdle: () => void = () => undefined;

  constructor(options: FleetFrontOptions) {
    const { map, connections, seal } = options;
    this.#options = options;
    this.#callers = new Callers(map, connections);
    this.#events = new FleetEvents(map, connections, this.#callers);
    this.metrics = new GatewayMetrics({ map, eventStreams: () => this.#events.count });
    this.#fleetMetrics = new FleetMetrics({ map, connections, callers: this.#callers, own: this.metrics });
    const catalogue = this.metrics.watch(options.catalogue);
    const callers = this.#callers;
    this.#places = new Places({ catalogue, map, callers });
    this.#parked = new Parked({ catalogue, map, callers, connections });
    this.#renames = new Renames({ catalogue, callers, connections });
    const keyed = new KeyedRequests();
    const fanOut = new FanOut({ map, connections, callers });
    this.#creates = new Creates({ catalogue, map, connections, seal, callers, keyed });
    this.#fanOut = fanOut;
    this.#lists = new Lists(fanOut, this.#parked);
    const serve = (request: IncomingMessage, response: ServerResponse) => this.serve(request, response);
    this.#tools = new Tools({ callers, serve, log: options.log });
    this.#hostTable = new HostTable(map, fanOut);
    const deps = { map, connections, callers, fanOut, keyed };
    this.#secrets = new FleetSecrets(deps);
    this.#images = new FleetImages(deps);
    this.#names = new HostNames(options.allowedHosts, options.hasTls ? 'https' : 'http');
  }

  readonly open = {
    idle: (): Promise<void> => {
      this.#events.stop();
      if (this.#running === 0) return Promise.resolve();
      return new Promise((resolve) => {
        this.#onIdle = resolve;
      });
    },
  };

  close(): void {
    this.#tools.close();
    this.#options.connections.close();
    this.metrics[Symbol.dispose]();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = newRequestId();
    this.#begin(response);
    nameClient(request, this.#options.seal);
    try {
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) throw refusal;
      await this.#route(request, response, toTarget(request));
    } catch (error) {
      if (error instanceof RefusedCaller) return answer(response, error.refusal);
      this.#report(request, error, requestId);
      refuse(request, response, error, requestId);
    }
  }

  async serveUpgrade(request: IncomingMessage, head: Buffer): Promise<void> {
    const { socket } = request;
    const requestId = newRequestId();
    this.#begin(socket);
    nameClient(request, this.#options.seal);
    this.metrics.tunnelled(socket);
    socket.on('error', () => socket.destroy());
    try {
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) throw refusal;
      const path = toTarget(request);
      const id = SANDBOX.exec(toPath(path))?.[1];
      if (id === undefined)
        throw new HttpError('unknown_path', 'there is nothing at this path that takes a connection');
      const route = findRoute(request.method ?? 'GET', toPath(path))?.name;
      const found = await this.#locate(request, path, id, route, untilClosed(socket));
      if ('answer' in found) throw new RefusedCaller(found);
      const { host } = found;
      await passConnection({ request, host, path }, head, this.#options.connections);
    } catch (error) {
      if (!(error instanceof RefusedCaller)) this.#report(request, error, requestId);
      // An answer of the host has more than goes before the end of a connection.
      const isRefused = error instanceof RefusedCaller;
      const refusal = isRefused ? new AppError('unauthenticated', 'a host refused the key') : error;
      refuseSocket(socket, refusal, requestId);
    }
  }

  #begin(lifetime: { once(event: 'close', listener: () => void): unknown }): void {
    this.#running += 1;
    lifetime.once('close', () => {
      this.#running -= 1;
      if (this.#running === 0) this.#onIdle();
    });
  }

  async #route(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const { method = 'GET' } = request;
    const plain = toPath(path);
    if (leadToConsole(this.#options.console, request, response, plain)) return;
    const route = findRoute(method, plain);
    this.metrics.began(response, route?.name ?? 'unknown');
    switch (route?.name) {
      case 'health':
        return send(response, this.#health());
      case 'showConsole':
      case 'readConsoleFile':
        return serveConsole(this.#options, request, response, plain);
      case 'createSandbox':
        return await this.#creates.create(request, response, path);
      case 'serveMcp':
        return await this.#tools.serve(request, response);
      case 'listSandboxes':
        return await this.#lists.list(request, response, path, 'sandboxes');
      case 'deleteSandboxes':
        return await this.#lists.delete(request, response, path);
      case 'listSnapshots':
        return await this.#lists.list(request, response, path, 'snapshots');
      case 'listImages':
        return await this.#images.list(request, response, path);
      case 'getImage':
        return await this.#images.get(request, response, path);
      case 'pullImage':
        return await this.#images.pull(request, response, path);
      case 'changeImage':
        return await this.#images.change(request, response, path, 'PATCH');
      case 'deleteImage':
        return await this.#images.change(request, response, path, 'DELETE');
      case 'importImage':
      case 'importSnapshot': {
        const key = [request.headers['idempotency-key']].flat()[0];
        const host = chooseImportHost(this.#options.map, key);
        return await pass({ request, response, host, path }, this.#options.connections);
      }
      case 'listSecrets':
        return await this.#secrets.list(request, response, path);
      case 'getSecret':
        return await this.#secrets.get(request, response, path);
      case 'putSecret':
        return await this.#secrets.change(request, response, path, 'PUT');
      case 'deleteSecret':
        return await this.#secrets.change(request, response, path, 'DELETE');
      case 'listHosts':
        return await this.#hostTable.serve(request, response);
      case 'checkHost':
        return await serveHostChecks(this.#fanOut, request, response, path);
      case 'readMetrics':
        return await this.#fleetMetrics.serve(request, response, path);
      case 'followEvents':
        return await this.#events.serve(request, response, path);
    }
    const sandbox = SANDBOX.exec(plain)?.[1];
    if (sandbox !== undefined)
      return await this.#passToSandbox(request, response, path, sandbox, route?.name);
    const snapshot = SNAPSHOT.exec(plain)?.[1];
    if (snapshot !== undefined && isId('snap', snapshot))
      return await this.#passToSnapshot(request, response, path, snapshot, route?.name);
    // Unknown paths and methods are refused by a host, in its words.
    const isAnywhere = route === undefined ? !isRouted(plain) || OWN.has(plain) : ANYWHERE.has(route.name);
    if (!isAnywhere) throw unsupported(plain);
    const [host] = this.#callers.hosts();
    if (host === undefined) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    await pass({ request, response, host, path }, this.#options.connections);
  }

  #health() {
    const hosts = this.#options.map.hosts();
    const engine = hosts.some(({ isReady }) => isReady) ? ('chosen' as const) : ('trying' as const);
    return { status: 'ok', version: VERSION, engine };
  }

  async #passToSandbox(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    id: string,
    route: string | undefined,
  ): Promise<void> {
    const { connections } = this.#options;
    const found = await this.#locate(request, path, id, route, signalOf(request, response));
    if ('answer' in found) return answer(response, found);
    const { host, place } = found;
    if (route === 'updateSandbox') return await this.#renames.change(request, response, path, found);
    if (route === 'forkSandbox')
      return await this.#creates.fork(request, response, path, { host, size: place });
    await pass({ request, response, host, path }, connections);
  }

  /** Its place, or the answer about one that needs none. Resolves when a host has it. */
  async #locate(
    request: IncomingMessage,
    path: string,
    id: string,
    route: string | undefined,
    signal: AbortSignal,
  ): Promise<FoundPlace | HostAnswer> {
    try {
      return await this.#places.find(id, request);
    } catch (error) {
      if (route === undefined || !this.#parked.mayHave(id, error)) throw error;
      const found = await this.#parked.ask(request, { id, path, signal });
      if (found === undefined) throw error;
      if (ANSWERED.has(route)) return found;
      await this.#parked.restore(id, found, signal);
      return await this.#places.find(id, request);
    }
  }

  async #passToSnapshot(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    id: string,
    route: string | undefined,
  ): Promise<void> {
    const located = await this.#lists.locate(request, response, `/snapshots/${id}`);
    const host = located?.host ?? this.#callers.hosts()[0];
    if (host === undefined) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    if (route !== 'forkSnapshot' || located === undefined)
      return await pass({ request, response, host, path }, this.#options.connections);
    const body = readAnswerOf(snapshotBody, host, located.found);
    const size = { vcpus: body.vcpus, memoryMib: body.memory_mib };
    const source = { host, size, ...(SHARED.includes(body.storage) && { snapshot: id }) };
    await this.#creates.fork(request, response, path, source);
  }

  #report({ method, url }: IncomingMessage, error: unknown, requestId: string): void {
    const line = { requestId, method, path: toPath(url).slice(0, 1000) };
    const isForeseen = error instanceof HttpError || (isAppError(error) && ERRORS[error.code].status < 500);
    if (isForeseen) this.#options.log.debug({ ...line, reason: toError(error).message }, 'request refused');
    else if (isAppError(error)) this.#options.log.warn({ ...line, reason: error.message }, 'request failed');
    else this.#options.log.error({ ...line, err: error }, 'request failed');
  }
}

const patterns = Object.values<Route>(ROUTES).map(toPathPattern);

function isRouted(path: string): boolean {
  return patterns.some((pattern) => pattern.test(path));
}

function unsupported(path: string): AppError {
  return new AppError(
    'unsupported',
    `the gateway of a fleet does not serve ${path} yet; send the request to a host`,
  );
}

/** Path and query of a target, which may be an absolute URL. */
function toTarget({ url = '/' }: IncomingMessage): string {
  const path = url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}
