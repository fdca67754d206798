// Everything that can happen to sandboxes, snapshots and templates.
import type { VmExit } from '../engines/engine.ts';

export type LifecycleEvent =
  /** It can be used from now on. `times` are milliseconds from the start of making it to the end of each stage. */
  | {
      readonly kind: 'created' | 'forked';
      readonly sandbox: string;
      readonly origin: 'boot' | 'saved';
      readonly rootfs: 'profile' | 'image' | 'agent';
      readonly sourceSnapshot?: string;
      readonly times: Readonly<Record<string, number>>;
    }
  | { readonly kind: 'adopted'; readonly sandbox: string }
  /** Its VM ended by itself. `diagnosis`: last lines of its console and of its VMM's log. */
  | {
      readonly kind: 'died';
      readonly sandbox: string;
      readonly exit: VmExit;
      readonly diagnosis: string;
    }
  | { readonly kind: 'hung'; readonly sandbox: string; readonly reason: string }
  /** It hung, and does not any more. */
  | { readonly kind: 'recovered'; readonly sandbox: string }
  | { readonly kind: 'expired'; readonly sandbox: string; readonly timeoutS: number }
  /** Nobody used it for its idle_timeout_s: it is deleted, saved as `snapshot` if that was asked for. */
  | { readonly kind: 'idle'; readonly sandbox: string; readonly idleS: number; readonly snapshot?: string }
  /** It was to be saved for that, and could not be: it stays. */
  | { readonly kind: 'idle-kept'; readonly sandbox: string; readonly reason: string }
  | { readonly kind: 'deleted'; readonly sandbox: string }
  | {
      readonly kind: 'snapshot-taken';
      readonly snapshot: string;
      readonly sandbox: string;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  /** Of another host, of whose `sandbox` it was taken. */
  | { readonly kind: 'snapshot-imported'; readonly snapshot: string; readonly sandbox: string }
  | { readonly kind: 'snapshot-deleted'; readonly snapshot: string }
  | {
      readonly kind: 'template-made';
      readonly template: string;
      readonly rootfs: string;
      /** Its copies have an interface from the beginning. */
      readonly hasNetwork: boolean;
      readonly pausedMs: number;
      readonly totalMs: number;
    }
  | { readonly kind: 'template-evicted'; readonly template: string; readonly sizeBytes: number };

export type OriginKind = 'boot' | 'template' | 'snapshot';

/** What a sandbox was made from, in the words of events, metrics and traces. */
export function originOf({
  kind,
  origin,
}: Extract<LifecycleEvent, { readonly kind: 'created' | 'forked' }>): OriginKind {
  if (kind === 'forked') return 'snapshot';
  return origin === 'saved' ? 'template' : 'boot';
}
