// Types of an exec and its result.
import type { TtySize } from '@sandboxd/proto';
import type { ErrorCode } from '../lib/errors.ts';

export type ExecOptions = {
  /** Lists the command under this id, if the guest keeps a list. */
  readonly id?: string;
  /** Whether `write` will be used; otherwise stdin is empty. */
  readonly hasStdin?: boolean;
  /** Variables of the request override these. */
  readonly baseEnv?: Readonly<Record<string, string>>;
};

export type ResourceUsage = {
  readonly cpuUserMs: number;
  readonly cpuSysMs: number;
  readonly peakMemoryBytes: number;
  readonly pageFaultsMajor: number;
  readonly contextSwitchesInvoluntary: number;
  readonly ioReadBytes: number;
  readonly ioWriteBytes: number;
};

export type ExecOutcome = {
  /** -1 if there is none. */
  readonly exitCode: number;
  readonly durationMs: number;
  readonly signal?: string;
  readonly timedOut?: boolean;
  readonly oomKilled?: boolean;
  readonly error?: string;
  /** Set for an `error` that is not the command's own. */
  readonly code?: ErrorCode;
  readonly usage?: ResourceUsage;
  /** The guest was lost: `error` has the reason, and the command's result is unknown. */
  readonly isLost?: true;
  /** Time in the guest from request to result, by the agent's clock. For diagnosis only. */
  readonly agentUs?: number;
};

/** Events of an exec session, in order; `exit` comes exactly once and last. */
export interface ExecEvents {
  started?(pid: number): void;
  /**
   * Flow control: the command is throttled until `consumed` is called for the bytes. `chunk` is valid only during the
   * call.
   */
  output(stream: 'stdout' | 'stderr', chunk: Buffer): void;
  exit(outcome: ExecOutcome): void;
  /** For an attached client of a detached command: the next record of its output, and what was dropped before it. */
  position?(seq: number, dropped?: { readonly records: number; readonly bytes: number }): void;
  /** There is capacity for stdin again. */
  drain?(): void;
}

/** One running command. */
export interface ExecSession {
  /** The guest lists the command under this id; absent for an older guest, and for a client of a detached command. */
  readonly id?: string | undefined;
  /** Returns flow-control credit after this many bytes of output were passed on. */
  consumed(bytes: number): void;
  /** Queues stdin; false if the caller should wait for `drain`. */
  write(chunk: Uint8Array): boolean;
  /** End of stdin. */
  closeStdin(): void;
  signal(name: string): void;
  resize(size: TtySize): void;
  /** The client has disconnected: kills the command's process tree. `exit` still follows if the guest answers. */
  cancel(): void;
}
