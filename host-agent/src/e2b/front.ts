// The front for E2B's SDKs, behind one address: the control plane, envd of each sandbox, and the ports of sandboxes.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import type { Logger } from 'pino';
import type { Authenticator } from '../http/authentication.ts';
import {
  addressOf,
  connectionOf,
  endOf,
  type HttpApp,
  type HttpContext,
  type HttpEnv,
  headerOf,
} from '../http/context.ts';
import { type AuditSink, audit, auditRefusal, newRequestId } from '../http/middleware.ts';
import { type ClientOf, nameClient } from '../http/server/client-address.ts';
import {
  type AllowedHost,
  type Cors,
  findExcess,
  findRefusal,
  HostNames,
} from '../http/server/request-check.ts';
import { answerDirectly, toResponse } from '../http/server/responses.ts';
import type { Addresses, Gateway, ServedGateway } from '../ingress/index.ts';
import { ANONYMOUS, type Principal } from '../keys/index.ts';
import { AppError, isAppError } from '../lib/errors.ts';
import type { SandboxHost } from '../sandboxes/interface.ts';
import { ControlContext } from './control/context.ts';
import { serveExtras } from './control/extras.ts';
import { serveSandboxes } from './control/sandboxes.ts';
import { serveSnapshots } from './control/snapshots.ts';
import { serveTemplates, serveUploads } from './control/templates.ts';
import { EVERY_ORIGIN, type Origins, serveCors } from './cors.ts';
import { EnvdAccess } from './envd/access.ts';
import { serveEnvd } from './envd/serve-envd.ts';
import { E2bError, toE2bAnswer, unsupported } from './errors.ts';
import { answerOwner, isOwnerRequest } from './owner.ts';
import { refuse } from './port-access.ts';
import type { Rest } from './rest.ts';
import type { SandboxRecords } from './sandbox-records.ts';
import { findTarget, hostOf, KNOWN, RPC, toBaseUrl } from './target.ts';
import type { Builder } from './templates/builder.ts';
import type { Catalogue } from './templates/find-template.ts';

export type E2bFrontOptions = {
  readonly rest: Rest;
  readonly sandboxes: SandboxHost;
  readonly authenticator: Authenticator;
  readonly audit: AuditSink;
  readonly records: SandboxRecords;
  readonly catalogue: Catalogue;
  readonly builder: Builder;
  readonly addresses: Addresses;
  /** Of the ports of sandboxes. */
  readonly ports: Gateway;
  /** Of the host names of sandboxes, with its port. */
  readonly domain: () => string;
  readonly allowedHosts: readonly AllowedHost[];
  readonly clientOf?: ClientOf;
  /** Whether a gateway of the fleet asks it by itself. */
  readonly isQuestion?: (request: IncomingMessage) => boolean;
  /** Origins of the control plane. */
  readonly cors: Cors;
  readonly log: Logger;
  /** Aborts when the daemon stops. */
  readonly ending: AbortSignal;
};

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

export class E2bFront implements ServedGateway {
  readonly #options: E2bFrontOptions;
  readonly #names: HostNames;
  readonly #control: Serve;
  readonly #envd: Serve;
  readonly #watchers: { close(): void };
  readonly #access: EnvdAccess;

