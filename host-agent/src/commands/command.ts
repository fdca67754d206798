// Types of a `sandboxd` command.
import { type Input, type Syntax, UsageError } from '@sandboxd/api/command-line';

export type Command = Syntax & {
  readonly name: string;
  readonly summary: string;
  /** `signal` aborts when the command must stop. */
  readonly run: (input: Input, signal: AbortSignal) => Promise<void>;
};

/** A group of commands on one resource, such as `sandboxd profiles bake`. */
export type Group = {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly Command[];
};

/** Parses a flag's value as a non-negative integer. Throws UsageError. */
export function parseCount(flag: string, text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new UsageError(`--${flag} must be a whole number, not ${JSON.stringify(text)}`);
}
