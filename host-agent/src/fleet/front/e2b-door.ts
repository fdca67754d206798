// The front for clients of E2B over many hosts: a create gets a place, lists are of all hosts, and what concerns one
// sandbox goes to the front of its host, which has its tokens and decides.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  E2bError,
  ENVD_PORT,
  EVERY_ORIGIN,
  findTarget,
  refuse,
  refuseAs,
  SandboxGoneError,
  serveCors,
  toE2bId,
  toOwnId,
} from '../../e2b/index.ts';
import { HttpError } from '../../http/errors.ts';
import { newRequestId } from '../../http/middleware.ts';
import { type AllowedHost, Cors, findRefusal, HostNames } from '../../http/server/request-check.ts';
import { type Addresses, type Gateway, RateLimits, type ServedGateway } from '../../ingress/index.ts';
import { Attempts } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { isAppError } from '../../lib/errors.ts';
import type { Catalogue, FleetMap, Host } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';
import { AskLimits } from './ask-limits.ts';
import { Callers, RefusedCaller } from './callers.ts';
import { answer, Creates } from './creates.ts';
import { E2bHosts, toAuthorization } from './e2b-hosts.ts';
import { listByHost, listSandboxes } from './e2b-lists.ts';
import { E2bTemplates } from './e2b-templates.ts';
import { nameClient } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { openHostPorts } from './host-ports.ts';
import { KeyedRequests, signalOf } from './keyed.ts';
import { Parked } from './parked.ts';
import { pass } from './pass.ts';
import { type FoundPlace, Places } from './places.ts';

const MAX_UNNAMED = 64;
const MAX_UNNAMED_OF_EACH = 16;
const CREATE = /^\/(?:v2\/)?sandboxes$/;
const SANDBOX = /^\/(?:v2\/)?sandboxes\/([^/]+)(\/fork$)?/;
const TEMPLATE = /^\/(?:v\d\/)?templates(?:\/|$)/;

export type E2bDoorOptions = {
  readonly catalogue: Catalogue;
  readonly map: FleetMap;
  readonly connections: HostConnections;
  readonly seal: FleetSeal;
  readonly addresses: Addresses;
  readonly allowedHosts: readonly AllowedHost[];
  readonly log: Logger;
};

