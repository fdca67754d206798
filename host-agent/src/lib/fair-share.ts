// Who gives way in a cache that all tenants share: whoever has most of it, so that nobody loses what is within an equal share.

export type Kept = {
  /** Whose it is: a tenant, or a key without one; absent: nobody's. */
  readonly owner?: string | undefined;
  readonly size: number;
  readonly usedAtMs: number;
  /** In use, or just made: it counts, and stays. */
  readonly isPinned: boolean;
};

/** What has to go until the rest is within `most`: of who has the most that can go, what was unused for the longest. */
export function chooseEvicted<T extends Kept>(entries: readonly T[], most: number): T[] {
  let total = 0;
  const sizes = new Map<string | undefined, number>();
  const removable = new Map<string | undefined, T[]>();
  for (const entry of entries) {
    total += entry.size;
    sizes.set(entry.owner, (sizes.get(entry.owner) ?? 0) + entry.size);
    if (!entry.isPinned) removable.set(entry.owner, [...(removable.get(entry.owner) ?? []), entry]);
  }
  for (const own of removable.values()) own.sort((a, b) => a.usedAtMs - b.usedAtMs);
  const evicted: T[] = [];
  while (total > most) {
    const [owner, own] =
      [...removable]
        .filter(([, left]) => left.length > 0)
        .sort(([a], [b]) => (sizes.get(b) ?? 0) - (sizes.get(a) ?? 0))[0] ?? [];
    const oldest = own?.shift();
    if (oldest === undefined) break;
    total -= oldest.size;
    sizes.set(owner, (sizes.get(owner) ?? 0) - oldest.size);
    evicted.push(oldest);
  }
  return evicted;
}
