// Names of templates that the operator has given: `sandboxd templates set`. They are for all tenants, and hold at once
// in a running daemon.
import type { Store, Table } from '../../store/store.ts';

export const OPERATOR_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,254}[A-Za-z0-9])?$/;

/** What a name leads to: a profile, an image, or the id of a snapshot. */
export type NamedTarget = { readonly target: string; readonly setAtMs: number };

export class OperatorNames {
  readonly #table: Table<NamedTarget>;

  constructor(store: Store) {
    this.#table = store.table('e2b_names');
  }

  list(): readonly (NamedTarget & { readonly name: string })[] {
    return this.#table.all().map(({ id, record }) => ({ name: id, ...record }));
  }

  /** Also names that were set a moment ago by the command. */
  find(name: string): string | undefined {
    return OPERATOR_NAME.test(name) ? this.#table.latest(name)?.target : undefined;
  }

  async set(name: string, target: string): Promise<void> {
    await this.#table.put(name, { target, setAtMs: Date.now() });
  }

  /** False if there is none. */
  async remove(name: string): Promise<boolean> {
    if (this.#table.latest(name) === undefined) return false;
    await this.#table.remove(name);
    return true;
  }
}
