// Presets of networks: lists of rules that the operator keeps in a file, and the built-in one of the whole internet.
import { readFileSync, statSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { INTERNET_PRESET, MAX_NETWORK_RULES, type NetworkRule, networkRule, presetName } from '@sandboxd/api';
import type { Logger } from 'pino';
import { z } from 'zod';
import { AppError, toError } from '../lib/errors.ts';
import type { AppliedPreset, NamedPresets, NetworkPolicy } from './network-policy.ts';
import { toUsableRules } from './resolve-policy.ts';

export type Preset = AppliedPreset & { readonly description?: string | undefined };

export type PresetsOptions = {
  /** Absent: there are none of the operator's. */
  readonly file?: string | undefined;
  /** Whether the built-in preset can be used. */
  readonly hasInternet: boolean;
  readonly log: Logger;
};

const MAX_BYTES = 2 ** 20;
const MAX_PRESETS = 256;

const fileSchema = z
  .record(
    presetName,
    z.strictObject({
      description: z.string().max(1024).optional(),
      rules: z.array(networkRule).min(1).max(MAX_NETWORK_RULES),
    }),
  )
  .refine((all) => Object.keys(all).length <= MAX_PRESETS, `has more than ${MAX_PRESETS} presets`)
  .refine((all) => !(INTERNET_PRESET in all), `names a preset ${INTERNET_PRESET}, which is built in`);

export class Presets implements NamedPresets {
  readonly #options: PresetsOptions;
  #mark = '';
  #all: readonly Preset[] = [];

  private constructor(options: PresetsOptions) {
    this.#options = options;
  }

  /** AppError invalid_argument if the file cannot be read or is not valid. */
  static open(options: PresetsOptions): Presets {
    const presets = new Presets(options);
    const { file } = options;
    if (file !== undefined) presets.#read(file);
    return presets;
  }

  /** By name. */
  list(): readonly Preset[] {
    this.#refresh();
    const internet: Preset[] = this.#options.hasInternet
      ? [
          {
            name: INTERNET_PRESET,
            description: 'every public address, without mail (TCP port 25)',
            rules: [],
          },
        ]
      : [];
    return [...this.#all, ...internet].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  apply(names: readonly string[]): AppliedPreset[] {
    if (names.length === 0) return [];
    const all = this.list();
    return names.map((name) => {
      const found = all.find((each) => each.name === name);
      if (found !== undefined) return { name, rules: found.rules };
      if (name === INTERNET_PRESET)
        throw new AppError('forbidden', `preset ${name} is off on this daemon (--network-internet on)`);
      throw new AppError('invalid_argument', `there is no preset ${JSON.stringify(name)}`);
    });
  }

  /** AppError forbidden: a preset that a saved policy has may be off by now. */
  assertAvailable(applied: readonly AppliedPreset[]): void {
    this.apply(applied.map(({ name }) => name).filter((name) => name === INTERNET_PRESET));
  }

  /**
   * For the limits of keys: a stored preset whose rules its name does not have any more is plain rules. A key may use
   * what the name means now.
   */
  withCurrentNames<P extends NetworkPolicy>(policy: P): P {
    const { rules = [], presets = [] } = policy;
    if (presets.length === 0) return policy;
    const all = this.list();
    const isCurrent = ({ name, rules: stored }: AppliedPreset): boolean => {
      const now = all.find((each) => each.name === name)?.rules ?? [];
      // Not by what they open: names, methods and paths are not part of that.
      const has = (rule: NetworkRule) => now.some((each) => isDeepStrictEqual(each, rule));
      return name === INTERNET_PRESET || stored.every(has);
    };
    const stale = presets.filter((preset) => !isCurrent(preset)).flatMap((preset) => preset.rules);
    return { ...policy, rules: [...rules, ...stale], presets: presets.filter(isCurrent) };
  }

  /** A file that is not valid changes nothing: what was read before is still used. */
  #refresh(): void {
    const { file, log } = this.#options;
    if (file === undefined) return;
    let mark = 'missing';
    try {
      mark = markOf(file);
      if (mark !== this.#mark) this.#read(file);
    } catch (err) {
      // Logged once for each state of the file.
      if (mark !== this.#mark) log.error({ err, file }, 'the presets of networks stay as they were');
      this.#mark = mark;
    }
  }

  #read(file: string): void {
    try {
      const mark = markOf(file);
      if (statSync(file).size > MAX_BYTES) throw new Error(`is larger than ${MAX_BYTES} bytes`);
      const parsed = fileSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
      this.#all = Object.entries(parsed).map(([name, { description, rules }]) => ({
        name,
        ...(description !== undefined && { description }),
        rules: toUsableRules(rules),
      }));
      this.#mark = mark;
    } catch (cause) {
      const problem =
        cause instanceof z.ZodError
          ? cause.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ')
          : toError(cause).message;
      throw new AppError('invalid_argument', `cannot use the presets of ${file}: ${problem}`, { cause });
    }
  }
}

function markOf(file: string): string {
  const { mtimeMs, ctimeMs, size, ino } = statSync(file);
  return `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
}
