// Lifecycle events of sandboxes, snapshots and templates: published to listeners (metrics, log) and persisted in the
// journal.
import type { Labels } from '@sandboxd/api';
import type { VmExit } from '../engines/engine.ts';
import type { Journal } from '../events/journal.ts';
import type { Owner } from '../keys/index.ts';

export type LifecycleEvent =
  /** The sandbox can be used. `times`: milliseconds from the beginning of the start to the end of each stage. */
  | {
      readonly kind: 'created' | 'forked';
      readonly sandbox: string;
      readonly origin: 'boot' | 'saved';
      readonly rootfs: 'profile' | 'image' | 'agent';
      readonly sourceSnapshot?: string;
      readonly sourceSandbox?: string;
      readonly times: Readonly<Record<string, number>>;
    }
  | { readonly kind: 'adopted'; readonly sandbox: string }
  /** A client changed `changed`, fields of its description. */
  | { readonly kind: 'updated'; readonly sandbox: string; readonly changed: readonly string[] }
  /** Its VM exited unexpectedly. `diagnosis`: the last lines of its console and of its VMM's log. */
  | {
      readonly kind: 'died';
      readonly sandbox: string;
      readonly exit: VmExit;
      readonly diagnosis: string;
    }
  | { readonly kind: 'hung'; readonly sandbox: string; readonly reason: string }
  /** Its guest responds again after it hung. */
  | { readonly kind: 'recovered'; readonly sandbox: string }
  | { readonly kind: 'expired'; readonly sandbox: string; readonly timeoutS: number }
  /** No client used it for its idle_timeout_s. It is deleted; `snapshot` is set if it was saved first. */
  | { readonly kind: 'idle'; readonly sandbox: string; readonly idleS: number; readonly snapshot?: string }
  /** An idle sandbox could not be saved, and keeps running. */
  | { readonly kind: 'idle-kept'; readonly sandbox: string; readonly reason: string }
  /** `pausedMs`: until everything of its guest was written; `bytes`: what was written, without its disk. */
  | {
      readonly kind: 'paused';
      readonly sandbox: string;
      readonly reason: string;
      readonly hasMemory: boolean;
      readonly durationMs: number;
      readonly pausedMs: number;
      readonly bytes: number;
    }
  /** It should be paused by its timeouts, but could not be, and keeps running. */
  | { readonly kind: 'pause-failed'; readonly sandbox: string; readonly reason: string }
  /** `asleepMs`: how long it was paused. */
  | {
      readonly kind: 'resumed';
      readonly sandbox: string;
      readonly reason: string;
      readonly durationMs: number;
      readonly asleepMs: number;
    }
  /** Open for URLs, or with another access. */
  | { readonly kind: 'port-opened'; readonly sandbox: string; readonly port: number; readonly access: string }
  | { readonly kind: 'port-closed'; readonly sandbox: string; readonly port: number }
  /** A port of the host leads to it, or does no longer. */
  | {
      readonly kind: 'port-published' | 'port-unpublished';
      readonly sandbox: string;
      readonly port: number;
      readonly hostPort: number;
      readonly hostIp?: string;
    }
  /** `changed`: lists of its policy. `closed`: connections that the new one does not allow. */
  /** Names of the secrets. */
  | { readonly kind: 'secrets-changed'; readonly sandbox: string; readonly changed: readonly string[] }
  | {
      readonly kind: 'network-changed';
      readonly sandbox: string;
      readonly generation: number;
      readonly changed: readonly string[];
      readonly closed: number;
    }
  /** It has the memory and the disk of `snapshot`. */
  | {
      readonly kind: 'rolled-back';
      readonly sandbox: string;
      readonly snapshot: string;
      readonly durationMs: number;
    }
  | { readonly kind: 'deleted'; readonly sandbox: string }
  /** Another host has it. */
  | { readonly kind: 'moved'; readonly sandbox: string }
  | {
      readonly kind: 'snapshot-taken';
      readonly snapshot: string;
      readonly sandbox: string;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  /** Imported from another host, where it was taken of `sandbox`. */
  | { readonly kind: 'snapshot-imported'; readonly snapshot: string; readonly sandbox: string }
  /** It is in the snapshot store, or came from there. `bytes`: as they were sent, or as they were written here. */
  | {
      readonly kind: 'snapshot-stored' | 'snapshot-fetched';
      readonly snapshot: string;
      readonly durationMs: number;
      readonly bytes: number;
    }
  | {
      readonly kind: 'snapshot-changed';
      readonly snapshot: string;
      readonly changed: readonly string[];
    }
  | { readonly kind: 'snapshot-deleted'; readonly snapshot: string; readonly reason?: string }
  | {
      readonly kind: 'template-made';
      readonly template: string;
      readonly rootfs: string;
      /** Its guest has a network interface, so its copies start with one. */
      readonly hasNetwork: boolean;
      /** Made of the guest that a create booted; absent: in the background. */
      readonly isFirst?: boolean;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  | { readonly kind: 'template-evicted'; readonly template: string; readonly sizeBytes: number };

/** How clients know the sandbox of an event, or the snapshot of an event about a snapshot. */
export type Named = { readonly name?: string | undefined; readonly labels?: Labels | undefined };

type OriginKind = 'boot' | 'template' | 'snapshot';

/** What a sandbox was started from, as events, metrics and traces name it. */
export function originOf({
  kind,
  origin,
}: Extract<LifecycleEvent, { readonly kind: 'created' | 'forked' }>): OriginKind {
  if (kind === 'forked') return 'snapshot';
  return origin === 'saved' ? 'template' : 'boot';
}

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
  emit(event: LifecycleEvent, owner?: Owner, named?: Named): void {
    const stored = toStored(event, owner, named);
    if (stored !== undefined) this.#journal?.append(stored).catch(this.#onLost);
    this.notify(event);
  }

  /** Notifies the listeners only. */
  notify(event: LifecycleEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  prepare(event: LifecycleEvent, owner?: Owner, named?: Named): PendingEvent {
    let isPublished = false;
    return {
      persist: () => {
        const stored = toStored(event, owner, named);
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

/** Kinds that are persisted. Templates belong to no user. */
type StoredKind = Exclude<LifecycleEvent['kind'], 'template-made' | 'template-evicted'>;

/** JSON-safe. */
export type StoredEvent = {
  readonly kind: StoredKind;
  readonly atMs: number;
  readonly sandbox?: string;
  readonly snapshot?: string;
  /** Owner of the sandbox or snapshot; absent if it has no owner. */
  readonly owner?: Owner;
  readonly origin?: OriginKind;
  readonly sourceSnapshot?: string;
  readonly sourceSandbox?: string;
  readonly durationMs?: number;
  readonly pausedMs?: number;
  readonly timeoutS?: number;
  readonly idleS?: number;
  readonly asleepMs?: number;
  readonly bytes?: number;
  readonly reason?: string;
  readonly port?: number;
  readonly access?: string;
  readonly hostPort?: number;
  readonly hostIp?: string;
  readonly generation?: number;
  readonly closed?: number;
  readonly changed?: readonly string[];
  /** Of the sandbox, or of the snapshot where the kind begins with `snapshot`; absent if it has none. */
  readonly name?: string;
  readonly labels?: Labels;
};

/** Undefined for events that are not persisted. */
export function toStored(
  event: LifecycleEvent,
  owner: Owner | undefined,
  { name, labels = {} }: Named = {},
  atMs = Date.now(),
): StoredEvent | undefined {
  const facts = toFacts(event);
  return (
    facts && {
      atMs,
      ...facts,
      ...(owner !== undefined && { owner }),
      ...(name !== undefined && { name }),
      ...(Object.keys(labels).length > 0 && { labels }),
    }
  );
}

function toFacts(event: LifecycleEvent): Omit<StoredEvent, 'atMs' | 'owner' | keyof Named> | undefined {
  switch (event.kind) {
    case 'created':
    case 'forked': {
      const { kind, sandbox, sourceSnapshot, sourceSandbox, times } = event;
      return {
        kind,
        sandbox,
        origin: originOf(event),
        durationMs: times.totalMs ?? 0,
        ...(sourceSnapshot !== undefined && { sourceSnapshot }),
        ...(sourceSandbox !== undefined && { sourceSandbox }),
      };
    }
    case 'died':
      // The last console lines are for the host only.
      return { kind: event.kind, sandbox: event.sandbox, reason: event.exit.reason };
    case 'snapshot-taken': {
      const { kind, sandbox, snapshot, pausedMs, totalMs } = event;
      return { kind, sandbox, snapshot, pausedMs, durationMs: totalMs };
    }
    case 'paused': {
      const { hasMemory: _, ...facts } = event;
      return facts;
    }
    case 'template-made':
    case 'template-evicted':
      return undefined;
    default:
      return event;
  }
}

/** An event as clients and webhooks receive it. */
export function toEventBody(id: string, event: StoredEvent) {
  const { sourceSnapshot, durationMs, pausedMs, timeoutS, owner } = event;
  return {
    id,
    at: new Date(event.atMs).toISOString(),
    kind: event.kind,
    sandbox: event.sandbox,
    name: event.name,
    labels: event.labels,
    changed: event.changed,
    snapshot: event.snapshot,
    origin: event.origin,
    source_snapshot_id: sourceSnapshot,
    source_sandbox_id: event.sourceSandbox,
    duration_ms: durationMs,
    paused_ms: pausedMs,
    timeout_s: timeoutS,
    idle_s: event.idleS,
    asleep_ms: event.asleepMs,
    bytes: event.bytes,
    port: event.port,
    access: event.access,
    host_ip: event.hostIp,
    host_port: event.hostPort,
    generation: event.generation,
    closed: event.closed,
    reason: event.reason,
    tenant: owner?.tenant,
  };
}
