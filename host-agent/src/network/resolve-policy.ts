// From what a client asks for to what a guest may reach.
import {
  INTERNET_PRESET,
  MAX_NETWORK_RULES,
  MAX_RULE_CHARS,
  MAX_RULE_CLASSES,
  type NetworkRule,
} from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { doRangesOverlap, parseIpv4Range } from '../lib/ipv4.ts';
import { isBound, isRead } from '../lib/network-rules.ts';
import { WEB_PORTS } from './bound-rules.ts';
import type { NamedPresets, NetworkPolicy } from './network-policy.ts';
import { EgressPolicy } from './policy.ts';
import { coversPorts, doPortsOverlap, toRanges } from './port-ranges.ts';
import { SPECIAL_RANGES } from './special-addresses.ts';

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

// A rule whose requests are read is of use only where the same connections cannot pass unread.

type Named = { readonly rule: NetworkRule; readonly word: string };

const WEB_RANGES = toRanges(WEB_PORTS);

/** In words that name both; undefined if there is none. */
export function findUnreadWay({ allowlist, rules = [], presets = [] }: NetworkPolicy): string | undefined {
  const named: Named[] = [
    ...rules.map((rule, at) => ({ rule, word: `rules[${at}]` })),
    ...presets.flatMap(({ name, rules }) => rules.map((rule) => ({ rule, word: `preset ${name}` }))),
  ];
  for (const { rule, word } of named) {
    if (!isBound(rule) || !isRead(rule)) continue;
    const what = `${word} reads the requests to ${rule.host} on port ${rule.ports.join(', ')}`;
    const ranges = toRanges(rule.ports);
    if (presets.some(({ name }) => name === INTERNET_PRESET))
      return `${what}, and preset ${INTERNET_PRESET} opens all public addresses, so that they pass unread`;
    if (allowlist.includes(rule.host) && doPortsOverlap(ranges, WEB_RANGES))
      return `${what}, and the allowlist lets ${rule.host} pass unread; name it in one of them`;
    if (allowlist.length > 0 && !coversPorts(WEB_RANGES, ranges))
      return `${what}, and an allowlist opens addresses on all ports but 80 and 443; use rules in its place`;
    const other = named.find((each) => isUnread(each.rule, rule.host) && overlaps(each.rule, rule));
    if (other === undefined) continue;
    return isBound(other.rule)
      ? `${what}, and ${other.word} lets ${rule.host} pass unread there: one name and port cannot have both`
      : `${what}, and ${other.word} opens addresses on such a port by ${other.rule.protocol}, which pass unread`;
  }
  return undefined;
}

function isUnread(rule: NetworkRule, host: string): boolean {
  // HTTP/3 is UDP.
  if (!isBound(rule)) return rule.protocol === 'tcp' || rule.protocol === 'udp';
  return rule.host === host && !isRead(rule);
}

function overlaps(one: NetworkRule, other: NetworkRule): boolean {
  return doPortsOverlap(toRanges(one.ports), toRanges(other.ports));
}
