// Everything that can happen to sandboxes, snapshots and templates.
import type { VmExit } from '../engines/engine.ts';

export type LifecycleEvent =
  /** The sandbox can be used. `times`: milliseconds from the beginning of the start to the end of each stage. */
  | {
      readonly kind: 'created' | 'forked';
      readonly sandbox: string;
      readonly origin: 'boot' | 'saved';
      readonly rootfs: 'profile' | 'image' | 'agent';
      readonly sourceSnapshot?: string;
      readonly times: Readonly<Record<string, number>>;
    }
  | { readonly kind: 'adopted'; readonly sandbox: string }
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
  | { readonly kind: 'deleted'; readonly sandbox: string }
  | {
      readonly kind: 'snapshot-taken';
      readonly snapshot: string;
      readonly sandbox: string;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  /** Imported from another host, where it was taken of `sandbox`. */
  | { readonly kind: 'snapshot-imported'; readonly snapshot: string; readonly sandbox: string }
  | { readonly kind: 'snapshot-deleted'; readonly snapshot: string }
  | {
      readonly kind: 'template-made';
      readonly template: string;
      readonly rootfs: string;
      /** Its guest has a network interface, so its copies start with one. */
      readonly hasNetwork: boolean;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  | { readonly kind: 'template-evicted'; readonly template: string; readonly sizeBytes: number };

export type OriginKind = 'boot' | 'template' | 'snapshot';

/** What a sandbox was started from, as events, metrics and traces name it. */
export function originOf({
  kind,
  origin,
}: Extract<LifecycleEvent, { readonly kind: 'created' | 'forked' }>): OriginKind {
  if (kind === 'forked') return 'snapshot';
  return origin === 'saved' ? 'template' : 'boot';
}
