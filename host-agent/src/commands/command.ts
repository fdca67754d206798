// Types of a `sandboxd` command, and the parser of its arguments.
import { parseArgs } from 'node:util';

export type Flag = {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** Name of the value in the help; for string flags only. */
  readonly placeholder?: string;
  readonly help: string;
};

export type Flags = Readonly<Record<string, Flag>>;

/** The parsed arguments of a command. */
export type Input = {
  readonly names: readonly string[];
  /** The value of a string flag. */
  readonly text: (flag: string) => string | undefined;
  readonly isSet: (flag: string) => boolean;
};

export type Command = {
  readonly name: string;
  /** Operands in the help, e.g. `[profile…]`; empty when the command takes flags only. */
  readonly operands: string;
  readonly summary: string;
  readonly flags: Flags;
  /** `signal` aborts when the command must stop. */
  readonly run: (input: Input, signal: AbortSignal) => Promise<void>;
};

/** A group of commands on one resource, such as `sandboxd profiles bake`. */
export type Group = {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly Command[];
};

/** Invalid command line; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `path` is the command's name in errors, e.g. `sandboxd profiles bake`. Throws UsageError. */
export function parseInput(command: Command, path: string, args: readonly string[]): Input {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: command.flags,
      allowPositionals: command.operands !== '',
    });
    return {
      names: positionals,
      text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
      isSet: (flag) => values[flag] === true,
    };
  } catch (error) {
    // The first sentence names the problem; the rest is general advice of Node.
    const [problem = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?=\s|$)/);
    throw new UsageError(`${problem}; \`${path} --help\` lists the flags`);
  }
}

/** Parses a flag's value as a non-negative integer. Throws UsageError. */
export function parseCount(flag: string, text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new UsageError(`--${flag} must be a whole number, not ${JSON.stringify(text)}`);
}
