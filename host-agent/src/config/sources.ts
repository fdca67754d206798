// Reads settings from the command line, the environment and the file. Each raw value carries its place for error
// messages.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { suggest } from '@sandboxd/api/suggest';
import { errnoOf, toError } from '../lib/errors.ts';
import { toFlag, toVariable } from './settings.ts';

/** A raw value and its place in error messages, e.g. `flag --max-vcpus`. */
export type RawValue = { readonly value: unknown; readonly place: string };
type RawValues = ReadonlyMap<string, RawValue>;

const SWITCHES: ReadonlySet<string> = new Set(['--help', '-h', '--version', '--print-config']);

type CommandLine = {
  readonly values: RawValues;
  readonly isHelp: boolean;
  readonly isVersion: boolean;
  readonly isPrintConfig: boolean;
};

/** One or more configuration problems, one sentence each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads `--key value`, `--key=value`, and `--key` for switches. The last value wins; values of lists accumulate. `keys`
 * are the setting names, including `config`.
 */
export function readFlags(
  argv: readonly string[],
  keys: readonly string[],
  problems: string[],
  fromText: (key: string, text: string) => unknown,
  switches: ReadonlySet<string> = new Set(),
): CommandLine {
  const byFlag = new Map(keys.map((key) => [toFlag(key), key]));
  const { tokens } = parseArgs({
    args: [...argv],
    options: {
      ...Object.fromEntries(
        [...byFlag].map(([flag, key]) => [
          flag.slice(2),
          { type: switches.has(key) ? ('boolean' as const) : ('string' as const) },
        ]),
      ),
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean' },
      'print-config': { type: 'boolean' },
    },
    // Problems are collected here, so that one run reports all of them.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, RawValue>();
  const switchNames = new Set<string>();
  for (const token of tokens) {
    if (token.kind === 'positional') problems.push(describeOperand(token.value));
    if (token.kind !== 'option') continue;
    const { name, rawName: flag, value } = token;
    const key = byFlag.get(flag);
    if (key !== undefined && value === undefined && switches.has(key))
      values.set(key, { value: true, place: `flag ${flag}` });
    else if (key !== undefined && value === undefined)
      problems.push(`flag ${flag}: a value is missing behind it`);
    else if (key !== undefined) {
      const parsed = fromText(key, value ?? '');
      const before = values.get(key)?.value;
      const all = Array.isArray(before) && Array.isArray(parsed) ? [...before, ...parsed] : parsed;
      values.set(key, { value: all, place: `flag ${flag}` });
    } else if (SWITCHES.has(flag) && value === undefined) switchNames.add(name);
    else {
      const near = suggest(flag, [...byFlag.keys()]);
      problems.push(`flag ${flag}: no such flag${near || '; `sandboxd --help` lists every flag'}`);
    }
  }
  return {
    values,
    isHelp: switchNames.has('help'),
    isVersion: switchNames.has('version'),
    isPrintConfig: switchNames.has('print-config'),
  };
}

/**
 * Reads known SANDBOXD_ variables. Unknown ones only cause a warning, because orchestrators set variables with this
 * prefix.
 */
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
    if (key === undefined) warnings.push(`environment variable ${name} is not a setting and is ignored`);
    else values.set(key, { value: fromText(key, text), place: `environment variable ${name}` });
  }
  return values;
}

/** Reads a JSON object whose keys are setting names. */
export function readFile(path: string, keys: readonly string[], problems: string[]): RawValues {
  const values = new Map<string, RawValue>();
  let content: unknown;
  try {
    // Invalid UTF-8 and byte order marks must not become part of a path.
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)));
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
    else
      problems.push(
        `${place}: no such setting${suggest(key, keys) || '; `sandboxd --help` lists every one'}`,
      );
  }
  return values;
}

function describeOperand(word: string): string {
  return `argument "${word}": nothing is expected here (a command comes before all flags); \`sandboxd --help\` lists every flag`;
}
