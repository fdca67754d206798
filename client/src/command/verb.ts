// Types of a verb. Help, completion and argument parsing are derived from its table.
import type { Client } from '../client.ts';
import type { Terminal } from './terminal.ts';

export type Flag = {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** Name of the value in the help; for string flags only. */
  readonly placeholder?: string;
  /** Allowed values; absent: any. */
  readonly values?: readonly string[];
  /** What the value names, for completion. */
  readonly completes?: OperandKind;
  /** May be repeated. */
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
  /** A local path, or `<sandbox>:<path>`. */
  | 'place'
  | 'path'
  | 'context'
  | readonly string[];

export type Verb = {
  readonly name: string;
  /** Operands as the help shows them. */
  readonly operands: string;
  /** What the operands name, in order; the last entry applies to all further operands. */
  readonly completes?: readonly OperandKind[];
  readonly summary: string;
  /** Further sentences for the verb's own help. */
  readonly details?: string;
  readonly flags: Flags;
  /** From this operand on, all arguments belong to a command in the sandbox, including flags. */
  readonly commandFrom?: number;
  /** Minimum and maximum number of operands. */
  readonly count: readonly [min: number, max: number];
  /** An example that works. */
  readonly example: string;
  /** Resolves with the exit code; undefined: 0. */
  run(input: Input, session: Session): Promise<number | undefined>;
};

/** The parsed arguments of a verb. */
export type Input = {
  readonly operands: readonly string[];
  readonly text: (flag: string) => string | undefined;
  readonly texts: (flag: string) => readonly string[];
  readonly isSet: (flag: string) => boolean;
};

/** The context in which a verb runs. */
export type Session = {
  readonly client: Client;
  readonly terminal: Terminal;
  /** Aborts when the user interrupts. */
  readonly signal: AbortSignal;
  readonly isJson: boolean;
  /** Reports an additional error on standard error; the verb's own failure is thrown. */
  complain(line: string, code?: string): void;
  /** Address of the daemon, for messages. */
  readonly host: string;
};

/** Invalid arguments; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
