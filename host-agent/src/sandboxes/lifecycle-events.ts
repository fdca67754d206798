// Lifecycle events of sandboxes, snapshots and templates: published to listeners (metrics, log) and persisted in the
// journal.
import type { Logger } from 'pino';
import type { Journal } from '../events/index.ts';
import type { Owner } from '../keys/index.ts';
import type { LifecycleEvent } from './lifecycle-event.ts';
import { type StoredEvent, toStored } from './stored-event.ts';

export { type LifecycleEvent, originOf } from './lifecycle-event.ts';

export type LifecycleListener = (event: LifecycleEvent) => void;

/** An event that is persisted atomically with a change of the registry. */
export type PendingEvent = {
  /** Call within the change: the event is on disk if and only if the change is. */
  readonly persist: () => void;
  /** Call after the change. Notifies the journal's readers and, on the first call, the listeners. */
  readonly publish: () => void;
};

export class LifecycleEvents {
  readonly #listeners = new Set<LifecycleListener>();
  readonly #journal: Journal<StoredEvent> | undefined;
  readonly #onLost: (error: unknown) => void;

  /** `onLost` is called with the error when an event cannot be written. Without a journal nothing is persisted. */
  constructor(journal?: Journal<StoredEvent>, onLost: (error: unknown) => void = () => undefined) {
    this.#journal = journal;
    this.#onLost = onLost;
  }

  /** Returns the function that unsubscribes. A listener must not throw. */
  subscribe(listener: LifecycleListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Notifies the listeners and persists an event that has no change of the registry. */
  emit(event: LifecycleEvent, owner?: Owner): void {
    const stored = toStored(event, owner);
    if (stored !== undefined) this.#journal?.append(stored).catch(this.#onLost);
    this.notify(event);
  }

  /** Notifies the listeners only. */
  notify(event: LifecycleEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  prepare(event: LifecycleEvent, owner?: Owner): PendingEvent {
    let isPublished = false;
    return {
      persist: () => {
        const stored = toStored(event, owner);
        if (stored !== undefined) this.#journal?.put(stored);
      },
      publish: () => {
        this.#journal?.refresh();
        if (!isPublished) this.notify(event);
        isPublished = true;
      },
    };
  }

  /** Notifies the journal's readers that persisted events are on disk. */
  published(): void {
    this.#journal?.refresh();
  }
}

type LogLine = readonly ['info' | 'warn', string];

const LOG_LINES: Readonly<Record<LifecycleEvent['kind'], LogLine>> = {
  created: ['info', 'sandbox created'],
  forked: ['info', 'sandbox created'],
  adopted: ['info', 'sandbox adopted'],
  died: ['warn', 'the VM of a sandbox exited unexpectedly'],
  hung: ['warn', 'a sandbox hangs'],
  recovered: ['info', 'the guest agent answers again'],
  expired: ['info', 'the timeout_s of a sandbox has passed'],
  idle: ['info', 'the idle_timeout_s of a sandbox has passed'],
  'idle-kept': ['warn', 'an idle sandbox could not be saved and keeps running'],
  deleted: ['info', 'sandbox deleted'],
  'snapshot-taken': ['info', 'snapshot taken'],
  'snapshot-imported': ['info', 'snapshot imported'],
  'snapshot-deleted': ['info', 'snapshot deleted'],
  'template-made': ['info', 'template made'],
  'template-evicted': ['info', 'template evicted'],
};

/** Writes each event to the daemon's log. */
export function logLifecycleEvents(log: Logger): LifecycleListener {
  return ({ kind, ...facts }) => {
    const [level, message] = LOG_LINES[kind];
    const { times, ...rest } = 'times' in facts ? facts : { ...facts, times: {} };
    log[level]({ ...rest, ...times }, message);
  };
}
