// Types of commands by id.
import type { TtySize } from '@sandboxd/proto';
import type { ExecOutcome } from './exec-types.ts';

/** A command as its guest describes it. */
export type CommandInfo = {
  readonly id: string;
  /** The beginning of its arguments. */
  readonly cmd: readonly string[];
  readonly isCmdCut: boolean;
  readonly isDetached: boolean;
  /** Whether its input is open. */
  readonly hasStdin: boolean;
  /** Absent if it never started. */
  readonly pid?: number;
  readonly tty?: TtySize;
  readonly startedUnixMs: number;
  /** Set once it has ended. */
  readonly outcome?: ExecOutcome;
  readonly endedUnixMs?: number;
  /** Only of a detached command. */
  readonly output?: { readonly firstSeq: number; readonly nextSeq: number; readonly droppedBytes: number };
};

/** `take` replaces a client that writes; `write` is a conflict with one. */
export type CommandInputMode = 'write' | 'take' | 'none';

export type AttachRequest = {
  readonly fromSeq: number;
  /** Continues until the command ends; otherwise the output ends at the present. */
  readonly isFollowing: boolean;
  readonly input: CommandInputMode;
};

/** Where the output ended. */
export type CommandEnd = { readonly nextSeq: number; readonly info: CommandInfo };
