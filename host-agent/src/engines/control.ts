// What an engine brings beside its probe: how its VMM is spoken to, and what it knows of a guest's end. Everything else of
// a VM's life is the same on each engine: start.ts, vmm.ts, adoption.ts.
import type { Logger } from 'pino';
import type { SavedVm, SaveOptions, Vm, VmmIdentity, VmPaths } from './engine.ts';

/** Files of one incarnation that every VMM has. */
export type VmmFiles = {
  readonly controlSocketPath: string;
  readonly consolePath: string;
  /** Where the console is until the guest runs; absent: it is at its place from the start. */
  readonly earlyConsolePath?: string;
  readonly logPath: string;
  /** Further ones that a guest can make the VMM write into without end. */
  readonly growingPaths?: readonly string[];
  /** What a VMM that was killed leaves behind of its sockets. */
  readonly socketPaths: readonly string[];
};

export type GuestState =
  | { readonly kind: 'runs' }
  /** Somebody stopped it on purpose: a daemon that saved it and did not come back. */
  | { readonly kind: 'paused' }
  /** It will never run again, though its VMM is there; `reason` as a lower-case phrase. */
  | { readonly kind: 'over'; readonly reason: string };

/** The VMM refused what it was asked for: it is there and answers. */
export class VmmRefusal extends Error {
  override readonly name: string = 'VmmRefusal';

  get isDiskFull(): boolean {
    return /No space left on device/.test(this.message);
  }
}

/** The VM as its control sees it. */
export interface Controlled {
  readonly identity: VmmIdentity;
  /** It ended, is being ended, or is another daemon's now: nothing more is to be done. */
  readonly isOver: boolean;
  /** Fires when the VMM is gone. */
  readonly ended: AbortSignal;
  /** Asks for the guest's state, and ends a VM whose guest is over. */
  checkState(): Promise<GuestState>;
  /** Ends a VM whose guest is over, or that nobody can trust; `reason` is then what it ended of. */
  giveUp(reason: string): Promise<void>;
  /** The process may have ended just now. */
  lookForEnd(): void;
}

/** The control protocol of one VMM. */
export interface Control {
  /** See Vm. */
  readonly ioPauseReason: string | undefined;
  /**
   * Tries once to reach the VMM. False when nobody listens yet; rejects when trying again makes no sense, and with the
   * signal's reason.
   */
  connect(signal: AbortSignal): Promise<boolean>;
  /**
   * Has the VM ended when its guest is over, from now on, and looks whether it is already. What an engine learns over a
   * connection is watched as soon as there is one.
   */
  watch(): Promise<void>;
  /** May wait for the end of what the VMM is at. */
  readState(): Promise<GuestState>;
  resume(): Promise<void>;
  /** Rejects with what went wrong; the guest goes on then, or the VM was given up. */
  save(options: SaveOptions): Promise<SavedVm & { readonly pausedMs: number }>;
  resizeDisk(index: number, sizeBytes: number): Promise<void>;
  openChannel: Vm['openChannel'];
  /** Rejects when there is no answer within `timeoutMs`. */
  ping(timeoutMs: number): Promise<unknown>;
  /** Whether the guest is known to be over, and the VMM about to end. */
  isEnding(): Promise<boolean>;
  /** Why a VMM ended by itself, as far as its events tell; its exit code is null when an earlier daemon started it. */
  explainExit(exitCode: number | null): Promise<string | undefined>;
  /** Nothing is watched any more, and no connection kept. */
  close(): void;
}

export type ControlOptions = {
  readonly log: Logger;
  /** Called when the guest goes on after it stood still, but for a save. */
  readonly onResumed?: (() => void) | undefined;
  readonly onStandstill?: ((cause: string) => void) | undefined;
  /** An earlier daemon started it, and may have used it. */
  readonly isAdopted: boolean;
};

/** The VMMs of one engine. */
export type VmmKind = {
  /** The engine's name. */
  readonly name: string;
  readonly filesOf: (paths: VmPaths) => VmmFiles;
  /** The control socket that a process was started with; undefined when it is no VMM of this engine. */
  readonly controlSocketOf: (args: readonly string[]) => string | undefined;
  readonly control: (vm: Controlled, options: ControlOptions) => Control;
  /** Which of its threads, of those that it has when it answers, are scheduled as usual and not in batches. */
  readonly unbatched: 'first-thread' | 'all-threads';
  /** How long an adopted VMM may take to answer, on a host that is not busy. */
  readonly answerTimeoutMs: number;
};
