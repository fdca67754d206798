// How many requests had a stored secret, and when the last one did, as gateways report it.
import type { Store, Table } from '../store/store.ts';

/** A count in the registry may be as old. */
const WRITE_MS = 60_000;

export type SecretUse = { readonly count: number; readonly lastAtMs: number };

/** By id of the secret. The caller notes only secrets that exist, so there are no more than those. */
export class SecretUses {
  readonly #table: Table<SecretUse>;
  readonly #known = new Map<string, SecretUse & { readonly writtenAtMs: number }>();
  readonly #onError: (error: unknown) => void;

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#table = store.table('secret_uses');
    this.#onError = onError;
  }

  of(id: string): SecretUse | undefined {
    return this.#known.get(id) ?? this.#table.get(id);
  }

  /** Never fails, and never waits. */
  note(id: string): void {
    const now = Date.now();
    const { count } = this.of(id) ?? { count: 0 };
    const { writtenAtMs = 0 } = this.#known.get(id) ?? {};
    const use = { count: count + 1, lastAtMs: now };
    const isWritten = now - writtenAtMs >= WRITE_MS;
    this.#known.set(id, { ...use, writtenAtMs: isWritten ? now : writtenAtMs });
    if (isWritten) this.#table.put(id, use).catch(this.#onError);
  }

  async remove(id: string): Promise<void> {
    this.#known.delete(id);
    if (this.#table.get(id) !== undefined) await this.#table.remove(id);
  }

  /** Writes what is not yet in the registry. */
  async close(): Promise<void> {
    const records = [...this.#known].map(([id, { count, lastAtMs }]) => ({
      id,
      record: { count, lastAtMs },
    }));
    this.#known.clear();
    if (records.length > 0) await this.#table.putAll(records).catch(this.#onError);
  }
}
