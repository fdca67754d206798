// The rules of a policy that have names, by the pattern of the name. A guest says the names, so none is compared with
// all rules.
import type { NetworkRule } from '@sandboxd/api';
import { isWithin, type PortRange, toRanges } from './port-ranges.ts';
import { patternsOf } from './resolver/allowlist.ts';

export type ChosenRule = readonly [rule: NetworkRule, preset: string | undefined];

type Entry = { readonly at: number; readonly chosen: ChosenRule; readonly ranges: readonly PortRange[] };

export class RuleIndex {
  readonly #byPattern = new Map<string, Entry[]>();

  constructor(rules: readonly ChosenRule[]) {
    for (const [at, chosen] of rules.entries()) {
      const [rule] = chosen;
      if (!('host' in rule)) continue;
      const entries = this.#byPattern.get(rule.host) ?? [];
      entries.push({ at, chosen, ranges: toRanges(rule.ports) });
      this.#byPattern.set(rule.host, entries);
    }
  }

  /** The first of the policy's rules for the name and port that fits. */
  find(name: string, port: number, fits: (rule: NetworkRule) => boolean): ChosenRule | undefined {
    let first: Entry | undefined;
    for (const entry of patternsOf(name).flatMap((pattern) => this.#byPattern.get(pattern) ?? [])) {
      const isEarlier = first === undefined || entry.at < first.at;
      if (isEarlier && isWithin(port, entry.ranges) && fits(entry.chosen[0])) first = entry;
    }
    return first?.chosen;
  }
}
