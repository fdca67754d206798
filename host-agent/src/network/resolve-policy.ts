// From what a client asks for to what a guest may reach.
import { MAX_NETWORK_RULES, MAX_RULE_CHARS, MAX_RULE_CLASSES, type NetworkRule } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { doRangesOverlap, parseIpv4Range } from '../lib/ipv4.ts';
import type { NamedPresets, NetworkPolicy } from './network-policy.ts';
import { EgressPolicy } from './policy.ts';
import { SPECIAL_RANGES } from './special-addresses.ts';
import { findUnreadWay } from './unread-ways.ts';

export type NetworkRequest = {
  readonly allowlist: readonly string[];
  readonly rules?: readonly NetworkRule[] | undefined;
  /** By name. */
  readonly presets?: readonly string[] | undefined;
  readonly log?: NetworkPolicy['log'];
};

/** AppError invalid_argument, forbidden for a preset that is off. */
export function resolvePolicy(request: NetworkRequest, presets: NamedPresets): NetworkPolicy {
  const rules = toUsableRules(request.rules ?? []);
  const applied = presets.apply([...new Set(request.presets ?? [])]);
  const policy = {
    allowlist: request.allowlist,
    ...(rules.length > 0 && { rules }),
    ...(applied.length > 0 && { presets: applied }),
    ...(request.log !== undefined && request.log !== 'all' && { log: request.log }),
  };
  assertFew(policy);
  return policy;
}

/** AppError invalid_argument. */
export function assertFew(policy: NetworkPolicy): void {
  const all = [...(policy.rules ?? []), ...(policy.presets ?? []).flatMap(({ rules }) => rules)];
  if (all.length > MAX_NETWORK_RULES)
    throw new AppError(
      'invalid_argument',
      `a network must have at most ${MAX_NETWORK_RULES} rules, those of its presets included, not ${all.length}`,
    );
  const chars = JSON.stringify(all).length;
  if (chars > MAX_RULE_CHARS)
    throw new AppError(
      'invalid_argument',
      `the rules of a network must have at most ${MAX_RULE_CHARS} characters as JSON, those of its presets included, not ${chars}`,
    );
  const conflict = findUnreadWay(policy);
  if (conflict !== undefined) throw new AppError('invalid_argument', conflict);
  const lists = new EgressPolicy(policy).classes.length;
  if (lists <= MAX_RULE_CLASSES) return;
  throw new AppError(
    'invalid_argument',
    `the rules of a network must have at most ${MAX_RULE_CLASSES} different lists of protocol and ports, not ${lists}`,
  );
}

/** AppError invalid_argument. */
export function toUsableRules(rules: readonly NetworkRule[]): NetworkRule[] {
  return rules.map((rule, at) => {
    const problem = 'cidr' in rule ? findCidrProblem(rule.cidr) : undefined;
    if (problem !== undefined) throw new AppError('invalid_argument', `rules[${at}].cidr ${problem}`);
    return rule;
  });
}

function findCidrProblem(text: string): string | undefined {
  const range = parseIpv4Range(text);
  if (range === undefined) return `${text} is not a range of IPv4 addresses`;
  const special = SPECIAL_RANGES.find((each) => {
    const other = parseIpv4Range(each);
    return other !== undefined && doRangesOverlap(range, other);
  });
  return special && `${text} has addresses of ${special}, which are not on the internet`;
}
