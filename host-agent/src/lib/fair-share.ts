// Who gives way in a cache that all tenants share: the one that has most of it, so that no tenant loses what is within an equal
// share, and what is common to them goes only while none has much.

export type Kept = {
  /** Whose it is: a tenant, or a key without one; absent: the operator's, or several tenants'. */
  readonly owner?: string | undefined;
  readonly size: number;
  readonly usedAtMs: number;
  /** In use, or just made: it counts, and stays. */
  readonly isPinned: boolean;
};

/** Of the whole: a tenant that has more gives way before what is common. */
const SHARE = 1 / 4;

/** What has to go until the rest is within `most`: of who has the most that can go, what was unused for the longest. */
export function chooseEvicted<T extends Kept>(entries: readonly T[], most: number): T[] {
  let total = 0;
  const sizes = new Map<string | undefined, number>();
  const removable = new Map<string | undefined, T[]>();
  for (const entry of entries) {
    total += entry.size;
    sizes.set(entry.owner, (sizes.get(entry.owner) ?? 0) + entry.size);
    const own = removable.get(entry.owner);
    if (entry.isPinned) continue;
    if (own === undefined) removable.set(entry.owner, [entry]);
    else own.push(entry);
  }
  // The last is the first to go.
  for (const own of removable.values()) own.sort((a, b) => b.usedAtMs - a.usedAtMs);
  const evicted: T[] = [];
  const weigh = (owner: string | undefined): number => {
    const size = sizes.get(owner) ?? 0;
    return owner !== undefined && size > most * SHARE ? size + total : size;
  };
  while (total > most) {
    const [owner, own] =
      [...removable].filter(([, left]) => left.length > 0).sort(([a], [b]) => weigh(b) - weigh(a))[0] ?? [];
    const oldest = own?.pop();
    if (oldest === undefined) break;
    total -= oldest.size;
    sizes.set(owner, (sizes.get(owner) ?? 0) - oldest.size);
    evicted.push(oldest);
  }
  return evicted;
}
