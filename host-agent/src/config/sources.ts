// Where settings come from: command line, environment and file. Collects raw values with the place each was seen.
import { readFileSync } from 'node:fs';
import { errnoOf, toError } from '../lib/errors.ts';
import { toFlag, toVariable } from './settings.ts';

/** A value as found, and its place as an error names it, e.g. `flag --max-vcpus`. */
export type RawValue = { readonly value: unknown; readonly place: string };
export type RawValues = ReadonlyMap<string, RawValue>;

export type CommandLine = {
  readonly values: RawValues;
  readonly isHelp: boolean;
  readonly isVersion: boolean;
  readonly isPrintConfig: boolean;
};

/** One or more things wrong with the configuration, a sentence each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** `--key value` and `--key=value`; the last one wins. `keys` are the settings' names, `config` included. */
export function readFlags(
  argv: readonly string[],
  keys: readonly string[],
  problems: string[],
  fromText: (key: string, text: string) => unknown,
): CommandLine {
  const byFlag = new Map(keys.map((key) => [toFlag(key), key]));
  const switches = { '--help': false, '-h': false, '--version': false, '--print-config': false };
  const values = new Map<string, RawValue>();
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? '';
    if (Object.hasOwn(switches, word)) {
      switches[word as keyof typeof switches] = true;
      continue;
    }
    const equals = word.startsWith('--') ? word.indexOf('=') : -1;
    const flag = equals === -1 ? word : word.slice(0, equals);
    const key = byFlag.get(flag);
    if (key === undefined) {
      problems.push(`${describeWord(word, flag)}; \`sandboxd --help\` lists every flag`);
      continue;
    }
    const text = equals === -1 ? argv[++at] : word.slice(equals + 1);
    if (text === undefined) problems.push(`flag ${flag}: a value is missing behind it`);
    else values.set(key, { value: fromText(key, text), place: `flag ${flag}` });
  }
  return {
    values,
    isHelp: switches['--help'] || switches['-h'],
    isVersion: switches['--version'],
    isPrintConfig: switches['--print-config'],
  };
}

/** Known SANDBOXD_ variables. Others of that prefix are only warned of: orchestrators set such names by themselves. */
export function readEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  keys: readonly string[],
  warnings: string[],
  fromText: (key: string, text: string) => unknown,
): RawValues {
  const byName = new Map(keys.map((key) => [toVariable(key), key]));
  const values = new Map<string, RawValue>();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('SANDBOXD_') || text === undefined) continue;
    const key = byName.get(name);
    if (key === undefined) warnings.push(`environment variable ${name} is no setting and is ignored`);
    else values.set(key, { value: fromText(key, text), place: `environment variable ${name}` });
  }
  return values;
}

/** A JSON object whose keys are the settings' names. */
export function readFile(path: string, keys: readonly string[], problems: string[]): RawValues {
  const values = new Map<string, RawValue>();
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const reason = errnoOf(error) === 'ENOENT' ? 'no such file' : toError(error).message;
    problems.push(`config file ${path}: cannot be read as JSON: ${reason}`);
    return values;
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    problems.push(`config file ${path}: must hold one JSON object of settings`);
    return values;
  }
  for (const [key, value] of Object.entries(content)) {
    const place = `config file ${path}, key "${key}"`;
    if (keys.includes(key)) values.set(key, { value, place });
    else problems.push(`${place}: no such setting; known are ${keys.join(', ')}`);
  }
  return values;
}

function describeWord(word: string, flag: string): string {
  return word.startsWith('-') ? `flag ${flag}: no such flag` : `argument "${word}": nothing is expected here`;
}