export class E2bDoor implements ServedGateway {
  readonly #options: E2bDoorOptions;
  readonly #hosts: E2bHosts;
  readonly #creates: Creates;
  readonly #templates: E2bTemplates;
  readonly #places: Places;
  /** Asked in E2B's interface, and in the REST interface. */
  readonly #parked: { readonly own: Parked; readonly rest: Parked };
  readonly #ports: Gateway;
  readonly #names: HostNames;
  readonly #cors = new Cors([]);
  readonly #attempts = new Attempts();
  /** All hosts are asked for each. */
  readonly #unnamed = new ConcurrencyLimit({
    what: 'requests for files that name no sandbox',
    max: MAX_UNNAMED,
    maxPerClient: MAX_UNNAMED_OF_EACH,
  });

  constructor(options: E2bDoorOptions) {
    const { catalogue, map, connections, seal, addresses, log } = options;
    this.#options = options;
    this.#hosts = new E2bHosts(new Callers(map, connections), connections);
    this.#creates = new Creates({
      ...{ catalogue, map, seal, connections: this.#hosts, callers: this.#hosts, keyed: new KeyedRequests() },
      read: (request, body) => this.#templates.readCreate(request, body),
    });
    this.#templates = new E2bTemplates({
      ...{ map, connections, seal, hosts: this.#hosts, creates: this.#creates },
      scheme: addresses.scheme,
    });
    this.#places = new Places({ catalogue, map, callers: this.#hosts });
    const parked = { catalogue, map, callers: this.#hosts };
    const limits = new AskLimits();
    this.#parked = {
      own: new Parked({ ...parked, connections: this.#hosts }, limits),
      rest: new Parked({ ...parked, connections }, limits),
    };
    this.#ports = openHostPorts({
      ...{ map, connections, seal, addresses, log, door: 'e2b' },
      rateLimits: new RateLimits({ clientPerS: 0, sandboxPerS: 0 }),
      refuse: refuseAs(addresses),
      // A host does not know the names of the gateway; each knows those of its ports.
      toHost: (host, headers) => {
        const sought = addresses.find(host, headers);
        const isBare = addresses.find(host, {}) === undefined;
        return isBare && sought !== undefined && 'id' in sought
          ? addresses.urlOf(sought.id, sought.port).host
          : host;
      },
    });
    this.#names = new HostNames(options.allowedHosts, addresses.scheme);
  }

  get open(): Gateway['open'] {
    return this.#ports.open;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { kind, path, sought } = findTarget(request, this.#options.addresses);
      // The host has the checks of the rest.
      if (sought !== undefined) return await this.#ports.serve(request, response);
      nameClient(request, this.#options.seal);
      const origins = kind === 'envd' ? EVERY_ORIGIN : this.#cors;
      const fault = findRefusal(request, this.#names, origins);
      if (fault !== undefined) throw fault;
      if (serveCors(request, response, origins)) return;
      if (kind === 'control') return await this.#control(request, response, path);
      return await this.#serveUnnamed(request, response, path);
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  async serveUpgrade(request: IncomingMessage, head: Buffer): Promise<void> {
    await this.#ports.serveUpgrade(request, head);
  }

  close(): void {
    this.#ports.close();
  }

  async #control(request: IncomingMessage, response: ServerResponse, plain: string): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const path = url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
    const isRead = method === 'GET' || method === 'HEAD';
    if (CREATE.test(plain) && method === 'POST') return await this.#creates.create(request, response, path);
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    if (CREATE.test(plain) && isRead)
      return await listSandboxes(this.#hosts, this.#parked.own, { request, response, plain, query });
    if (plain === '/snapshots' && isRead)
      return await listByHost(this.#hosts, { request, response, plain, query });
    const [, text, fork] = SANDBOX.exec(plain) ?? [];
    if (TEMPLATE.test(plain)) return await this.#templates.serve({ request, response, path, plain });
    // Any host refuses what none serves.
    if (text === undefined) return await this.#pass(request, response, path, this.#hosts.any());
    const id = toOwnId(text);
    if (id === undefined) throw new E2bError(404, `sandbox "${text.slice(0, 100)}" doesn't exist`);
    const plainest = fork === undefined && plain.endsWith(`/${text}`);
    const found = await this.#find(id, text, request, signalOf(request, response), plainest);
    if ('answer' in found) return answer(response, found);
    const { host, place } = found;
    if (fork !== undefined && method === 'POST')
      return await this.#creates.fork(request, response, path, { host, size: place });
    await this.#pass(request, response, path, host);
  }

  /** Its place, or the answer about one that needs none. Resolves when a host has it. */
  async #find(
    id: string,
    text: string,
    request: IncomingMessage,
    signal: AbortSignal,
    isOfItself: boolean,
  ): Promise<FoundPlace | HostAnswer> {
    const missing = new E2bError(404, `sandbox "${text.slice(0, 100)}" doesn't exist`);
    const explain = (error: unknown): unknown =>
      isAppError(error) && error.code === 'not_found' ? missing : error;
    try {
      return await this.#places.find(id, request);
    } catch (error) {
      if (!this.#parked.own.mayHave(id, error)) throw explain(error);
      const { method = 'GET', url = '/' } = request;
      if (isOfItself && ['GET', 'HEAD', 'DELETE'].includes(method)) {
        const path = url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
        const found = await this.#parked.own.ask(request, { id, path, signal });
        if (found === undefined) throw explain(error);
        return found;
      }
      const path = `/sandboxes/${id}/resume`;
      const asked = { id, path, method: 'POST', authorization: toAuthorization(request) ?? '', signal };
      const found = await this.#parked.rest.ask(request, asked);
      if (found === undefined) throw explain(error);
      await this.#parked.rest.restore(id, found, signal);
      return await this.#places.find(id, request);
    }
  }

  async #pass(request: IncomingMessage, response: ServerResponse, path: string, host: Host): Promise<void> {
    await pass({ request, response, host: this.#hosts.doorOf(host), path }, this.#options.connections);
  }

  /** Of envd, where the signature of a URL, or the access token, tells which sandbox is meant. */
  async #serveUnnamed(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const { headers, socket } = request;
    if (path === '/health' && headers['x-access-token'] === undefined) {
      response.writeHead(204).end();
      return;
    }
    if (
      path === '/files' &&
      headers['x-access-token'] === undefined &&
      !/[?&]signature=/.test(request.url ?? '')
    )
      throw new E2bError(401, 'missing signature query parameter');
    const address = socket.remoteAddress ?? 'local';
    const slot = this.#unnamed.acquire(address);
    const id = await this.#hosts.findOwner(request, this.#options.seal).finally(() => slot[Symbol.dispose]());
    if (id !== undefined) {
      headers['e2b-sandbox-id'] = toE2bId(id);
      headers['e2b-sandbox-port'] = String(ENVD_PORT);
      return await this.#ports.serve(request, response);
    }
    if (path === '/health') throw new SandboxGoneError('');
    const { delayMs, done } = this.#attempts.failed(address);
    await sleep(delayMs, undefined, { ref: false });
    done();
    throw new E2bError(401, 'invalid signature, or missing: name the sandbox in E2b-Sandbox-Id');
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const requestId = newRequestId();
    const known = error instanceof RefusedCaller ? toE2bError(error) : error;
    const isForeseen = known instanceof E2bError || known instanceof HttpError || isAppError(known);
    if (!isForeseen) this.#options.log.error({ err: known, requestId }, 'e2b request failed');
    refuse(request, response, known, requestId);
  }
}

function toE2bError({ refusal }: RefusedCaller): E2bError {
  const { body } = refusal;
  const status = refusal.answer.statusCode ?? 401;
  try {
    return new E2bError(status, String(JSON.parse(body.toString()).error));
  } catch {
    return new E2bError(status, 'a host refused the key');
  }
}
