// The rate limits of tenants: creates and changes within a minute.

/** Window of the rate limits. */
const WINDOW_S = 60;

/** Counts of the last minute, for each tenant: by second, because a tenant may send any number. */
export class RecentCounts {
  readonly #counts = new Map<string, Map<number, number>>();

  of(tenant: string): number {
    const counts = this.#counts.get(tenant) ?? new Map<number, number>();
    const isOver = unixSecond() - WINDOW_S;
    for (const second of counts.keys()) if (second <= isOver) counts.delete(second);
    return counts.values().reduce((sum, count) => sum + count, 0);
  }

  add(tenant: string, count: number): void {
    const counts = this.#counts.get(tenant) ?? new Map<number, number>();
    const second = unixSecond();
    counts.set(second, (counts.get(second) ?? 0) + count);
    this.#counts.set(tenant, counts);
  }
}

function unixSecond(): number {
  return Math.floor(Date.now() / 1000);
}
