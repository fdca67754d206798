// What comes of an exec, in the host agent's own terms.
import type { TtySize } from '@sandboxd/proto';
import type { ErrorCode } from '../lib/errors.ts';

export type ExecOptions = {
  /** Whether `write` will give it input; otherwise its stdin is empty. */
  readonly hasStdin?: boolean;
  /** Below the environment of the request. */
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
  /** -1 when there is none. */
  readonly exitCode: number;
  readonly durationMs: number;
  readonly signal?: string;
  readonly timedOut?: boolean;
  readonly oomKilled?: boolean;
  readonly error?: string;
  /** Of an `error` that is not the command's own. */
  readonly code?: ErrorCode;
  readonly usage?: ResourceUsage;
  /** The guest went away: `error` says why, and what became of the command is unknown. */
  readonly isLost?: true;
  /** What it took in the guest, by the agent's clock, from request to result. Diagnosis only. */
  readonly agentUs?: number;
};

/** What an exec session tells its owner, in order; `exit` exactly once and last. */
export interface ExecEvents {
  started?(pid: number): void;
  /** The session holds back the command until `consumed` was called for what it gave. `chunk` is lent. */
  output(stream: 'stdout' | 'stderr', chunk: Buffer): void;
  exit(outcome: ExecOutcome): void;
  /** Room for stdin again. */
  drain?(): void;
}

/** One running command. */
export interface ExecSession {
  /** The output of this many bytes was passed on. */
  consumed(bytes: number): void;
  /** Queues stdin; false when it should wait for `drain`. */
  write(chunk: Uint8Array): boolean;
  /** No more stdin. */
  closeStdin(): void;
  signal(name: string): void;
  resize(size: TtySize): void;
  /** The client is gone: the command's process tree is killed. `exit` still comes, if the guest answers. */
  cancel(): void;
}
