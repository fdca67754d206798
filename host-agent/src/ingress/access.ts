// Who may use a port: holders of keys with the operation `connect`, of a link, and everybody if the port is public.
// An untrusted caller gets the same answer whether the sandbox or the port exists or not.
import type { IncomingMessage } from 'node:http';
import type { Authenticator } from '../http/authentication.ts';
import { isFromForeignPage } from '../http/server/request-check.ts';
import {
  assertOperation,
  isLinkToken,
  type KeyHolder,
  type Link,
  type LinkRegistry,
  OPERATOR,
  type Principal,
} from '../keys/index.ts';
import { DEFAULT_PORTS, parseAuthority, parseOrigin, type Scheme } from '../lib/authority.ts';
import { AppError } from '../lib/errors.ts';
import type { Sought } from './addresses.ts';
import { readLinkCookies } from './headers.ts';
import type { PortHost, SandboxPorts } from './port-host.ts';

/** What a request is allowed by. It may end while the answer still runs. */
export type Grant = {
  /** `host`: a host of the fleet decides. */
  readonly by: 'public' | 'key' | 'link' | 'operator' | 'host';
  /** The name of the key or the id of the link. */
  readonly name?: string;
  readonly sandbox: SandboxPorts;
  readonly port: number;
  readonly isValid: () => boolean;
  /** It is for some methods only. */
  readonly hasMethods?: boolean;
  /** The link came in the query of a page visit, and its cookie should replace it there. */
  readonly visit?: { readonly token: string; readonly maxAgeS: number };
};

type Request = Pick<IncomingMessage, 'method' | 'headers' | 'url'>;

export type AccessRequest = {
  readonly request: Request;
  readonly sought: Sought | undefined;
  readonly host: string;
  readonly scheme: Scheme;
  readonly address: string;
  /** The token in the query. */
  readonly token: string | undefined;
};

export class Access {
  readonly #host: PortHost;
  readonly #authenticator: Authenticator;
  readonly #links: LinkRegistry;

  constructor(host: PortHost, authenticator: Authenticator, links: LinkRegistry) {
    this.#host = host;
    this.#authenticator = authenticator;
    this.#links = links;
  }

  /** AppError not_found, unauthenticated, forbidden, exhausted. */
  async admit(asked: AccessRequest): Promise<Grant> {
    const grant = await this.#admit(asked);
    assertNoWorker(asked);
    return grant;
  }

  async #admit(asked: AccessRequest): Promise<Grant> {
    const { request, sought, token, address } = asked;
    const found = sought && this.#host.find(OPERATOR, sought);
    if (sought !== undefined && found?.access(sought.port) === 'public')
      return this.#grant('public', sought, found, () => true, 'public');
    const { authorization } = request.headers;
    const headerToken = one(request.headers['x-access-token']);
    const key = [/^bearer +((?:sbk|e2b)_\S*) *$/i.exec(authorization ?? '')?.[1], headerToken].find((text) =>
      /^(?:sbk|e2b)_/.test(text ?? ''),
    );
    if (key !== undefined) return await this.#admitKey(asked, key);
    const presented = [token, headerToken].find((text) => text !== undefined && isLinkToken(text));
    const link = [presented, ...readLinkCookies(request.headers.cookie)].flatMap(
      (text) => (text === undefined ? undefined : this.#links.find(text)) ?? [],
    );
    const isOf = (each: Link) => each.sandbox === found?.id && each.port === sought?.port;
    const own = link.find(isOf);
    if (own !== undefined && found !== undefined && sought !== undefined)
      return this.#admitLink(asked, own, found, presented);
    if (presented !== undefined) {
      await this.#authenticator.delayAnswer(address);
      throw new AppError('unauthenticated', 'the link is unknown, expired or deleted; ask for another one');
    }
    this.#authenticator.assertDecided();
    if (!this.#authenticator.isOpen) throw noPort();
    assertOwnPage(asked);
    return this.#grant('operator', sought, found, () => this.#authenticator.isOpen);
  }

  async #admitKey({ sought, address }: AccessRequest, key: string): Promise<Grant> {
    const principal = await this.#authenticator.authenticate({
      authorization: `Bearer ${key}`,
      protocols: undefined,
      address,
    });
    assertOperation(principal, 'connect');
    const found = sought && this.#host.find(principal, sought);
    const isValid = () => this.#isStillValid(principal);
    const grant = this.#grant(principal.kind === 'key' ? 'key' : 'operator', sought, found, isValid);
    return principal.kind === 'key' ? { ...grant, name: principal.key } : grant;
  }

  #admitLink(asked: AccessRequest, link: Link, found: SandboxPorts, presented: string | undefined): Grant {
    const { request, sought, token } = asked;
    const method = request.method ?? 'GET';
    const names = method === 'HEAD' ? ['HEAD', 'GET'] : [method];
    if (link.methods !== undefined && !names.some((name) => link.methods?.includes(name)))
      throw new AppError('forbidden', `this link is for ${link.methods.join(', ')} only, not ${method}`);
    const isPresented = presented !== undefined && this.#links.find(presented)?.id === link.id;
    if (!isPresented) assertOwnVisit(asked);
    const grant = this.#grant('link', sought, found, () => this.#links.isValid(link));
    const isVisit = isPresented && presented === token && isPageVisit(request);
    const maxAgeS = Math.max(1, Math.ceil((link.expiresAtMs - Date.now()) / 1000));
    const hasMethods = link.methods !== undefined;
    return { ...grant, name: link.id, hasMethods, ...(isVisit && { visit: { token, maxAgeS } }) };
  }

  #grant(
    by: Grant['by'],
    sought: Sought | undefined,
    sandbox: SandboxPorts | undefined,
    isValid: () => boolean,
    access?: 'public',
  ): Grant {
    if (sought === undefined || sandbox === undefined) throw noPort();
    const { port } = sought;
    if (sandbox.access(port) === undefined)
      throw new AppError('forbidden', `port ${port} of sandbox ${sandbox.id} is not open; open it first`);
    const isOpen = (): boolean => {
      const now = this.#host.find(OPERATOR, { id: sandbox.id, port })?.access(port);
      return now !== undefined && (access === undefined || now === access);
    };
    return { by, sandbox, port, isValid: () => isValid() && isOpen() };
  }

  #isStillValid(principal: Principal): boolean {
    return principal.kind === 'key'
      ? this.#authenticator.isStillValid(principal as KeyHolder)
      : this.#authenticator.isOpen;
  }
}

