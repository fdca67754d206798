// Asking the host's own resolvers, or those that the operator names, for the addresses of a name. CNAMEs are followed by them;
// what counts are the addresses at the end.
import { promises as dns, getServers } from 'node:dns';
import { errnoOf } from '../../lib/errors.ts';

export type Found = { readonly address: string; readonly ttlS: number };

export interface Upstream {
  /** Empty when the name has no IPv4 address, undefined when there is no such name. Rejects when nobody could say. */
  resolve(name: string): Promise<readonly Found[] | undefined>;
}

const TIMEOUT_MS = 2000;
const TRIES = 2;
/** The host's resolvers may have changed: a new lease, another network. */
const REFRESH_MS = 10_000;

export class HostUpstream implements Upstream {
  readonly #servers: readonly string[];
  #resolver: dns.Resolver | undefined;
  #refreshAt = 0;

  /** `servers`: addresses, with a port or without; none: the host's. */
  constructor(servers: readonly string[]) {
    this.#servers = servers;
  }

  async resolve(name: string): Promise<readonly Found[] | undefined> {
    try {
      const found = await this.#current().resolve4(name, { ttl: true });
      return found.map(({ address, ttl }) => ({ address, ttlS: ttl }));
    } catch (error) {
      const code = errnoOf(error);
      if (code === 'ENODATA') return [];
      if (code === 'ENOTFOUND') return undefined;
      throw error;
    }
  }

  #current(): dns.Resolver {
    const now = performance.now();
    if (this.#resolver !== undefined && (this.#servers.length > 0 || now < this.#refreshAt))
      return this.#resolver;
    this.#refreshAt = now + REFRESH_MS;
    const resolver = new dns.Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
    if (this.#servers.length > 0) resolver.setServers(this.#servers);
    else if (this.#resolver !== undefined && same(resolver.getServers(), this.#resolver.getServers()))
      return this.#resolver;
    this.#resolver = resolver;
    return resolver;
  }
}

/** Those that the host names itself. */
export function hostServers(): string[] {
  return getServers();
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.join() === b.join();
}
