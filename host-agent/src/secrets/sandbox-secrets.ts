// Secrets of sandboxes as the rest of the daemon uses them: bound at a create, fork or change, opened for the gateway.
import type { Logger } from 'pino';
import type { Sealer } from '../lib/seal.ts';
import {
  type BindingChanges,
  changeBindings,
  type OpenedSecret,
  openBindings,
  type StoredBinding,
  wipe,
} from './bindings.ts';
import type { SecretStore } from './secret-store.ts';

export class SandboxSecrets {
  readonly #sealer: Sealer;
  readonly #secrets: SecretStore;
  /** Of the operator. */
  readonly #allowsPlainHttp: boolean;

  readonly #log: Logger;

  constructor(sealer: Sealer, secrets: SecretStore, log: Logger, allowsPlainHttp = false) {
    this.#log = log;
    this.#allowsPlainHttp = allowsPlainHttp;
    this.#sealer = sealer;
    this.#secrets = secrets;
  }

  /** `scope`: of the client's stored secrets. AppError as `changeBindings`. */
  change(before: readonly StoredBinding[], changes: BindingChanges, scope: string): StoredBinding[] {
    return changeBindings(before, changes, scope, { sealer: this.#sealer, secrets: this.#secrets });
  }

  /** The caller wipes them. One that cannot be used has no value. */
  open(bindings: readonly StoredBinding[]): Promise<OpenedSecret[]> {
    return openBindings(bindings, {
      ...{ sealer: this.#sealer, secrets: this.#secrets },
      onFailed: (secret, err) => this.#log.error({ err, secret }, 'a secret of a sandbox cannot be used'),
    });
  }

  /** In the form of the gateway's wire; the values are text then, which cannot be wiped. */
  async forGateway(bindings: readonly StoredBinding[]) {
    const opened = await this.open(bindings);
    const secrets = opened.map(({ value, ...secret }) => ({
      ...secret,
      value: value?.toString('base64') ?? null,
    }));
    wipe(opened);
    return { secrets, allowsPlainHttp: this.#allowsPlainHttp };
  }

  /** Whether the value of any may change without a call. */
  areRead(bindings: readonly StoredBinding[]): boolean {
    return bindings.some(({ use }) => use !== undefined && this.#secrets.isRead(use.scope, use.name));
  }

  /** Called after a stored secret was changed or removed; the change waits for it. */
  onChange(listener: (scope: string, name: string) => Promise<void>): Disposable {
    return this.#secrets.onChange(listener);
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
