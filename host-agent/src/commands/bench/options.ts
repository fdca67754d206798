// The flags of `sandboxd bench` as options, all of them bounded.
import { type Input, UsageError } from '@sandboxd/api/command-line';
import { parseCount } from '../command.ts';

/** A create, fork or list of the interface has at most so many. */
const MAX_LEVEL = 256;
const MAX_LEVELS = 8;
const MAX_ROUNDS = 1000;
const MAX_TIME_S = 86_400;
const MAX_NOTE_CHARS = 500;
const TIERS = [
  'cold boot',
  'create from template',
  'create from an image',
  'fork',
  'resume',
  'rollback',
  'exec',
  'files',
  'ingress',
  'egress',
];

export type BenchOptions = {
  readonly levels: readonly number[];
  readonly rounds: number;
  readonly timeMs: number;
  /** Names; empty: all. */
  readonly tiers: readonly string[];
  readonly profile: string | undefined;
  readonly image: string | undefined;
  readonly egress: URL | undefined;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly untilFull: number | undefined;
  readonly isBesideOthers: boolean;
  readonly note: string | undefined;
};

/** Throws UsageError. */
export function parseOptions(input: Input): BenchOptions {
  const count = (flag: string, fallback: string, max: number): number =>
    parseBetween(flag, input.text(flag) ?? fallback, max);
  const levels = (input.text('concurrency') ?? '1,8,32,64').split(',').map((text) => {
    return parseBetween('concurrency', text, MAX_LEVEL);
  });
  if (levels.length > MAX_LEVELS) throw new UsageError(`--concurrency takes at most ${MAX_LEVELS} numbers`);
  const tiers = input.texts('tier');
  const unknown = tiers.find((name) => !TIERS.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`there is no tier ${JSON.stringify(unknown)}; there are ${TIERS.join(', ')}`);
  const note = input.text('note');
  if (note !== undefined && note.length > MAX_NOTE_CHARS)
    throw new UsageError(`--note has at most ${MAX_NOTE_CHARS} characters`);
  return {
    levels: [...new Set(levels)].sort((a, b) => a - b),
    rounds: count('rounds', '10', MAX_ROUNDS),
    timeMs: count('time', '900', MAX_TIME_S) * 1000,
    tiers,
    profile: input.text('profile'),
    image: input.text('image'),
    egress: parseAddress(input.text('egress')),
    memoryMib: count('memory', '512', 999_999),
    vcpus: count('vcpus', '1', 1024),
    untilFull: input.text('until-full') === undefined ? undefined : count('until-full', '', 100_000),
    isBesideOthers: input.isSet('beside-others'),
    note,
  };
}

function parseBetween(flag: string, text: string, max: number): number {
  const value = parseCount(flag, text);
  if (value >= 1 && value <= max) return value;
  throw new UsageError(`--${flag} must be from 1 to ${max}, not ${text}`);
}

function parseAddress(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined;
  const url = URL.parse(text);
  if (url?.protocol === 'http:' && url.username === '') return url;
  throw new UsageError(
    `--egress must be an address such as http://example.com/, not ${JSON.stringify(text)}`,
  );
}
