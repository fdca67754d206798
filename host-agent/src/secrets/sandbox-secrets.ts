// Secrets of sandboxes as the rest of the daemon uses them: bound at a create, fork or change, opened for the gateway.
import type { Sealer } from '../lib/seal.ts';
import {
  type BindingChanges,
  changeBindings,
  type OpenedSecret,
  openBindings,
  type StoredBinding,
} from './bindings.ts';
import type { SecretStore } from './secret-store.ts';

export class SandboxSecrets {
  readonly #sealer: Sealer;
  readonly #secrets: SecretStore;

  constructor(sealer: Sealer, secrets: SecretStore) {
    this.#sealer = sealer;
    this.#secrets = secrets;
  }

  /** `scope`: of the client's stored secrets. AppError as `changeBindings`. */
  change(before: readonly StoredBinding[], changes: BindingChanges, scope: string): StoredBinding[] {
    return changeBindings(before, changes, scope, { sealer: this.#sealer, secrets: this.#secrets });
  }

  /** The caller wipes them. AppError internal for one that is sealed with another key. */
  open(bindings: readonly StoredBinding[]): Promise<OpenedSecret[]> {
    return openBindings(bindings, { sealer: this.#sealer, secrets: this.#secrets });
  }

  /** Without opening it. */
  hasValue({ sealed, use }: StoredBinding): boolean {
    return sealed !== undefined || (use !== undefined && this.#secrets.has(use.scope, use.name));
  }

  /** A request that has the values is never known by a digest that can be searched for. */
  digest(text: string): string {
    return this.#sealer.digest(Buffer.from(text));
  }
}
