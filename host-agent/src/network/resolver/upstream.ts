// Asking the host's own resolvers, or those that the operator names, for the addresses of a name. CNAMEs are followed by them;
// what counts are the addresses at the end.
import { promises as dns } from 'node:dns';
import { errnoOf } from '../../lib/errors.ts';

export type Found = { readonly address: string; readonly ttlS: number };

export interface Upstream {
  /** Empty when the name has no IPv4 address, undefined when there is no such name. Rejects when nobody could say. */
  resolve(name: string): Promise<readonly Found[] | undefined>;
}

/** What a question may take. Guests' own resolvers wait for 5 s, and those that then ask again get the same answer. */
const ANSWER_MS = 5000;
/** Whoever has not answered by then may still: the next is asked beside it. */
const NEXT_MS = 1500;
/** A question, or its answer, may have been lost. */
const ROUNDS = 2;
/** As the host's C library. */
const MAX_SERVERS = 3;
/** The host's resolvers may have changed: a new lease, another network. */
const REFRESH_MS = 10_000;
/** One that others were faster than is asked after them for so long. */
const LATE_MS = 30_000;

export class HostUpstream implements Upstream {
  readonly #named: readonly string[];
  #servers: readonly string[] = [];
  #refreshAt = 0;
  readonly #lateUntil = new Map<string, number>();

  /** `servers`: addresses, with a port or without; none: the host's. */
  constructor(servers: readonly string[]) {
    this.#named = servers;
  }

  resolve(name: string): Promise<readonly Found[] | undefined> {
    const servers = this.#inOrder();
    const plan = Array.from({ length: ROUNDS }, () => servers).flat();
    const asking = new Map<dns.Resolver, string>();
    const failed = new Set<string>();
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      let isOver = false;
      const end = (): void => {
        isOver = true;
        clearTimeout(timer);
        for (const resolver of asking.keys()) resolver.cancel();
      };
      const askNext = (cause?: unknown): void => {
        clearTimeout(timer);
        const server = plan.splice(0, plan.findIndex((each) => !failed.has(each)) + 1).at(-1);
        if (server === undefined) {
          if (asking.size === 0) reject(cause ?? new Error('the host names no name server'));
          return;
        }
        const resolver = this.#openResolver(server);
        asking.set(resolver, server);
        ask(resolver, name).then(
          (found) => {
            if (isOver) return;
            this.#note(resolver, asking);
            end();
            resolve(found);
          },
          (error: unknown) => {
            asking.delete(resolver);
            failed.add(server);
            if (!isOver) askNext(error);
          },
        );
        timer = setTimeout(askNext, NEXT_MS);
      };
      askNext();
    });
  }

  /** One for each question: the library measures how fast a server is, and would wait for one that usually is for a second only. */
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

  /** Those that were asked before the one that answered are late. */
  #note(winner: dns.Resolver, asked: ReadonlyMap<dns.Resolver, string>): void {
    for (const [resolver, server] of asked) {
      if (resolver === winner) return void this.#lateUntil.delete(server);
      this.#lateUntil.set(server, performance.now() + LATE_MS);
    }
  }
}

/** Rejects when this one could not say. */
async function ask(resolver: dns.Resolver, name: string): Promise<readonly Found[] | undefined> {
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
