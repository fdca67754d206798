// The lifetime and the idle timeout of a sandbox, as its record has them; a change of the record restarts them.
import { isDeepStrictEqual } from 'node:util';
import { startTimer } from '@sandboxd/proto';
import { expiryOf } from '../metadata.ts';
import type { SandboxRecord } from '../record.ts';
import type { ResourceContext } from '../resources/resource.ts';
import type { IdleRule } from '../types.ts';
import type { UsageSource } from '../vm-usage.ts';
import { watchIdle } from './in-use.ts';
import type { SandboxUse } from './sandbox-use.ts';

type Ends = { readonly expired: () => void; readonly idle: (signal: AbortSignal) => Promise<void> };

export class Timeouts {
  readonly #sandbox: UsageSource & { readonly id: string };
  readonly #context: Pick<ResourceContext, 'directories' | 'idle'>;
  readonly #use: SandboxUse;
  readonly #ends: Ends;
  #expiresAtMs: number | undefined;
  #rule: IdleRule | undefined;
  #endLifetime: () => void = () => undefined;
  #isStopped = false;

  constructor(
    sandbox: UsageSource & { readonly id: string },
    context: Pick<ResourceContext, 'directories' | 'idle'>,
    use: SandboxUse,
    ends: Ends,
  ) {
    this.#sandbox = sandbox;
    this.#context = context;
    this.#use = use;
    this.#ends = ends;
  }

  /** Restarts what differs from before. */
  apply(record: SandboxRecord): void {
    if (this.#isStopped) return;
    const { expired, idle } = this.#ends;
    const expiresAtMs = expiryOf(record);
    if (expiresAtMs !== this.#expiresAtMs) {
      this.#endLifetime();
      this.#expiresAtMs = expiresAtMs;
      if (expiresAtMs !== undefined)
        this.#endLifetime = startTimer(expiresAtMs - Date.now(), expired, { isUnref: true });
    }
    const rule = record.options.idle;
    if (isDeepStrictEqual(rule, this.#rule)) return;
    this.#rule = rule;
    this.#use.watch(rule && (() => watchIdle(this.#sandbox, this.#context, rule, idle)));
  }

  stop(): void {
    this.#isStopped = true;
    this.#endLifetime();
  }
}
