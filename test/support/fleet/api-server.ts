// A stand-in for the API server of Kubernetes, with what the fleet uses of it: list, watch, versions, 409, 410, quota.

import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { assertAllowed, BOOTSTRAP_USER } from './node-rules.ts';
import { type KubeObject, Objects, Refused, toFilter } from './objects.ts';
import { Scheduler } from './scheduler.ts';
import { Signer } from './signer.ts';

const RESOURCE =
  /^\/api(?:s\/[^/]+)?\/v1(?:\/namespaces\/([^/]+))?\/(pods|nodes|leases|resourcequotas|namespaces|certificatesigningrequests|secrets|configmaps)(?:\/([^/]+))?(\/status)?$/;
const TOKEN = 'a-token-of-the-test';
const CLUSTER_WIDE = ['nodes', 'certificatesigningrequests'];

export class ApiServer {
  readonly objects = new Objects();
  readonly scheduler = new Scheduler(this.objects);
  /** Namespaces that exist. */
  readonly namespaces = new Set(['sandboxd', 'kube-node-lease']);
  /** `METHOD resource` of all requests but watches. */
  readonly requests: string[] = [];
  readonly #server: Server;
  /** With their users. */
  readonly #answers = new Map<ServerResponse, string>();
  /** Users that cannot reach it. */
  readonly #cut = new Set<string>();
  /** Requests are taken, and not answered. */
  isHung = false;
  /** Events of watches of all places, which wait. */
  readonly #late = new Map<ServerResponse, (() => void)[]>();
  /** Watches of pods, with their selector of fields. */
  readonly #open = new Map<ServerResponse, string>();
  /** Of bootstrap; those that are valid now. */
  readonly bootstrapTokens = new Set<string>();
  /** What the controllers do about requests for certificates. */
  approval: 'approve' | 'deny' | 'wait' = 'approve';
  /** Certificates that are refused, by the name of their user. */
  readonly distrusted = new Set<string>();
  readonly signer: Signer | undefined;
  /** Also those whose handshake is not over: a closed server would go on to answer them. */
  readonly #sockets = new Set<Socket>();
  #port = 0;

