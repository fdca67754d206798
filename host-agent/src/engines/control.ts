// The engine-specific part of a VM besides its probe: the VMM's control protocol, and how it reports a guest's end. The
// rest of a VM's life is the same for each engine: start.ts, vmm.ts, adoption.ts.
import type { Logger } from 'pino';
import type { SaveOptions, Vm, VmmIdentity, VmPaths, WrittenVm } from './engine.ts';

/** Files of one incarnation that every VMM has. */
export type VmmFiles = {
  readonly controlSocketPath: string;
  readonly consolePath: string;
  /** Path of the console until the guest runs; absent: it is at its final path from the start. */
  readonly earlyConsolePath?: string;
  readonly logPath: string;
  /** Other files that a guest can make the VMM write into without limit. */
  readonly growingPaths?: readonly string[];
  /** Sockets that a killed VMM leaves behind. */
  readonly socketPaths: readonly string[];
};

export type GuestState =
  | { readonly kind: 'runs' }
  /** Paused on purpose: by a daemon that saved it and was then killed. */
  | { readonly kind: 'paused' }
  /** The guest will never run again although its VMM still exists; `reason` is a lower-case phrase. */
  | { readonly kind: 'over'; readonly reason: string };

/** The VMM refused a request, but it is alive and answers. */
export class VmmRefusal extends Error {
  override readonly name: string = 'VmmRefusal';

  get isDiskFull(): boolean {
    return /No space left on device/.test(this.message);
  }
}

/** The VM as its control protocol sees it. */
export interface Controlled {
  readonly identity: VmmIdentity;
  /** It has ended, is being ended, or another daemon has it now: nothing more must be done. */
  readonly isOver: boolean;
  /** Fires when the VMM has exited. */
  readonly ended: AbortSignal;
  /** Queries the guest's state, and ends the VM if its guest has ended. */
  checkState(): Promise<GuestState>;
  /** Ends a VM whose guest has ended or cannot be trusted; `reason` becomes the reason of its exit. */
  terminate(reason: string): Promise<void>;
  /** The process may have exited: check now. */
  checkExit(): void;
}

/** The control protocol of one VMM. */
export interface Control {
  /** See Vm. */
  readonly ioPauseReason: string | undefined;
  /**
   * One attempt to reach the VMM. False if it does not listen yet. Rejects if a retry makes no sense, or with the
   * signal's reason.
   */
  connect(signal: AbortSignal): Promise<boolean>;
  /**
   * From now on ends the VM when its guest ends, and checks whether it already has. Events that arrive over a
   * connection are watched as soon as there is one.
   */
  watch(): Promise<void>;
  /** May wait until the VMM's current operation is done. */
  readState(): Promise<GuestState>;
  resume(): Promise<void>;
  /** Rejects with the cause; then the guest has been resumed, or the VM is being ended. */
  save(options: SaveOptions): Promise<WrittenVm>;
  resizeDisk(index: number, sizeBytes: number): Promise<void>;
  openChannel: Vm['openChannel'];
  /** Rejects if there is no answer within `timeoutMs`. */
  ping(timeoutMs: number): Promise<unknown>;
  /** Whether the guest is known to have ended and the VMM is about to exit. */
  isEnding(): Promise<boolean>;
  /** Why a VMM exited by itself, as far as its events show. The exit code is null if an earlier daemon started it. */
  explainExit(exitCode: number | null): Promise<string | undefined>;
  /** Stops watching, and closes the connection. */
  close(): void;
}

export type ControlOptions = {
  readonly log: Logger;
  /** Called when the guest resumes after a pause that was not a save. */
  readonly onResumed?: (() => void) | undefined;
  readonly onIoPause?: ((cause: string) => void) | undefined;
  /** An earlier daemon started it, and may have used it. */
  readonly isAdopted: boolean;
};

/** The VMMs of one engine. */
export type VmmKind = {
  /** The engine's name. */
  readonly name: string;
  readonly filesOf: (paths: VmPaths) => VmmFiles;
  /** The control socket from a process's arguments; undefined if it is not a VMM of this engine. */
  readonly controlSocketOf: (args: readonly string[]) => string | undefined;
  readonly control: (vm: Controlled, options: ControlOptions) => Control;
  /**
   * Which of the threads that exist at the VMM's first answer get the normal scheduling policy instead of SCHED_BATCH.
   */
  readonly unbatched: 'first-thread' | 'all-threads';
  /** Timeout for an adopted VMM's first answer, on an idle host. */
  readonly answerTimeoutMs: number;
};
