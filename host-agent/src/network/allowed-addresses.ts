// The addresses that one guest may reach, each with its expiry time. Mirrors the nftables set in the guest's namespace.
import { openAddresses } from './rules/guest.ts';

export type Opening = { readonly address: string; readonly ttlS: number };

/** Allowance for the kernel: an expired set element may stay this long. */
const LATE_MS = 2000;
/** An expiry is extended only if the new one is later by at least this much. */
const MIN_EXTENSION_MS = 500;
/** Above this number of entries, expired ones are removed from the map. */
const CLEANUP_SIZE = 1024;

export class AllowedAddresses {
  readonly #apply: (commands: string) => Promise<unknown>;
  readonly #until = new Map<string, number>();
  /** Addresses of the next nftables command. Only one command runs at a time. */
  #next: Map<string, number> | undefined;
  #opening: Promise<void> = Promise.resolve();

  constructor(apply: (commands: string) => Promise<unknown>) {
    this.#apply = apply;
  }

  /** Restores what an earlier daemon opened. */
  remember(openings: readonly Opening[]): void {
    for (const { address, ttlS } of openings) this.#until.set(address, Date.now() + ttlS * 1000);
  }

  /** Resolves when all addresses are reachable for at least their TTL. */
  open(openings: readonly Opening[]): Promise<void> {
    const now = Date.now();
    const pending = openings.filter(
      ({ address, ttlS }) => (this.#until.get(address) ?? 0) + MIN_EXTENSION_MS < now + ttlS * 1000,
    );
    // An address that already counts as open may be part of the command that is still running.
    if (pending.length === 0) return this.#opening;
    if (this.#next === undefined) {
      this.#next = new Map();
      this.#opening = this.#opening.catch(() => undefined).then(() => this.#flush());
    }
    for (const { address, ttlS } of pending)
      this.#next.set(address, Math.max(ttlS, this.#next.get(address) ?? 0));
    return this.#opening;
  }

  async #flush(): Promise<void> {
    const pending = [...(this.#next ?? [])];
    this.#next = undefined;
    const now = Date.now();
    const changes = pending.map(([address, ttlS]) => {
      const until = this.#until.get(address) ?? 0;
      const isKnown = until + LATE_MS > now;
      return { address, isKnown, ttlS: Math.max(ttlS, Math.ceil((until - now) / 1000)) };
    });
    await this.#apply(openAddresses(changes));
    for (const { address, ttlS } of changes) this.#until.set(address, now + ttlS * 1000);
    if (this.#until.size > CLEANUP_SIZE)
      for (const [address, until] of this.#until) if (until + LATE_MS < now) this.#until.delete(address);
  }
}

/** Parses the elements of a set from the output of `nft --json list set`. */
export function readOpenings(json: string): Opening[] {
  const { nftables = [] } = JSON.parse(json) as {
    nftables?: readonly { set?: { elem?: readonly unknown[] } }[];
  };
  return nftables.flatMap(({ set }) =>
    (set?.elem ?? []).flatMap((entry) => {
      const { val, expires } = (entry as { elem?: { val?: unknown; expires?: unknown } }).elem ?? {};
      return typeof val === 'string' && typeof expires === 'number' ? [{ address: val, ttlS: expires }] : [];
    }),
  );
}
