// What a command of `sandboxd` is, and how its words are read.
import { parseArgs } from 'node:util';

export type Flag = {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** What stands for the value in the help; only of strings. */
  readonly placeholder?: string;
  readonly help: string;
};

export type Flags = Readonly<Record<string, Flag>>;

/** Words behind the command, read. */
export type Input = {
  readonly names: readonly string[];
  /** The value of a flag that takes one. */
  readonly text: (flag: string) => string | undefined;
  readonly isSet: (flag: string) => boolean;
};

export type Command = {
  readonly name: string;
  /** What follows the name, e.g. `[profile…]`; empty when only flags do. */
  readonly operands: string;
  readonly summary: string;
  readonly flags: Flags;
  /** `signal` fires when the command is told to stop. */
  readonly run: (input: Input, signal: AbortSignal) => Promise<void>;
};

/** Commands about one thing: `sandboxd profiles bake`. */
export type Group = {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly Command[];
};

/** The command line makes no sense; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `path` names the command in errors, e.g. `sandboxd profiles bake`. Throws UsageError. */
export function parseWords(command: Command, path: string, words: readonly string[]): Input {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options: command.flags,
      allowPositionals: command.operands !== '',
    });
    return {
      names: positionals,
      text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
      isSet: (flag) => values[flag] === true,
    };
  } catch (error) {
    // Its first sentence says what is wrong; the rest is advice for every program.
    const [problem = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?=\s|$)/);
    throw new UsageError(`${problem}; \`${path} --help\` says what there is`);
  }
}

/** A flag's whole number of 0 or more. Throws UsageError. */
export function parseCount(flag: string, text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new UsageError(`--${flag} must be a whole number, not ${JSON.stringify(text)}`);
}
