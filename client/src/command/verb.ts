// What a verb of the command is: help, completion and the reading of words follow from this table.
import type { Client } from '../client.ts';
import type { Terminal } from './terminal.ts';

export type Flag = {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** Stands for the value in the help; only of strings. */
  readonly placeholder?: string;
  /** What the value may be; otherwise anything. */
  readonly values?: readonly string[];
  /** What the value names, for completion. */
  readonly completes?: OperandKind;
  /** May be given several times. */
  readonly multiple?: true;
  readonly help: string;
};

export type Flags = Readonly<Record<string, Flag>>;

/** What an operand names, for completion. */
export type OperandKind =
  | 'sandbox'
  | 'snapshot'
  /** A sandbox or a snapshot. */
  | 'id'
  | 'image'
  /** A profile or an image. */
  | 'source'
  /** A path here, or `<sandbox>:<path>`. */
  | 'place'
  | 'path'
  | 'context'
  | readonly string[];

export type Verb = {
  readonly name: string;
  /** What follows the flags, as the help shows it. */
  readonly operands: string;
  /** What they name, in order; the last is for all that follow. */
  readonly completes?: readonly OperandKind[];
  readonly summary: string;
  /** More than the summary, for the verb's own help. */
  readonly details?: string;
  readonly flags: Flags;
  /** From this operand on words are a command of the sandbox, its flags included. */
  readonly commandFrom?: number;
  /** How many operands there must be, and may be. */
  readonly count: readonly [least: number, most: number];
  /** A line that works. */
  readonly example: string;
  /** The exit code, 0 when it gives none. */
  run(input: Input, session: Session): Promise<number | undefined>;
};

/** The words behind a verb, read. */
export type Input = {
  readonly operands: readonly string[];
  readonly text: (flag: string) => string | undefined;
  readonly texts: (flag: string) => readonly string[];
  readonly isSet: (flag: string) => boolean;
};

/** What a verb works with. */
export type Session = {
  readonly client: Client;
  readonly terminal: Terminal;
  /** Fires when the user wants no more. */
  readonly signal: AbortSignal;
  readonly isJson: boolean;
  /** Says on standard error what went wrong beside what the verb fails with. */
  complain(line: string, code?: string): void;
  /** Of the daemon, for messages. */
  readonly host: string;
};

/** The words make no sense; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
