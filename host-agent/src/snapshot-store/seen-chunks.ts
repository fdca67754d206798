// Chunks that this process has seen in the bucket, so that an unchanged one costs no request.

/**
 * A chunk that no manifest names is deleted when it is a day old (store-collector.ts). A host that names one that was
 * there already must therefore know that it is younger, by the time that an upload may take: it is given a new age when
 * it is this old.
 */
export const MAX_REUSED_AGE_MS = 12 * 3_600_000;
/** With the limit above, far from the age of deletion. */
export const MAX_UPLOAD_MS = 6 * 3_600_000;
export const COLLECTED_AGE_MS = 24 * 3_600_000;

/** 64 bytes of name, and some 100 of the map. */
const MAX_CHUNKS = 200_000;

export class SeenChunks {
  /** When each reaches MAX_REUSED_AGE_MS, by `performance.now()`; the oldest first. */
  readonly #until = new Map<string, number>();

  has(path: string): boolean {
    const until = this.#until.get(path);
    if (until !== undefined && until > performance.now()) return true;
    this.#until.delete(path);
    return false;
  }

  add(path: string, agoMs: number): void {
    this.#until.delete(path);
    this.#until.set(path, performance.now() + MAX_REUSED_AGE_MS - agoMs);
    if (this.#until.size <= MAX_CHUNKS) return;
    const [oldest] = this.#until.keys();
    if (oldest !== undefined) this.#until.delete(oldest);
  }

  forget(path: string): void {
    this.#until.delete(path);
  }

  clear(): void {
    this.#until.clear();
  }
}
