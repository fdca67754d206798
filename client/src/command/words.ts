// From words to flags and operands, as a verb's table has them.

import { parseArgs } from 'node:util';
import { suggest } from '@sandboxd/api/suggest';
import { type Flags, type Input, UsageError, type Verb } from './verb.ts';

/** For every verb. */
export const GLOBAL_FLAGS: Flags = {
  host: { type: 'string', placeholder: 'url', help: 'the daemon: http://…, https://… or unix:/path' },
  context: {
    type: 'string',
    placeholder: 'name',
    help: 'a context other than the one in use',
    completes: 'context',
  },
  ca: {
    type: 'string',
    placeholder: 'file',
    help: 'certificates to trust with https://, PEM',
    completes: 'path',
  },
  json: { type: 'boolean', help: 'print JSON' },
  help: { type: 'boolean', short: 'h', help: 'print this, and exit' },
};

/** Which of the words is the verb: the first that is neither a flag for every verb nor its value; −1 when there is none. */
export function findVerbWord(words: readonly string[]): number {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (!word.startsWith('-')) return at;
    if (takesNext(GLOBAL_FLAGS, word)) at++;
  }
  return -1;
}

export function readWords(verb: Verb, words: readonly string[]): Input {
  const flags = { ...GLOBAL_FLAGS, ...verb.flags };
  const { own, command } = split(flags, words, verb.commandFrom);
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

/** Words behind the operand `from`, and behind `--`, belong to a command of the sandbox. */
function split(flags: Flags, words: readonly string[], from: number | undefined) {
  if (from === undefined) return { own: words, command: [] };
  let operands = 0;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '--') return { own: words.slice(0, at), command: words.slice(at + 1) };
    if (word.startsWith('-') && word !== '-') {
      if (takesNext(flags, word)) at++;
      continue;
    }
    if (operands === from) return { own: words.slice(0, at), command: words.slice(at) };
    operands++;
  }
  return { own: words, command: [] };
}

/** `--env A=b`, `-e A=b` and `-ie A=b` take the next word, `--env=A=b` and `-eA=b` do not. */
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
      `${problem.charAt(0).toLowerCase()}${problem.slice(1)}${near || ';'} \`sandbox ${verb.name} --help\` says what there is`,
    );
  }
}

function checkOperands(
  { name, operands: shown, count: [least, most], commandFrom = Number.POSITIVE_INFINITY }: Verb,
  operands: readonly string[],
): void {
  // What a shell makes of a variable that is not set; only a command of the sandbox may have such words.
  if (operands.slice(0, commandFrom).includes(''))
    throw new UsageError(`one of the words is empty: sandbox ${name} ${shown}`);
  if (operands.length >= least && operands.length <= most) return;
  const problem =
    operands.length < least ? 'something is missing' : `${JSON.stringify(operands[most])} is too much`;
  throw new UsageError(`${problem}: sandbox ${name} ${shown}`.trimEnd());
}
