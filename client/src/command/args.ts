// Parses arguments into flags and operands by a verb's table.

import { parseArgs } from 'node:util';
import { suggest } from '@sandboxd/api/suggest';
import { type Flags, type Input, UsageError, type Verb } from './verb.ts';

/** Flags of every verb. */
export const GLOBAL_FLAGS: Flags = {
  host: {
    type: 'string',
    placeholder: 'url',
    help: 'address of the daemon: http://…, https://… or unix:/path',
  },
  context: {
    type: 'string',
    placeholder: 'name',
    help: 'context to use instead of the current one',
    completes: 'context',
  },
  ca: {
    type: 'string',
    placeholder: 'file',
    help: 'trusted CA certificates for https:// (PEM)',
    completes: 'path',
  },
  json: { type: 'boolean', help: 'print JSON' },
  help: { type: 'boolean', short: 'h', help: 'print this help, and exit' },
};

/** Index of the verb: the first argument that is neither a global flag nor its value; −1 without a verb. */
export function findVerbIndex(args: readonly string[]): number {
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? '';
    if (!word.startsWith('-')) return at;
    if (takesNext(GLOBAL_FLAGS, word)) at++;
  }
  return -1;
}

export function parseInput(verb: Verb, args: readonly string[]): Input {
  const flags = { ...GLOBAL_FLAGS, ...verb.flags };
  const { own, command } = split(flags, args, verb.commandFrom);
  const { values, positionals } = parse(verb, flags, own);
  for (const [name, { values: known }] of Object.entries(flags)) {
    const value = values[name];
    if (known !== undefined && typeof value === 'string' && !known.includes(value))
      throw new UsageError(`--${name} must be one of ${known.join(', ')}, not ${JSON.stringify(value)}`);
  }
  const operands = [...positionals, ...command];
  if (values.help !== true) checkOperands(verb, operands);
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

function parse(verb: Verb, flags: Flags, args: readonly string[]) {
  try {
    const options = Object.fromEntries(
      Object.entries(flags).map(([name, { type, short, multiple }]) => [
        name,
        { type, ...(short !== undefined && { short }), ...(multiple && { multiple }) },
      ]),
    );
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    const [problem = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?=\s|$)/);
    const unknown = /Unknown option '--([\w-]+)/.exec(problem)?.[1];
    const near = unknown === undefined ? '' : suggest(unknown, Object.keys(flags), '--');
    throw new UsageError(
      `${problem.charAt(0).toLowerCase()}${problem.slice(1)}${near || ';'} \`sandbox ${verb.name} --help\` lists the flags`,
    );
  }
}

function checkOperands(
  { name, operands: shown, count: [min, max], commandFrom = Number.POSITIVE_INFINITY }: Verb,
  operands: readonly string[],
): void {
  // An unset shell variable expands to an empty argument; only a command in the sandbox may have empty arguments.
  if (operands.slice(0, commandFrom).includes(''))
    throw new UsageError(`one of the arguments is empty: sandbox ${name} ${shown}`);
  if (operands.length >= min && operands.length <= max) return;
  const problem =
    operands.length < min
      ? 'an argument is missing'
      : `${JSON.stringify(operands[max])} is one argument too many`;
  throw new UsageError(`${problem}: sandbox ${name} ${shown}`.trimEnd());
}
