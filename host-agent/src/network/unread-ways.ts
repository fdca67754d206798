// A rule whose requests are read is of use only where the same connections cannot pass unread.
import { INTERNET_PRESET, type NetworkRule } from '@sandboxd/api';
import { isBound, isRead } from '../lib/network-rules.ts';
import { WEB_PORTS } from './bound-rules.ts';
import type { NetworkPolicy } from './network-policy.ts';
import { coversPorts, doPortsOverlap, toRanges } from './port-ranges.ts';

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
