// What happened to sandboxes, snapshots and templates: the one seam for whoever keeps count of it or tells others.
import type { Logger } from 'pino';
import type { Journal } from '../events/index.ts';
import type { Owner } from '../keys/index.ts';
import type { LifecycleEvent } from './lifecycle-event.ts';
import { type StoredEvent, toStored } from './stored-event.ts';

export { type LifecycleEvent, originOf } from './lifecycle-event.ts';

export type LifecycleListener = (event: LifecycleEvent) => void;

/** An event that goes with a change of the registry. */
export type PendingEvent = {
  /** To be called within the change: what users may know of it is on disk if and only if the change is. */
  readonly persist: () => void;
  /** To be called once the change was made. Tells those who follow what is on disk, and, the first time, the listeners. */
  readonly publish: () => void;
};

export class LifecycleEvents {
  readonly #listeners = new Set<LifecycleListener>();
  readonly #journal: Journal<StoredEvent> | undefined;
  readonly #onLost: (error: unknown) => void;

  /** `onLost` is told what an event could not be written with. Without a journal nothing is kept. */
  constructor(journal?: Journal<StoredEvent>, onLost: (error: unknown) => void = () => undefined) {
    this.#journal = journal;
    this.#onLost = onLost;
  }

  /** Until the returned function is called. A listener must not throw. */
  subscribe(listener: LifecycleListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells the listeners, and writes it down, for an event that no change of the registry goes with. */
  emit(event: LifecycleEvent, owner?: Owner): void {
    const stored = toStored(event, owner);
    if (stored !== undefined) this.#journal?.append(stored).catch(this.#onLost);
    this.notify(event);
  }

  /** Tells the listeners alone. */
  notify(event: LifecycleEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  prepare(event: LifecycleEvent, owner?: Owner): PendingEvent {
    let isTold = false;
    return {
      persist: () => {
        const stored = toStored(event, owner);
        if (stored !== undefined) this.#journal?.put(stored);
      },
      publish: () => {
        this.#journal?.look();
        if (!isTold) this.notify(event);
        isTold = true;
      },
    };
  }

  /** What was kept is on disk. */
  published(): void {
    this.#journal?.look();
  }
}

type Line = readonly ['info' | 'warn', string];

const LINES: Readonly<Record<LifecycleEvent['kind'], Line>> = {
  created: ['info', 'sandbox created'],
  forked: ['info', 'sandbox created'],
  adopted: ['info', 'sandbox adopted'],
  died: ['warn', 'the VM of a sandbox ended by itself'],
  hung: ['warn', 'a sandbox hangs'],
  recovered: ['info', 'the guest agent answers again'],
  expired: ['info', 'the lifetime of a sandbox is over'],
  idle: ['info', 'a sandbox was idle for its idle_timeout_s'],
  'idle-kept': ['warn', 'an idle sandbox stays, as it could not be saved'],
  deleted: ['info', 'sandbox deleted'],
  'snapshot-taken': ['info', 'snapshot taken'],
  'snapshot-imported': ['info', 'snapshot imported'],
  'snapshot-deleted': ['info', 'snapshot deleted'],
  'template-made': ['info', 'template made'],
  'template-evicted': ['info', 'removed the least recently used template'],
};

/** Writes each event into the daemon's log. */
export function logLifecycleEvents(log: Logger): LifecycleListener {
  return ({ kind, ...facts }) => {
    const [level, message] = LINES[kind];
    const { times, ...rest } = 'times' in facts ? facts : { ...facts, times: {} };
    log[level]({ ...rest, ...times }, message);
  };
}
