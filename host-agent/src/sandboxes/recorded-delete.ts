// The delete of a sandbox in the registry: marked before anything is removed, so that the next daemon finishes it, and
// persisted in one transaction with its events.
import type { Logger } from 'pino';
import type { LifecycleEvent } from './lifecycle-events.ts';
import type { SandboxRecord } from './record.ts';
import type { ResourceContext } from './resources/resource.ts';

export class RecordedDelete {
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
