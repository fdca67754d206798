// What happened to sandboxes, snapshots and templates: the one seam for whoever keeps count of it or tells others.
import type { Logger } from 'pino';
import type { VmExit } from '../engines/engine.ts';

export type LifeEvent =
  /** It can be used from now on. `times` are milliseconds from the start of making it to the end of each stage. */
  | {
      readonly kind: 'created' | 'forked';
      readonly sandbox: string;
      readonly origin: 'boot' | 'saved';
      readonly rootfs: 'profile' | 'image' | 'agent';
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

export type LifeListener = (event: LifeEvent) => void;

export class LifeEvents {
  readonly #listeners = new Set<LifeListener>();

  /** Until the returned function is called. A listener must not throw. */
  subscribe(listener: LifeListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(event: LifeEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

type Line = readonly ['info' | 'warn', string];

const LINES: Readonly<Record<LifeEvent['kind'], Line>> = {
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
  'snapshot-deleted': ['info', 'snapshot deleted'],
  'template-made': ['info', 'template made'],
  'template-evicted': ['info', 'removed the least recently used template'],
};

/** Writes each event into the daemon's log. */
export function logLifeEvents(log: Logger): LifeListener {
  return ({ kind, ...facts }) => {
    const [level, message] = LINES[kind];
    const { times, ...rest } = 'times' in facts ? facts : { ...facts, times: {} };
    log[level]({ ...rest, ...times }, message);
  };
}
