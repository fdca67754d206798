// The command lines of `sandbox` and `sandboxd`: arguments and help of a command, by its table.
import { parseArgs } from 'node:util';
import { suggest } from './suggest.ts';

export type Flag = {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  /** Name of the value in the help; for string flags only. */
  readonly placeholder?: string;
  /** Allowed values; absent: any. */
  readonly values?: readonly string[];
  /** May be repeated. */
  readonly multiple?: true;
  readonly help: string;
};

export type Flags = Readonly<Record<string, Flag>>;

export type Syntax = {
  /**
   * Operands as the help shows them, which also define their number: `<file>` is required, `[name]` is optional, and
   * with `…` there may be any number.
   */
  readonly operands: string;
  readonly flags: Flags;
  /** From this operand on, all arguments belong to a command in the sandbox, including flags. */
  readonly commandFrom?: number;
};

/** The parsed arguments of a command. */
export type Input = {
  readonly operands: readonly string[];
  /** The value of a string flag. */
  readonly text: (flag: string) => string | undefined;
  readonly texts: (flag: string) => readonly string[];
  readonly isSet: (flag: string) => boolean;
};

export const EXIT = { failed: 1, usage: 2, interrupted: 130, brokenPipe: 141 } as const;

export const HELP_FLAG = {
  help: { type: 'boolean', short: 'h', help: 'print this help, and exit' },
} as const satisfies Flags;

/** Invalid arguments; the message says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `path` is the command's name in errors, e.g. `sandboxd profiles bake`. Throws UsageError. */
export function parseInput(path: string, syntax: Syntax, args: readonly string[]): Input {
  const flags: Flags = { ...syntax.flags, ...HELP_FLAG };
  const { own, command } = split(flags, args, syntax.commandFrom);
  const { values, positionals } = parse(path, flags, own);
  for (const [name, { values: known }] of Object.entries(flags)) {
    const value = values[name];
    if (known !== undefined && typeof value === 'string' && !known.includes(value))
      throw new UsageError(`--${name} must be one of ${known.join(', ')}, not ${JSON.stringify(value)}`);
  }
  const operands = [...positionals, ...command];
  if (values.help !== true) checkOperands(path, syntax, operands);
  return {
    operands,
    text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
    texts: (flag) => (Array.isArray(values[flag]) ? values[flag].map(String) : []),
    isSet: (flag) => values[flag] === true,
  };
}

/** Arguments after the operand `from`, or after `--`, belong to a command in the sandbox. */
function split(flags: Flags, args: readonly string[], from: number | undefined) {
  if (from === undefined) return { own: args, command: [] };
  let operands = 0;
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? '';
    if (word === '--') return { own: args.slice(0, at), command: args.slice(at + 1) };
    if (word.startsWith('-') && word !== '-') {
      if (takesNext(flags, word)) at++;
      continue;
    }
    if (operands === from) return { own: args.slice(0, at), command: args.slice(at) };
    operands++;
  }
  return { own: args, command: [] };
}

/**
 * Whether a flag takes the next argument as its value: `--env A=b`, `-e A=b` and `-ie A=b` do, `--env=A=b` and `-eA=b`
 * do not.
 */
export function takesNext(flags: Flags, word: string): boolean {
  if (word.startsWith('--')) return flags[word.slice(2)]?.type === 'string';
  const letters = word.slice(1);
  for (const [at, letter] of [...letters].entries()) {
    const flag = Object.values(flags).find(({ short }) => short === letter);
    if (flag?.type === 'string') return at === letters.length - 1;
  }
  return false;
}

function parse(path: string, flags: Flags, args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true });
  } catch (error) {
    // The first sentence names the problem; the rest is general advice of Node.
    const [problem = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?=\s|$)/);
    const unknown = /Unknown option '--([\w-]+)/.exec(problem)?.[1];
    const near = unknown === undefined ? '' : suggest(unknown, Object.keys(flags), '--');
    throw new UsageError(
      `${problem.charAt(0).toLowerCase()}${problem.slice(1)}${near || ';'} \`${path} --help\` lists the flags`,
    );
  }
}

function checkOperands(path: string, { operands: shown, commandFrom }: Syntax, operands: readonly string[]) {
  // An unset shell variable expands to an empty argument; only a command in the sandbox may have empty arguments.
  if (operands.slice(0, commandFrom).includes(''))
    throw new UsageError(`one of the arguments is empty: ${path} ${shown}`);
  const required = shown.match(/<[^>]*>/g)?.length ?? 0;
  const optional = shown.match(/\[[^\]]*\]/g)?.length ?? 0;
  const max = shown.includes('…') ? Number.POSITIVE_INFINITY : required + optional;
  if (operands.length >= required && operands.length <= max) return;
  const problem =
    operands.length < required
      ? 'an argument is missing'
      : `${JSON.stringify(operands[max])} is one argument too many`;
  throw new UsageError(`${problem}: ${path} ${shown}`.trimEnd());
}

export function renderFlags(flags: Flags): string[] {
  return Object.entries(flags).map(([name, { short, placeholder, help }]) => {
    const long = placeholder === undefined ? `--${name}` : `--${name} <${placeholder}>`;
    return renderRow(short === undefined ? `    ${long}` : `-${short}, ${long}`, help);
  });
}

export function renderRow(name: string, text: string): string {
  return `  ${name.padEnd(30)} ${text}`;
}
