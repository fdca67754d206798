// Queries the upstream name servers: the host's own, or those that the operator configured. They follow CNAMEs; only
// the final addresses are used.
import { promises as dns } from 'node:dns';
import { errnoOf } from '../../lib/errors.ts';

export type Found = { readonly address: string; readonly ttlS: number };

export interface Upstream {
  /** Empty: the name has no IPv4 address. Undefined: the name does not exist. Rejects if no server answered. */
  resolve(name: string): Promise<readonly Found[] | undefined>;
}

/** Timeout of a lookup. Resolvers in guests time out after 5 s; their retry gets the same answer. */
const ANSWER_MS = 5000;
/** After this time the next server is queried in parallel. */
const NEXT_MS = 1500;
/** A packet of the first round may be lost. */
const ROUNDS = 2;
/** glibc's limit (MAXNS). */
const MAX_SERVERS = 3;
/** How often the host's resolver configuration is read again: it changes with a DHCP lease or another network. */
const REFRESH_MS = 10_000;
/** A server that was slower than another one is queried after the others for this time. */
const LATE_MS = 30_000;

export class HostUpstream implements Upstream {
  readonly #named: readonly string[];
  #servers: readonly string[] = [];
  #refreshAt = 0;
  readonly #lateUntil = new Map<string, number>();

  /** `servers`: addresses, with or without a port; empty: the host's own. */
  constructor(servers: readonly string[]) {
    this.#named = servers;
  }

  resolve(name: string): Promise<readonly Found[] | undefined> {
    const servers = this.#inOrder();
    const plan = Array.from({ length: ROUNDS }, () => servers).flat();
    const active = new Map<dns.Resolver, string>();
    const failed = new Set<string>();
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      let isOver = false;
      const end = (): void => {
        isOver = true;
        clearTimeout(timer);
        for (const resolver of active.keys()) resolver.cancel();
      };
      const queryNext = (cause?: unknown): void => {
        clearTimeout(timer);
        const server = plan.splice(0, plan.findIndex((each) => !failed.has(each)) + 1).at(-1);
        if (server === undefined) {
          if (active.size === 0) reject(cause ?? new Error('the host names no name server'));
          return;
        }
        const resolver = this.#openResolver(server);
        active.set(resolver, server);
        query(resolver, name).then(
          (found) => {
            if (isOver) return;
            this.#updateLatency(resolver, active);
            end();
            resolve(found);
          },
          (error: unknown) => {
            active.delete(resolver);
            failed.add(server);
            if (!isOver) queryNext(error);
          },
        );
        timer = setTimeout(queryNext, NEXT_MS);
      };
      queryNext();
    });
  }

  /**
   * One resolver object per query: the library adapts its timeout to a server's measured latency, to only 1 s for a
   * fast one.
   */
  #openResolver(server: string): dns.Resolver {
    const resolver = new dns.Resolver({ timeout: ANSWER_MS, tries: 1 });
    resolver.setServers([server]);
    return resolver;
  }

  #inOrder(): readonly string[] {
    const now = performance.now();
    if (this.#named.length === 0 && now >= this.#refreshAt) {
      this.#refreshAt = now + REFRESH_MS;
      this.#servers = new dns.Resolver().getServers();
    }
    const servers = (this.#named.length > 0 ? this.#named : this.#servers).slice(0, MAX_SERVERS);
    const isLate = (server: string): number => ((this.#lateUntil.get(server) ?? 0) > now ? 1 : 0);
    return servers.sort((a, b) => isLate(a) - isLate(b));
  }

  /** Marks the servers that were queried before the one that answered as slow. */
  #updateLatency(winner: dns.Resolver, queried: ReadonlyMap<dns.Resolver, string>): void {
    for (const [resolver, server] of queried) {
      if (resolver === winner) return void this.#lateUntil.delete(server);
      this.#lateUntil.set(server, performance.now() + LATE_MS);
    }
  }
}

/** Rejects if this server did not answer. */
async function query(resolver: dns.Resolver, name: string): Promise<readonly Found[] | undefined> {
  try {
    const found = await resolver.resolve4(name, { ttl: true });
    return found.map(({ address, ttl }) => ({ address, ttlS: ttl }));
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENODATA') return [];
    if (code === 'ENOTFOUND') return undefined;
    throw error;
  }
}