/** The same for sandboxes and ports that are not there, and for those that are private. */
export function noPort(): AppError {
  return new AppError(
    'not_found',
    'there is no such port, or it is private: open it with a link, or send a key in Authorization or X-Access-Token',
  );
}

/** A page that a person opens, not a script, image or program. */
function isPageVisit({ method, headers }: Request): boolean {
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead && headers.upgrade === undefined && /\btext\/html\b/.test(headers.accept ?? '');
}

/**
 * Browsers add cookies to requests of other pages. Sandboxes share a site, so SameSite does not keep the page of one
 * from using another: only requests of the own origin pass, and navigation. AppError forbidden.
 */
function assertOwnPage({ request, host, scheme }: AccessRequest): void {
  const { origin } = request.headers;
  const isOwn =
    origin === undefined ? !isFromForeignPage(request as IncomingMessage) : isOrigin(origin, host, scheme);
  if (isOwn) return;
  throw new AppError('forbidden', 'a page of another origin asked for this; only a public port answers it');
}

/**
 * The same for the cookie of a link. Only browsers send it, and most say which page asked; without that it opens
 * nothing. AppError forbidden.
 */
function assertOwnVisit(asked: AccessRequest): void {
  assertOwnPage(asked);
  const { request, host, scheme } = asked;
  const { origin, referer, 'sec-fetch-site': site } = request.headers;
  if (origin !== undefined || site !== undefined) return;
  // Sec-Fetch-Site is for secure origins. Programs on this host may lack it.
  if (scheme === 'http' && (isLocal(host) || isVisitInClear(request))) return;
  const own = /^https?:\/\/[^/?#]*/i.exec(referer ?? '')?.[0];
  if (scheme === 'http' && own !== undefined && isOrigin(own, host, scheme)) return;
  throw new AppError(
    'forbidden',
    'the browser does not say which page asked for this; programs send the token of a link in X-Access-Token',
  );
}

function isLocal(host: string): boolean {
  return /(?:^|\.)localhost$/.test(parseAuthority(host)?.host ?? '');
}

/** No script can set the second header on a request to another origin without CORS. */
function isVisitInClear(request: Request): boolean {
  return isPageVisit(request) && request.headers['upgrade-insecure-requests'] === '1';
}

/**
 * A name may be given to another sandbox, whose origin a service worker would then control for as long as the browser
 * keeps it. AppError forbidden.
 */
function assertNoWorker({ request, sought }: AccessRequest): void {
  if (sought === undefined || !('name' in sought) || request.headers['service-worker'] !== 'script') return;
  throw new AppError(
    'forbidden',
    'a URL with the name of a sandbox has no service workers; use the URL with its id',
  );
}

function isOrigin(text: string, host: string, scheme: Scheme): boolean {
  const origin = parseOrigin(text);
  const own = parseAuthority(host);
  if (origin === undefined || own === undefined) return false;
  const port = origin.at.port ?? DEFAULT_PORTS[origin.scheme];
  return origin.at.host === own.host && port === (own.port ?? DEFAULT_PORTS[scheme]);
}

function one(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
