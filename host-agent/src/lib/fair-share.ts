// Chooses what to evict from a cache that tenants share. The tenant that uses most gives way first (LRU among its
// entries), so no tenant loses what is within an equal share. Common entries go only while no tenant has much.

export type Kept = {
  /** The tenant, or the key if it has no tenant; absent: the operator, or shared by several tenants. */
  readonly owner?: string | undefined;
  readonly size: number;
  readonly usedAtMs: number;
  /** In use or new: counted, but never evicted. */
  readonly isPinned: boolean;
};

/** A tenant that uses more than this share of the capacity is evicted before common entries. */
const SHARE = 1 / 4;

/** Entries to evict until the rest fits: the least recently used of the owner with the most evictable bytes. */
export function chooseEvicted<T extends Kept>(entries: readonly T[], maxBytes: number): T[] {
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
  // Sorted by most recent use, so `pop` takes the least recently used.
  for (const own of removable.values()) own.sort((a, b) => b.usedAtMs - a.usedAtMs);
  const evicted: T[] = [];
  const weigh = (owner: string | undefined): number => {
    const size = sizes.get(owner) ?? 0;
    return owner !== undefined && size > maxBytes * SHARE ? size + total : size;
  };
  while (total > maxBytes) {
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
