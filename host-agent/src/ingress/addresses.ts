// Which port of which sandbox a request is for: by its host name, `<port>-<id or name>.<domain>`, or by headers on the
// domain itself. Also the URLs of ports.
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { MAX_PORT } from '@sandboxd/api';
import { type Authority, DEFAULT_PORTS, parseAuthority, type Scheme } from '../lib/authority.ts';

/** How clients reach the ingress. */
export type PublicAddress = {
  readonly scheme: Scheme;
  /** Lower-case, without a trailing dot. */
  readonly domain: string;
  /** Absent: the default port of the scheme. */
  readonly port?: number | undefined;
  /** Other names of the domain itself, where headers name the port. */
  readonly aliases?: readonly string[];
};

export type Sought = { readonly port: number } & ({ readonly id: string } | { readonly name: string });

/** Resolves to this host without DNS, in browsers and in curl. */
const LOCAL = 'localhost';
/** Headers that name sandbox and port; the second pair is that of E2B's SDKs. */
const HEADERS = [
  ['x-sandbox-id', 'x-sandbox-port'],
  ['e2b-sandbox-id', 'e2b-sandbox-port'],
] as const;

export const ADDRESS_HEADERS: readonly string[] = HEADERS.flat();

export class Addresses {
  #public: PublicAddress;

  constructor(address: PublicAddress) {
    this.#public = address;
  }

  /** Replaces it when the port is known. */
  use(address: PublicAddress): void {
    this.#public = address;
  }

  /** The domain with its port, unless that is the default one of the scheme. */
  get publicHost(): string {
    const { scheme, domain, port } = this.#public;
    return port === undefined || port === DEFAULT_PORTS[scheme] ? domain : `${domain}:${port}`;
  }

  get scheme(): Scheme {
    return this.#public.scheme;
  }

  /** `host` is that of a request. Undefined if it is for no sandbox, or its headers contradict each other. */
  find(host: string, headers: IncomingHttpHeaders): Sought | undefined {
    const at = parseAuthority(host);
    if (at === undefined) return undefined;
    const { domain, aliases = [] } = this.#public;
    if (isBare(at, domain) || aliases.includes(at.host)) return readHeaders(headers);
    const suffix = [domain, LOCAL].find((each) => at.host.endsWith(`.${each}`));
    if (suffix === undefined) return undefined;
    const [, port, sandbox] = /^(\d{1,5})-([a-z0-9_-]+)$/.exec(at.host.slice(0, -suffix.length - 1)) ?? [];
    return toSought(sandbox, port);
  }

  /** The origins of all URLs, as a source of a Content-Security-Policy. */
  get source(): string {
    return `${this.scheme}://*.${this.publicHost}`;
  }

  /** As `source`, where a proxy before this one may have another scheme and port. */
  get sources(): string {
    return ['http', 'https'].map((scheme) => `${scheme}://*.${this.#public.domain}:*`).join(' ');
  }

  /** Host names of URLs have no underscore, which certificates and some clients refuse. */
  urlOf(id: string, port: number): URL {
    return new URL(`${this.scheme}://${port}-${id.replace('_', '-')}.${this.publicHost}/`);
  }
}

function isBare({ host }: Authority, domain: string): boolean {
  const isAddress = isIP(host.replace(/^\[|\]$/g, '')) !== 0;
  return isAddress || host === LOCAL || host === domain || host === `sandbox.${domain}`;
}

function readHeaders(headers: IncomingHttpHeaders): Sought | undefined {
  const named = HEADERS.flatMap(([id, port]) => {
    const values = [headers[id], headers[port]];
    return values.every((value) => value === undefined) ? [] : [values];
  });
  const [values, other] = named;
  if (values === undefined || (other !== undefined && other.join() !== values.join())) return undefined;
  const [sandbox, port] = values;
  return typeof sandbox === 'string' && typeof port === 'string'
    ? toSought(sandbox.toLowerCase(), port)
    : undefined;
}

/** Text of an id's shape is never a name: a name must not inherit the origin of a deleted sandbox. */
function toSought(sandbox: string | undefined, port: string | undefined): Sought | undefined {
  if (sandbox === undefined || port === undefined || !/^[1-9]\d{0,4}$/.test(port)) return undefined;
  if (Number(port) > MAX_PORT) return undefined;
  const suffix = /^sbx[_-]?([0-9a-v]{13})$/.exec(sandbox)?.[1];
  if (suffix !== undefined) return { port: Number(port), id: `sbx_${suffix}` };
  return /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(sandbox) ? { port: Number(port), name: sandbox } : undefined;
}
