// The addresses that one guest may reach, and until when: what the set in its namespace has, as far as this daemon knows.
import { openAddresses } from './rules/guest.ts';

export type Opening = { readonly address: string; readonly ttlS: number };

/** The kernel may take so long to forget what is over. */
const LATE_MS = 2000;
/** So much later an end must be to be worth a change. */
const WORTH_MS = 500;
/** Above this, ends that have passed are forgotten. */
const MANY = 1024;

export class AllowedAddresses {
  readonly #apply: (commands: string) => Promise<unknown>;
  readonly #until = new Map<string, number>();
  /** What is to be opened by the next command: one is under way at a time. */
  #next: Map<string, number> | undefined;
  #opening: Promise<void> = Promise.resolve();

  constructor(apply: (commands: string) => Promise<unknown>) {
    this.#apply = apply;
  }

  /** What an earlier daemon opened. */
  remember(openings: readonly Opening[]): void {
    for (const { address, ttlS } of openings) this.#until.set(address, Date.now() + ttlS * 1000);
  }

  /** Resolves when all of them can be reached for at least so long. */
  open(openings: readonly Opening[]): Promise<void> {
    const now = Date.now();
    const wanted = openings.filter(
      ({ address, ttlS }) => (this.#until.get(address) ?? 0) + WORTH_MS < now + ttlS * 1000,
    );
    // Also what is open already may be so only in a command that is under way.
    if (wanted.length === 0) return this.#opening;
    if (this.#next === undefined) {
      this.#next = new Map();
      this.#opening = this.#opening.catch(() => undefined).then(() => this.#flush());
    }
    for (const { address, ttlS } of wanted)
      this.#next.set(address, Math.max(ttlS, this.#next.get(address) ?? 0));
    return this.#opening;
  }

  async #flush(): Promise<void> {
    const wanted = [...(this.#next ?? [])];
    this.#next = undefined;
    const now = Date.now();
    const changes = wanted.map(([address, ttlS]) => {
      const until = this.#until.get(address) ?? 0;
      const isKnown = until + LATE_MS > now;
      return { address, isKnown, ttlS: Math.max(ttlS, Math.ceil((until - now) / 1000)) };
    });
    await this.#apply(openAddresses(changes));
    for (const { address, ttlS } of changes) this.#until.set(address, now + ttlS * 1000);
    if (this.#until.size > MANY)
      for (const [address, until] of this.#until) if (until + LATE_MS < now) this.#until.delete(address);
  }
}

/** What `nft --json list set` says is in a set. */
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
