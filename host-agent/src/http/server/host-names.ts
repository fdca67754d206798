// The names by which clients may call this daemon. A page of any site can give its own name the address of this host
// and have a browser ask for it: the name that the browser then sends is all that tells such a request from a client's.
import { BlockList, isIP, type Socket } from 'node:net';
import {
  type Authority,
  DEFAULT_PORTS,
  parseAuthority,
  parseOrigin,
  type Scheme,
} from '../../lib/authority.ts';

/** A name that the operator allowed. Without a port it means the scheme's own and the daemon's. */
export type AllowedHost = { readonly scheme: Scheme; readonly at: Authority };

/** Where a client connected to. */
type Local = Pick<Socket, 'localAddress' | 'localPort'>;

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * Loopback names and addresses with the daemon's port, the address that the client connected to (no page's name is an
 * address, unless what listens there serves it), and what the operator allowed.
 */
export class HostNames {
  readonly #allowed: readonly AllowedHost[];
  readonly #scheme: Scheme;

  /** `scheme` is what the daemon itself speaks. */
  constructor(allowed: readonly AllowedHost[], scheme: Scheme = 'http') {
    this.#allowed = allowed;
    this.#scheme = scheme;
  }

  /** `text` is a Host header or the authority of a target. */
  hasHost(text: string, local: Local): boolean {
    const asked = parseAuthority(text);
    if (asked === undefined) return false;
    const isAllowed = this.#allowed.some((allowed) => covers(allowed, asked, local));
    return isAllowed || isOwn(asked, this.#scheme, local);
  }

  /** `text` is an Origin header. */
  hasOrigin(text: string, local: Local): boolean {
    const origin = parseOrigin(text);
    if (origin === undefined) return false;
    const { scheme, at } = origin;
    const isAllowed = this.#allowed.some(
      (allowed) => allowed.scheme === scheme && covers(allowed, at, local),
    );
    // No page is from a socket in the file system.
    const isServed = local.localPort !== undefined && scheme === this.#scheme;
    return isAllowed || (isServed && isOwn(at, scheme, local));
  }
}

function covers({ scheme, at }: AllowedHost, asked: Authority, local: Local): boolean {
  const port = asked.port ?? DEFAULT_PORTS[scheme];
  const ports = at.port === undefined ? [DEFAULT_PORTS[scheme], local.localPort] : [at.port];
  return at.host === asked.host && ports.includes(port);
}

/**
 * A socket in the file system has no port, and no page reaches it; what a proxy in front of it is called by is told
 * apart.
 */
function isOwn({ host, port }: Authority, scheme: Scheme, { localAddress = '', localPort }: Local): boolean {
  if (localPort !== undefined && (port ?? DEFAULT_PORTS[scheme]) !== localPort) return false;
  const address = host.replace(/^\[|\]$/g, '');
  const isLoopback = isIP(address) !== 0 && LOOPBACK.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
  return host === 'localhost' || isLoopback || host === toHost(localAddress);
}

/** A socket's address as a client writes it; one of IPv4 on a socket of IPv6 is one of IPv4. */
function toHost(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return isIP(plain) === 6 ? (parseAuthority(`[${plain}]`)?.host ?? '') : plain;
}
