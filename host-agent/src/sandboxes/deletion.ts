// The delete of a sandbox in two phases: first what others may need or clients may reach, then slow clean-up. The
// registry has it before anything is removed, so that the next daemon finishes it.
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import type { LifecycleEvent } from './lifecycle-events.ts';
import type { SandboxRecord, SandboxState } from './record.ts';
import { releaseResources, sweepResources } from './resources/index.ts';
import type { Handles, ResourceContext, TeardownContext } from './resources/resource.ts';

/** The sandbox, as far as its delete needs it. */
type Leaver = Pick<TeardownContext, 'id' | 'paths'> & {
  readonly record: SandboxRecord;
  readonly state: SandboxState;
  readonly isAnnounced: boolean;
  transition(to: SandboxState): void;
  /** Nothing of it counts or is copied to its log any more. */
  quiet(): void;
  sweep(): Promise<void>;
};

export class Deletion {
  readonly #sandbox: Leaver;
  readonly #context: ResourceContext;
  readonly #handles: Handles;
  readonly #log: Logger;
  readonly #delete: RecordedDelete;
  #abort = new AbortController();
  #leaving: Promise<void> | undefined;
  #reason = '';
  /** Hidden from clients; after a failed delete it is visible again. */
  isLeaving = false;
  /** No user ever saw it, so its log goes, too. */
  wasNeverVisible = false;

  constructor(sandbox: Leaver, context: ResourceContext, handles: Handles, log: Logger) {
    this.#sandbox = sandbox;
    this.#context = context;
    this.#handles = handles;
    this.#log = log;
    this.#delete = new RecordedDelete(sandbox.id, context, log);
  }

  /** Aborts when it begins. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /**
   * Makes the sandbox unreachable and frees shared resources; all callers get the same promise. Slow clean-up is left
   * to `sweep`. Can be called again after a failure. `reason` follows "was deleted" in the errors of calls in progress;
   * `events` are persisted with the delete. `isMoved`: another host has it; only what is here goes.
   */
  leave(reason: string, events: readonly LifecycleEvent[], isMoved: boolean): Promise<void> {
    this.isLeaving = true;
    this.#leaving ??= this.#leave(reason, events, isMoved).catch((error) => {
      this.isLeaving = false;
      this.#leaving = undefined;
      this.#abort = new AbortController();
      throw error;
    });
    return this.#leaving;
  }

  async sweep(): Promise<void> {
    await sweepResources(this.#teardownContext());
    const { record } = this.#sandbox;
    await this.#delete.finish(record);
    if (record.network !== undefined) this.#context.network.free(record.network);
    this.#context.faults.reach('delete.forgotten');
  }

  async #leave(reason: string, events: readonly LifecycleEvent[], isMoved: boolean): Promise<void> {
    const sandbox = this.#sandbox;
    this.#reason = reason;
    if (sandbox.state !== 'deleting') {
      sandbox.transition('deleting');
      const last = { kind: isMoved ? 'moved' : 'deleted', sandbox: sandbox.id } as const;
      if (sandbox.isAnnounced) this.#delete.begin([...events, last]);
    }
    const what = isMoved ? 'moved to another host' : 'was deleted';
    this.#abort.abort(new AppError('not_found', `sandbox ${sandbox.id} ${what}`));
    sandbox.quiet();
    const isMarked = await this.#delete.mark(sandbox.record, !this.wasNeverVisible);
    this.#context.faults.reach('delete.marked');
    await releaseResources(this.#teardownContext());
    // Without the mark, the next daemon would report it as dead after a crash.
    if (!isMarked) await sandbox.sweep();
  }

  #teardownContext(): TeardownContext {
    const { id, paths, record } = this.#sandbox;
    return {
      ...{ id, paths, record },
      context: this.#context,
      handles: this.#handles,
      log: this.#log,
      wasVisible: !this.wasNeverVisible,
      reason: `sandbox ${id} was deleted${this.#reason}`,
    };
  }
}

/** The delete in the registry: marked first, and persisted in one transaction with its events. */
class RecordedDelete {
  readonly #id: string;
  readonly #context: Pick<ResourceContext, 'records' | 'events'>;
  readonly #log: Logger;
  /** Not yet on disk. */
  #events: readonly LifecycleEvent[] = [];

  constructor(id: string, context: Pick<ResourceContext, 'records' | 'events'>, log: Logger) {
    this.#id = id;
    this.#context = context;
    this.#log = log;
  }

  /** `events` are persisted with the delete. */
  begin(events: readonly LifecycleEvent[]): void {
    this.#events = events;
  }

  /** Returns whether the next daemon would finish the delete from this point on. */
  async mark(record: SandboxRecord, wasVisible: boolean): Promise<boolean> {
    const { records } = this.#context;
    if (records.get(this.#id) === undefined) return true;
    try {
      const mark = { ...record, isReady: false, isDeleting: wasVisible };
      await records.put(this.#id, mark, () => this.#persist(record));
      this.#persisted();
      return true;
    } catch (err) {
      // A delete must also work on a full disk, because it frees space.
      this.#log.warn({ err }, 'cannot record the delete of a sandbox in advance; deleting it without');
      return false;
    }
  }

  /** Nothing is left of the sandbox. */
  async finish(record: SandboxRecord): Promise<void> {
    const { records } = this.#context;
    if (this.#events.length === 0) return records.remove(this.#id);
    // Persisting the mark failed earlier, so this may fail too; then the record is removed without events.
    await records
      .remove(this.#id, () => this.#persist(record))
      .then(() => this.#persisted())
      .catch(() => records.remove(this.#id));
  }

  #persist({ owner, metadata }: SandboxRecord): void {
    for (const event of this.#events) this.#context.events.prepare(event, owner, metadata).persist();
  }

  #persisted(): void {
    this.#events = [];
    this.#context.events.published();
  }
}