  /** `signer`: for TLS and certificates of nodes. */
  constructor(signer?: Signer) {
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      const user = this.#userOf(request) ?? '';
      this.#answers.set(response, user);
      response.once('close', () => this.#answers.delete(response));
      if (this.isHung || this.#cut.has(user)) return;
      this.#serve(request, response).catch((error: unknown) => this.#refuse(response, error));
    };
    this.signer = signer;
    const ask = { requestCert: true, rejectUnauthorized: false };
    this.#server =
      signer === undefined
        ? createServer(listener)
        : createTlsServer({ ...signer.tls, ca: signer.ca, ...ask }, listener);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.objects.watch('certificatesigningrequests', 0, ({ type, object }) => {
      if (type === 'ADDED') setImmediate(() => this.decide(object.metadata.name));
    });
  }

  /** As the controllers for approval and signing. */
  decide(name: string): void {
    if (this.signer === undefined || this.approval === 'wait') return;
    const found = this.objects.get('certificatesigningrequests', '', name);
    const request = Buffer.from(found.spec.request, 'base64').toString();
    const isDenied = this.approval === 'deny';
    const conditions = [{ type: isDenied ? 'Denied' : 'Approved', status: 'True', message: 'of the test' }];
    const certificate = isDenied ? undefined : Buffer.from(this.signer.sign(request)).toString('base64');
    this.objects.change('certificatesigningrequests', found, {
      status: { conditions, ...(certificate !== undefined && { certificate }) },
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections, as a kill does. What it has stays. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await ended;
  }

  /** Ends the watches, whose versions are then too old. */
  compact(): void {
    this.objects.compact();
    this.objects.create('nodes', '', { metadata: { name: `noise-${this.objects.version}` } } as KubeObject);
    for (const answer of this.#answers.keys()) answer.destroy();
  }

  /** The watches of all places that are open now, or those of a host, hear nothing. Returns what ends it. */
  delayWatches(host?: string): () => void {
    const chosen = host === undefined ? '' : `spec.nodeName=${host}`;
    for (const [answer, fields] of this.#open) if (fields === chosen) this.#late.set(answer, []);
    return () => {
      const waiting = [...this.#late.values()].flat();
      this.#late.clear();
      for (const write of waiting) write();
    };
  }

  /** Of this user nothing arrives any more; answers that run stay open without a byte. */
  cut(user: string): void {
    this.#cut.add(user);
  }

  /** What was on the way breaks. */
  heal(user: string): void {
    this.#cut.delete(user);
    for (const [answer, whose] of this.#answers) if (whose === user) answer.destroy();
  }

  /**
   * As the controller of nodes: one that has not been heard of is not known to be ready. Clocks of hosts may differ, so
   * that a Lease counts from when it was seen, if it is later than the one before, and a heartbeat if it is another.
   * Returns what stops it.
   */
  watchLeases(graceMs: number): () => void {
    const heard = new Map<string, { renewTime: number; heartbeat: string; atMs: number }>();
    const timer = setInterval(() => {
      for (const { metadata, status } of this.objects.list('nodes')) {
        const lease = this.objects.find('leases', 'kube-node-lease', metadata.name);
        const [ready] = status?.conditions ?? [];
        const [renewTime, heartbeat] = [
          Date.parse(lease?.spec.renewTime ?? '') || 0,
          ready?.lastHeartbeatTime ?? '',
        ];
        const last = heard.get(metadata.uid);
        if (last === undefined || renewTime > last.renewTime || heartbeat !== last.heartbeat)
          heard.set(metadata.uid, { renewTime, heartbeat, atMs: performance.now() });
        else if (performance.now() - last.atMs > graceMs && ready?.status === 'True') {
          const condition = { ...ready, status: 'Unknown', reason: 'NodeStatusUnknown' };
          this.objects.change('nodes', this.objects.get('nodes', '', metadata.name), {
            status: { conditions: [condition] },
          });
        }
      }
    }, graceMs / 10);
    return () => clearInterval(timer);
  }

  /** Where it listens; the same after a stop. */
  get url(): string {
    return `http${this.signer === undefined ? '' : 's'}://127.0.0.1:${this.#port}`;
  }

  writeKubeconfig(path: string, token = TOKEN): string {
    const config = {
      'current-context': 'fleet',
      contexts: [{ name: 'fleet', context: { cluster: 'here', user: 'host' } }],
      clusters: [
        {
          name: 'here',
          cluster: {
            server: this.url,
            ...(this.signer !== undefined && { 'certificate-authority': this.signer.caPath }),
          },
        },
      ],
      users: [{ name: 'host', user: { token } }],
    };
    writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
    return path;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const user = this.#userOf(request);
    if (user === undefined) throw new Refused(401, 'Unauthorized', 'Unauthorized');
    const url = new URL(request.url ?? '/', 'http://x');
    const [, namespace, resource = '', name, isStatus] = RESOURCE.exec(url.pathname) ?? [];
    if (resource === '') throw new Refused(404, 'NotFound', `there is nothing at ${url.pathname}`);
    const { method = 'GET' } = request;
    const scope = CLUSTER_WIDE.includes(resource) ? '' : namespace;
    const body = await readBody(request);
    assertAllowed({
      ...{ user, method, resource, namespace: scope, name, isStatus: isStatus !== undefined, body },
      fieldSelector: url.searchParams.get('fieldSelector'),
      found: name === undefined ? undefined : this.objects.find(resource, scope ?? '', name),
      pods: () => this.objects.list('pods'),
    });
    if (url.searchParams.get('watch') === 'true') return this.#watch(url, resource, scope, response);
    this.requests.push(`${method} ${resource}`);
    const status = method === 'POST' ? 201 : 200;
    send(response, status, this.#answer(method, resource, scope, name, isStatus !== undefined, url, body));
  }

  #answer(
    method: string,
    resource: string,
    namespace: string | undefined,
    name: string | undefined,
    isStatus: boolean,
    { searchParams }: URL,
    body: Record<string, unknown>,
  ): unknown {
    if (method === 'GET' && name === undefined) return this.#list(resource, namespace, searchParams);
    const scope = namespace ?? '';
    if (resource === 'namespaces' && method === 'POST') {
      this.namespaces.add((body as unknown as KubeObject).metadata.name);
      return body;
    }
    if (resource === 'certificatesigningrequests' && method === 'POST') this.#checkRequest(body);
    if (!CLUSTER_WIDE.includes(resource) && !this.namespaces.has(scope))
      throw new Refused(404, 'NotFound', `namespaces "${scope}" not found`);
    if (method === 'POST') {
      if (resource === 'pods') this.#checkQuota(scope);
      return this.objects.create(resource, scope, body as unknown as KubeObject);
    }
    if (name === undefined) throw new Refused(405, 'MethodNotAllowed', 'not of lists');
    if (method === 'GET') return this.objects.get(resource, scope, name);
    if (method === 'DELETE') {
      const { gracePeriodSeconds, preconditions } = body as {
        gracePeriodSeconds?: number;
        preconditions?: { uid?: string; resourceVersion?: string };
      };
      const { uid, resourceVersion } = preconditions ?? {};
      return this.objects.delete(resource, scope, name, gracePeriodSeconds, uid, resourceVersion);
    }
    const found = this.objects.get(resource, scope, name);
    const { status, ...rest } = body;
    const changed = isStatus ? { status, ...(rest.metadata ? { metadata: rest.metadata } : {}) } : rest;
    return this.objects.change(resource, found, changed);
  }

  #list(resource: string, namespace: string | undefined, query: URLSearchParams) {
    const all = this.objects.list(resource, namespace).filter(toFilter(query));
    const from = Number(query.get('continue') ?? 0);
    const limit = Number(query.get('limit') || all.length);
    const isMore = from + limit < all.length;
    const metadata = {
      resourceVersion: String(this.objects.version),
      ...(isMore && { continue: String(from + limit) }),
    };
    return { kind: 'List', metadata, items: all.slice(from, from + limit) };
  }

  #watch(url: URL, resource: string, namespace: string | undefined, response: ServerResponse): void {
    const matches = toFilter(url.searchParams);
    const seen = new Set(
      this.objects
        .list(resource, namespace)
        .filter(matches)
        .map(({ metadata }) => metadata.uid),
    );
    const from = Number(url.searchParams.get('resourceVersion') ?? 0);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const write = (event: object): void => {
      const send = (): void => void response.write(`${JSON.stringify(event)}\n`);
      const late = this.#late.get(response);
      if (late === undefined) send();
      else late.push(send);
    };
    if (resource === 'pods') {
      this.#open.set(response, url.searchParams.get('fieldSelector') ?? '');
      response.once('close', () => {
        this.#open.delete(response);
        this.#late.delete(response);
      });
    }
    try {
      const stop = this.objects.watch(resource, from, ({ type, object }) => {
        if (namespace !== undefined && namespace !== '' && object.metadata.namespace !== namespace) return;
        if (!matches(object) || this.#cut.has(this.#answers.get(response) ?? '')) return;
        // What a selector begins to match is new to its watch.
        const isNew = type === 'MODIFIED' && !seen.has(object.metadata.uid);
        seen.add(object.metadata.uid);
        write({ type: isNew ? 'ADDED' : type, object });
      });
      response.once('close', stop);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      write({
        type: 'ERROR',
        object: { kind: 'Status', code: error.status, reason: error.reason, message: error.message },
      });
      response.end();
    }
  }

  #userOf({ headers, socket }: IncomingMessage): string | undefined {
    const user = this.signer && Signer.userOf(socket as TLSSocket);
    if (user !== undefined) return this.distrusted.has(user) ? undefined : user;
    const token = headers.authorization?.replace('Bearer ', '') ?? '';
    if (this.bootstrapTokens.has(token)) return `${BOOTSTRAP_USER}${token.slice(0, 6)}`;
    return token === TOKEN ? 'admin' : undefined;
  }

  /** As the API server and the signer for nodes check them. */
  #checkRequest({ spec }: Record<string, unknown>): void {
    const { request, usages } = spec as { request: string; usages: string[] };
    const subject = this.signer?.subjectOf(Buffer.from(request, 'base64').toString()) ?? '';
    if (!/^CN=system:node:[a-z0-9.-]+,O=system:nodes$/.test(subject) || !usages.includes('client auth'))
      throw new Refused(422, 'Invalid', `the request for ${subject} is invalid`);
  }

  #checkQuota(namespace: string): void {
    const [quota] = this.objects.list('resourcequotas', namespace);
    if (quota === undefined) return;
    const most = Number(quota.spec.hard.pods ?? Number.POSITIVE_INFINITY);
    const used = this.objects
      .list('pods', namespace)
      .filter(({ status }) => status?.phase !== 'Failed').length;
    if (used < most) return;
    throw new Refused(
      403,
      'Forbidden',
      `pods is forbidden: exceeded quota: tenant, requested: pods=1, used: pods=${used}, limited: pods=${most}`,
    );
  }

  #refuse(response: ServerResponse, error: unknown): void {
    const { status = 500, reason = 'InternalError', message } = error as Refused;
    send(response, status, { kind: 'Status', status: 'Failure', code: status, reason, message });
  }
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? {} : JSON.parse(text);
}

function send(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent) return void response.destroy();
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}