  constructor(options: E2bFrontOptions) {
    this.#options = options;
    this.#names = new HostNames(options.allowedHosts, options.addresses.scheme);
    const rest = options.rest;
    const envd = this.#createApp();
    const access = new EnvdAccess(options.records, options.authenticator);
    this.#access = access;
    this.#watchers = serveEnvd(envd, {
      access,
      rest,
      sandboxes: options.sandboxes,
      defaultsOf: (id) => options.records.find(id)?.defaults,
      sandboxOf: (c) => this.#sandboxOf(c),
      admitted: (c, principal) => this.#admitted(c, principal),
    });
    this.#envd = this.#toListener(finish(envd));
    this.#control = this.#toListener(finish(this.#createControl(rest)));
  }

  get open(): Gateway['open'] {
    return this.#options.ports.open;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const isAsked = isOwnerRequest(request) && this.#options.isQuestion?.(request) === true;
      if (isAsked) return await answerOwner(this.#access, request, response);
      const { kind } = findTarget(request, this.#options.addresses);
      // The gateway has checks of its own.
      if (kind === 'port') return await this.#options.ports.serve(request, response);
      nameClient(request, this.#options.clientOf);
      const isEnvd = kind === 'envd';
      const origins = isEnvd ? EVERY_ORIGIN : this.#options.cors;
      this.#check(request, origins);
      if (serveCors(request, response, origins)) return;
      // For ports the guest decides.
      if (/^100-continue$/i.test(request.headers.expect ?? '')) response.writeContinue();
      return isEnvd ? this.#envd(request, response) : this.#control(request, response);
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  async serveUpgrade(request: IncomingMessage, head: Buffer): Promise<void> {
    await this.#options.ports.serveUpgrade(request, head);
  }

  close(): void {
    this.#options.builder.close();
    this.#watchers.close();
    this.#options.ports.close();
  }

  #check(request: IncomingMessage, origins: Origins): void {
    const isOwnName = this.#options.addresses.find(hostOf(request), {}) === undefined;
    const fault = isOwnName ? findRefusal(request, this.#names, origins) : findExcess(request);
    if (fault !== undefined) throw fault;
  }

  #sandboxOf(c: HttpContext): string | undefined {
    const sought = this.#options.addresses.find(headerOf(c, 'host') ?? '', headersOf(c));
    return sought !== undefined && 'id' in sought ? sought.id : undefined;
  }

  #createApp(): HttpApp {
    const app: HttpApp = new Hono<HttpEnv>();
    app.use(async (c, next) => {
      c.set('requestId', newRequestId());
      c.set('log', this.#options.log);
      c.set('principal', ANONYMOUS);
      await next();
    });
    app.onError((error, c) => {
      const requestId = c.get('requestId');
      const { status, headers, body } = toE2bAnswer(error, requestId);
      const { incoming } = connectionOf(c);
      // Other refusals are those of the REST interface, which has recorded them.
      const isOwn = status === 401 || (isAppError(error) && error.code === 'forbidden');
      if (isOwn && incoming !== undefined) this.#audit(incoming, error, requestId);
      if (status === 500) this.#options.log.error({ err: error, requestId }, 'e2b request failed');
      return c.json(body, status as 400, headers);
    });
    return app;
  }

  #createControl(rest: Rest): HttpApp {
    const { authenticator, records, builder, catalogue, domain } = this.#options;
    const app = this.#createApp();
    const context = new ControlContext({ rest, records, catalogue, domain });
    const recordAudit = audit(this.#options.audit);
    serveUploads(app, context, { builder, recordAudit });
    app.use(async (c, next) => {
      this.#admitted(c, await this.#authenticate(c, authenticator));
      await next();
    });
    // Most of the front's requests are recorded as those of the REST interface.
    for (const path of ['/templates/*', '/v2/templates/*', '/v3/templates'])
      app.on(['POST', 'PATCH', 'DELETE'], path, recordAudit);
    serveSandboxes(app, context, (id) => builder.isHidden(id));
    serveSnapshots(app, context);
    serveTemplates(app, context, {
      ...{ catalogue, builder },
      baseUrl: (c) => toBaseUrl(connectionOf(c).incoming, this.#options.addresses.scheme),
      isQuestion: (c) => {
        const { incoming } = connectionOf(c);
        return incoming !== undefined && this.#options.isQuestion?.(incoming) === true;
      },
    });
    serveExtras(app, context);
    return app;
  }

  #authenticate(c: HttpContext, authenticator: Authenticator): Promise<Principal> {
    const key = headerOf(c, 'x-api-key');
    return authenticator.authenticate({
      authorization: key === undefined ? headerOf(c, 'authorization') : `Bearer ${key}`,
      protocols: undefined,
      address: addressOf(c),
    });
  }

  /** Its connection is closed when the key is revoked, also while the request is in work. */
  #admitted(c: HttpContext, principal: Principal): void {
    c.set('principal', principal);
    const { incoming } = connectionOf(c);
    const lifetime = endOf(c);
    if (principal.kind !== 'key' || incoming === undefined || lifetime === undefined) return;
    this.#options.authenticator.open.add(principal, incoming.socket, lifetime);
  }

  #audit(request: IncomingMessage, error: unknown, requestId: string): void {
    const known = error instanceof E2bError ? new AppError('unauthenticated', error.message) : error;
    auditRefusal(this.#options.audit, request, known, requestId);
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const requestId = newRequestId();
    auditRefusal(this.#options.audit, request, error, requestId);
    refuse(request, response, error, requestId);
  }

  #toListener(app: HttpApp): Serve {
    const { log, ending } = this.#options;
    const listener = getRequestListener(answerDirectly({ app, log, ending }), {
      hostname: 'localhost',
      errorHandler: (error) => toResponse(error, log),
      autoCleanupIncoming: false,
    });
    return (request, response) => void listener(request, response);
  }
}

function headersOf(c: HttpContext): IncomingHttpHeaders {
  return connectionOf(c).incoming?.headers ?? c.req.header();
}

function finish(app: HttpApp): HttpApp {
  app.notFound((c) => {
    const { method, path } = c.req;
    if (KNOWN.test(path) || RPC.test(path)) throw unsupported(`${method} ${path.slice(0, 200)}`);
    throw new E2bError(404, `there is no ${method} ${path.slice(0, 200)}`);
  });
  return app;
}
