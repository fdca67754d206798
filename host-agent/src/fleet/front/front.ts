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
import type { Catalogue, FleetMap, Host, Place } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';
import { Callers, RefusedCaller } from './callers.ts';
import { answer, Creates } from './creates.ts';
import type { HostConnections } from './host-connections.ts';
import { Lists, send } from './lists.ts';
import { pass, passConnection } from './pass.ts';

/** Another gateway may have made it just now. */
const UNKNOWN_WAIT_MS = 250;
/** Routes that any host answers alike. */
const ANYWHERE: ReadonlySet<string> = new Set([
  'whoami',
  'listProfiles',
  'describe',
  'showReference',
  'listPresets',
]);
const SANDBOX = /^\/sandboxes\/([^/]+)/;
const SNAPSHOT = /^\/snapshots\/([^/]+)/;

const snapshotSize = z.object({ vcpus: z.number(), memory_mib: z.number() });

export type FleetFrontOptions = {
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
  readonly #names: HostNames;
  readonly #cors = new Cors([]);
  #running = 0;
  #onIdle: () => void = () => undefined;

  constructor(options: FleetFrontOptions) {
    const { map, connections, catalogue, seal } = options;
    this.#options = options;
    this.#callers = new Callers(map, connections);
    this.#creates = new Creates({ catalogue, map, connections, seal, callers: this.#callers });
    this.#lists = new Lists(map, connections);
    this.#names = new HostNames(options.allowedHosts, options.hasTls ? 'https' : 'http');
  }

  readonly open = {
    idle: (): Promise<void> => {
      if (this.#running === 0) return Promise.resolve();
      return new Promise((resolve) => {
        this.#onIdle = resolve;
      });
    },
  };

  close(): void {
    this.#options.connections.close();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = newRequestId();
    this.#begin(response);
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
    socket.on('error', () => socket.destroy());
    try {
      const refusal = findRefusal(request, this.#names, this.#cors);
      if (refusal !== undefined) throw refusal;
      const path = toTarget(request);
      const id = SANDBOX.exec(toPath(path))?.[1];
      if (id === undefined)
        throw new HttpError('unknown_path', 'there is nothing at this path that takes a connection');
      const { host } = await this.#find(id);
      await passConnection({ request, host, path }, head, this.#options.connections);
    } catch (error) {
      this.#report(request, error, requestId);
      refuseSocket(socket, error, requestId);
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
    const route = findRoute(method, plain);
    switch (route?.name) {
      case 'health':
        return send(response, this.#health());
      case 'createSandbox':
        return await this.#creates.create(request, response, path);
      case 'listSandboxes':
        return await this.#lists.list(request, response, path, 'sandboxes');
      case 'deleteSandboxes':
        return await this.#lists.delete(request, response, path);
      case 'listSnapshots':
        return await this.#lists.list(request, response, path, 'snapshots');
    }
    const sandbox = SANDBOX.exec(plain)?.[1];
    if (sandbox !== undefined)
      return await this.#passToSandbox(request, response, path, sandbox, route?.name);
    const snapshot = SNAPSHOT.exec(plain)?.[1];
    if (snapshot !== undefined && isId('snap', snapshot))
      return await this.#passToSnapshot(request, response, path, snapshot, route?.name);
    // Unknown paths and methods are refused by a host, in its words.
    const isAnywhere =
      route === undefined ? !isRouted(plain) || plain === '/sandboxes' : ANYWHERE.has(route.name);
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
    const { host, place } = await this.#find(id);
    if (route === 'forkSandbox')
      return await this.#creates.fork(request, response, path, { host, size: place });
    await pass({ request, response, host, path }, this.#options.connections);
  }

  async #passToSnapshot(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    id: string,
    route: string | undefined,
  ): Promise<void> {
    const located = await this.#lists.locate(request, `/snapshots/${id}`);
    const host = located?.host ?? this.#callers.hosts()[0];
    if (host === undefined) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    if (route !== 'forkSnapshot' || located === undefined)
      return await pass({ request, response, host, path }, this.#options.connections);
    const { vcpus, memory_mib: memoryMib } = snapshotSize.parse(JSON.parse(located.found.body.toString()));
    await this.#creates.fork(request, response, path, { host, size: { vcpus, memoryMib } });
  }

  /** AppError not_found; upstream when its host left the fleet; exhausted when the map may be too old to know it. */
  async #find(id: string): Promise<{ readonly host: Host; readonly place: Place }> {
    const { map } = this.#options;
    const missing = new AppError('not_found', `sandbox ${id.slice(0, 100)} does not exist`);
    if (!isId('sbx', id)) throw missing;
    const place = map.find(id) ?? (map.isCurrent ? await map.settle(id, UNKNOWN_WAIT_MS) : undefined);
    if (place === undefined) {
      if (map.isCurrent) throw missing;
      throw new AppError(
        'exhausted',
        `sandbox ${id} is not known here, and the engine of the fleet does not answer`,
        {
          retryAfterS: 5,
        },
      );
    }
    if (place.isMoving === true)
      throw new AppError('exhausted', `sandbox ${id} moves to another host; try again`, { retryAfterS: 1 });
    const host = place.host === undefined ? undefined : map.host(place.host);
    if (host !== undefined) return { host, place };
    if (place.host === undefined) throw missing;
    throw new AppError('upstream', `the host ${place.host} of the sandbox left the fleet`);
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
