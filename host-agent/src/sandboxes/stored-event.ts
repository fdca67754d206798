// Lifecycle events as users see them, without details that concern only the host.
import type { Owner } from '../keys/index.ts';
import { type LifecycleEvent, type OriginKind, originOf } from './lifecycle-event.ts';

/** Kinds that are persisted. Templates belong to no user. */
export type StoredKind = Exclude<LifecycleEvent['kind'], 'template-made' | 'template-evicted'>;

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
  readonly durationMs?: number;
  readonly pausedMs?: number;
  readonly timeoutS?: number;
  readonly idleS?: number;
  readonly reason?: string;
};

/** Undefined for events that are not persisted. */
export function toStored(
  event: LifecycleEvent,
  owner: Owner | undefined,
  atMs = Date.now(),
): StoredEvent | undefined {
  const facts = toFacts(event);
  return facts && { atMs, ...facts, ...(owner !== undefined && { owner }) };
}

function toFacts(event: LifecycleEvent): Omit<StoredEvent, 'atMs' | 'owner'> | undefined {
  switch (event.kind) {
    case 'created':
    case 'forked': {
      const { kind, sandbox, sourceSnapshot, times } = event;
      return {
        kind,
        sandbox,
        origin: originOf(event),
        durationMs: times.totalMs ?? 0,
        ...(sourceSnapshot !== undefined && { sourceSnapshot }),
      };
    }
    case 'died':
      // The last console lines are for the host only.
      return { kind: event.kind, sandbox: event.sandbox, reason: event.exit.reason };
    case 'snapshot-taken': {
      const { kind, sandbox, snapshot, pausedMs, totalMs } = event;
      return { kind, sandbox, snapshot, pausedMs, durationMs: totalMs };
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
    snapshot: event.snapshot,
    origin: event.origin,
    source_snapshot_id: sourceSnapshot,
    duration_ms: durationMs,
    paused_ms: pausedMs,
    timeout_s: timeoutS,
    idle_s: event.idleS,
    reason: event.reason,
    tenant: owner?.tenant,
  };
}
