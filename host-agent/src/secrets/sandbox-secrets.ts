// Secrets of sandboxes as the rest of the daemon uses them: bound at a create, fork or change, opened for the gateway.
import { setTimeout as sleep } from 'node:timers/promises';
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

/** What a request waits for at most. */
const REFRESH_MS = 10_000;

/** As the egress log has them. */
const SECRET_FORM_NAMES = ['bearer', 'basic', 'header', 'query', 'body', 'inject'] as const;

type ReportedUse = {
  readonly secrets?: readonly string[] | undefined;
  readonly forms?: readonly string[] | undefined;
};

export class SandboxSecrets {
  readonly #byForm = new Map<string, number>();
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

  /** The caller wipes them. One that cannot be used, or is not read yet, has no value. */
  open(bindings: readonly StoredBinding[]): OpenedSecret[] {
    return openBindings(bindings, {
      ...{ sealer: this.#sealer, secrets: this.#secrets },
      onFailed: (secret, err) => this.#log.error({ err, secret }, 'a secret of a sandbox cannot be used'),
    });
  }

  /** In the form of the gateway's wire; the values are text then, which cannot be wiped. */
  forGateway(bindings: readonly StoredBinding[]) {
    const opened = this.open(bindings);
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

  /** Resolves when the values that sources have are known as they are now, or after a while. Never rejects. */
  async refresh(bindings: readonly Pick<StoredBinding, 'use'>[]): Promise<void> {
    const read = bindings.flatMap(({ use }) =>
      use === undefined ? [] : [this.#secrets.refresh(use.scope, use.name)],
    );
    if (read.length > 0)
      await Promise.race([Promise.all(read), sleep(REFRESH_MS, undefined, { ref: false })]);
  }

  /** A request had these, as its gateway says. */
  noteUse(bindings: readonly StoredBinding[], { secrets = [], forms = [] }: ReportedUse): void {
    const used = bindings.filter(({ name }) => secrets.includes(name));
    if (used.length === 0) return;
    for (const { use } of used) if (use !== undefined) this.#secrets.noteUse(use.scope, use.name);
    for (const form of SECRET_FORM_NAMES)
      if (forms.includes(form)) this.#byForm.set(form, (this.#byForm.get(form) ?? 0) + 1);
  }

  /** Requests with secrets since the daemon started; one with several forms counts for each. */
  get useCounts(): { readonly labels: { readonly form: string }; readonly value: number }[] {
    return [...this.#byForm].map(([form, value]) => ({ labels: { form }, value }));
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
