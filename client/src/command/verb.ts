// Types of a verb. Help, completion and argument parsing are derived from its table.
import type { Flag as CommandFlag, Input, Syntax } from '@sandboxd/api/command-line';
import type { Client } from '../client.ts';
import type { Terminal } from './terminal.ts';

type Flag = CommandFlag & {
  /** What the value names, for completion. */
  readonly completes?: OperandKind;
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

export type Verb = Syntax & {
  readonly name: string;
  /** What the operands name, in order; the last entry applies to all further operands. */
  readonly completes?: readonly OperandKind[];
  /** It resolves names itself; absent: its operands are ids. */
  readonly resolvesNames?: true;
  readonly summary: string;
  /** Further sentences for the verb's own help. */
  readonly details?: string;
  readonly flags: Flags;
  /** An example that works. */
  readonly example: string;
  /** Resolves with the exit code; undefined: 0. */
  run(input: Input, session: Session): Promise<number | undefined>;
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
