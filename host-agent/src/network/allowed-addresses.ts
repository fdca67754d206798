// The addresses that one guest may reach, each with its expiry time. Mirrors the nftables sets in the guest's
// namespace.
import { openAddresses } from './rules/guest.ts';
import type { Element } from './rules/table.ts';

export type Opening = { readonly address: string; readonly ttlS: number };

/** Allowance for the kernel: an expired set element may stay this long. */
const LATE_MS = 2000;
/** An expiry is extended only if the new one is later by at least this much. */
const MIN_EXTENSION_MS = 500;
/** Above this number of entries, expired ones are removed from the map. */
const CLEANUP_SIZE = 1024;
/** Elements of one command, whose size is limited. */
const MAX_BATCH = 2000;
const ALLOWLIST_SET = 'allowed';

export class AllowedAddresses {
  readonly #apply: (commands: string) => Promise<unknown>;
  /** By set and address. */
  readonly #until = new Map<string, number>();
  /** Elements of the next nftables command. Only one command runs at a time. */
  #next: Map<string, Element> | undefined;
  #opening: Promise<void> = Promise.resolve();

  constructor(apply: (commands: string) => Promise<unknown>) {
    this.#apply = apply;
  }

  /** Forgets all others: this is what is open. */
  reset(elements: readonly Element[]): void {
    this.#until.clear();
    for (const element of elements) this.#until.set(keyOf(element), Date.now() + element.ttlS * 1000);
  }

  /** Resolves when all addresses are reachable for at least their TTL. */
  open(openings: readonly Opening[], sets: readonly string[] = [ALLOWLIST_SET]): Promise<void> {
    const now = Date.now();
    const pending = sets
      .flatMap((set) => openings.map(({ address, ttlS }) => ({ set, address, ttlS })))
      .filter((each) => (this.#until.get(keyOf(each)) ?? 0) + MIN_EXTENSION_MS < now + each.ttlS * 1000);
    // An address that already counts as open may be part of the command that is still running.
    if (pending.length === 0) return this.#opening;
    if (this.#next === undefined) {
      this.#next = new Map();
      this.#opening = this.#opening.catch(() => undefined).then(() => this.#flush());
    }
    for (const each of pending) {
      const ttlS = Math.max(each.ttlS, this.#next.get(keyOf(each))?.ttlS ?? 0);
      this.#next.set(keyOf(each), { ...each, ttlS });
    }
    return this.#opening;
  }

  async #flush(): Promise<void> {
    const pending = [...(this.#next?.values() ?? [])];
    this.#next = undefined;
    for (let at = 0; at < pending.length; at += MAX_BATCH) await this.#add(pending.slice(at, at + MAX_BATCH));
    const now = Date.now();
    if (this.#until.size > CLEANUP_SIZE)
      for (const [key, until] of this.#until) if (until + LATE_MS < now) this.#until.delete(key);
  }

  async #add(pending: readonly Element[]): Promise<void> {
    const now = Date.now();
    const changes = pending.map((each) => {
      const until = this.#until.get(keyOf(each)) ?? 0;
      const isKnown = until + LATE_MS > now;
      return { ...each, isKnown, ttlS: Math.max(each.ttlS, Math.ceil((until - now) / 1000)) };
    });
    await this.#apply(openAddresses(changes));
    for (const each of changes) this.#until.set(keyOf(each), now + each.ttlS * 1000);
  }
}

function keyOf({ set, address }: Pick<Element, 'set' | 'address'>): string {
  return `${set} ${address}`;
}

/** Parses the elements of all sets of addresses from the output of `nft --json list table`. */
export function readElements(json: string): Element[] {
  return readSets(json).flatMap(({ name, elem }) =>
    elem.flatMap((entry) => {
      const { val, expires } = (entry as { elem?: { val?: unknown; expires?: unknown } }).elem ?? {};
      return typeof val === 'string' && typeof expires === 'number'
        ? [{ set: name, address: val, ttlS: expires }]
        : [];
    }),
  );
}

/** The names of the sets in it. */
export function readSetNames(json: string): string[] {
  return readSets(json).map(({ name }) => name);
}

function readSets(json: string): { readonly name: string; readonly elem: readonly unknown[] }[] {
  const { nftables = [] } = JSON.parse(json) as {
    nftables?: readonly { set?: { name?: string; elem?: readonly unknown[] } }[];
  };
  return nftables.flatMap(({ set }) =>
    set === undefined ? [] : [{ name: set.name ?? '', elem: set.elem ?? [] }],
  );
}
