// The timeouts of one sandbox: the end of its lifetime, and of an idle time. They count while it is running; a lifetime
// that deletes it counts while it is paused, too.
import { startTimer } from '@sandboxd/proto';
import { watchIdle } from './idle/in-use.ts';
import { SandboxUse } from './idle/sandbox-use.ts';
import { expiryOf, metadataOf } from './metadata.ts';
import { pausesAtEnd, type SandboxRecord } from './record.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox, SandboxOwner } from './sandbox.ts';

export class Timeouts {
  readonly use: SandboxUse;
  readonly #context: ResourceContext;
  #endLifetime: () => void = () => undefined;

  constructor(context: ResourceContext, record: SandboxRecord) {
    this.#context = context;
    this.use = new SandboxUse(metadataOf(record).lastUsedAtMs ?? record.createdAtMs);
  }

  /** Starts, or starts again, what counts in its present state. */
  start(sandbox: Sandbox, owner: SandboxOwner): void {
    const { record, running } = sandbox;
    this.#endLifetime();
    const expiresAtMs = running === undefined && pausesAtEnd(record) ? undefined : expiryOf(record);
    if (expiresAtMs !== undefined) {
      const leftMs = expiresAtMs - Date.now();
      this.#endLifetime = startTimer(leftMs, () => owner.expired(sandbox), { isUnref: true });
    }
    const { idle } = record.options;
    if (idle === undefined || running === undefined) return;
    this.use.watch(() => watchIdle(sandbox, this.#context, idle, (signal) => owner.idle(sandbox, signal)));
  }

  /** It is paused. */
  pause(record: SandboxRecord): void {
    this.use.watch(undefined);
    if (pausesAtEnd(record)) this.#endLifetime();
  }

  /** `isGone`: the stored state is removed. */
  stop(isGone: boolean): void {
    this.#endLifetime();
    this.use.stop(isGone);
  }
}
