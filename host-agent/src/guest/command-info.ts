// Commands as callers see them, and the conversion of their status. All of it comes from a guest, so every part has a
// limit.
import {
  COMMAND_STATUSES,
  type CommandStatus,
  type ExecResult,
  MAX_COMMAND_LINE_BYTES,
  MAX_LISTED_COMMANDS,
  ProtocolViolation,
  type TtySize,
} from '@sandboxd/proto';
import { isId } from '../lib/ids.ts';
import { badAnswer, count } from './agent-errors.ts';
import { type ExecOutcome, toExecOutcome } from './exec.ts';

/** The end of the year 9999, the latest time that RFC 3339 can express. */
const MAX_UNIX_MS = 253_402_300_799_999;
const MAX_TTY_CELLS = 65_535;
/** An argument costs its field, too. */
const MAX_ARGUMENTS = MAX_COMMAND_LINE_BYTES;

/** AppError guest_unreachable for a status that cannot be, such as one of another command than `id`. */
export function toCommandInfo(wire: CommandStatus, id?: string): CommandInfo {
  const { cmd, tty, result, output, pid } = wire;
  if (!isId('cmd', wire.id) || (id !== undefined && wire.id !== id)) throw badAnswer('an unknown command');
  if (cmd.length > MAX_ARGUMENTS || cmd.reduce((sum, each) => sum + each.length, 0) > MAX_COMMAND_LINE_BYTES)
    throw badAnswer('a command line that is too long');
  return {
    id: wire.id,
    cmd,
    isCmdCut: wire.cmdTruncated,
    isDetached: wire.detached,
    hasStdin: wire.stdin,
    ...(pid > 0 && { pid }),
    ...(tty && { tty: toSize(tty as Partial<TtySize>) }),
    startedUnixMs: toUnixMs(wire.startedUnixMs),
    ...(result && {
      outcome: toExecOutcome(result as ExecResult),
      endedUnixMs: toUnixMs(wire.endedUnixMs),
    }),
    ...(output && {
      output: {
        firstSeq: count(output.firstSeq ?? 0),
        nextSeq: count(output.nextSeq ?? 0),
        droppedBytes: count(output.droppedBytes ?? 0),
      },
    }),
  };
}

/** AppError guest_unreachable for more commands than a guest has, or one of them twice. */
export function toCommandInfos(list: Uint8Array): CommandInfo[] {
  let infos: CommandInfo[];
  try {
    infos = COMMAND_STATUSES.decode(list, MAX_LISTED_COMMANDS).map((wire) => toCommandInfo(wire));
  } catch (error) {
    throw error instanceof ProtocolViolation ? badAnswer(error.message) : error;
  }
  if (new Set(infos.map(({ id }) => id)).size < infos.length) throw badAnswer('a command twice');
  return infos;
}

function toSize({ cols = 0, rows = 0 }: Partial<TtySize>): TtySize {
  return { cols: Math.min(cols, MAX_TTY_CELLS), rows: Math.min(rows, MAX_TTY_CELLS) };
}

function toUnixMs(value: number): number {
  return Math.min(count(value), MAX_UNIX_MS);
}

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
type CommandInputMode = 'write' | 'take' | 'none';

export type AttachRequest = {
  readonly fromSeq: number;
  /** Continues until the command ends; otherwise the output ends at the present. */
  readonly isFollowing: boolean;
  readonly input: CommandInputMode;
};

/** Where the output ended. */
export type CommandEnd = { readonly nextSeq: number; readonly info: CommandInfo };
