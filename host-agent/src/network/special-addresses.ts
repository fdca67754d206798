// Special-purpose addresses, which names may resolve to only if the operator allows it.
import { type Ipv4Range, isInRange, parseIpv4Range } from '../lib/ipv4.ts';

/** IANA's special-purpose address registry, and ranges that cloud providers use. */
const RANGES: readonly (readonly [text: string, kind: string])[] = [
  ['0.0.0.0/8', 'reserved'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'carrier-grade NAT'],
  ['127.0.0.0/8', 'loopback'],
  ['168.63.129.16/32', 'metadata'],
  ['169.254.0.0/16', 'link-local or metadata'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'reserved'],
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmark'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
];

/** All of them, as nftables has them. */
export const SPECIAL_RANGES: readonly string[] = RANGES.map(([text]) => text);

const SPECIAL = RANGES.map(([text, kind]) => {
  const range = parseIpv4Range(text);
  if (range === undefined) throw new Error(`${text} is not a range`);
  return { range, kind };
});

/** The kind of special-purpose address; undefined for a public one. */
export function specialKind(address: number): string | undefined {
  return SPECIAL.find(({ range }) => isInRange(address, range))?.kind;
}

export type AddressPolicy = {
  /** Special-purpose ranges that the operator allows. */
  readonly allowed: readonly Ipv4Range[];
  /** The sandboxes' own range, never allowed. */
  readonly subnet: Ipv4Range;
};

/** The reason why a name may not resolve to this address; undefined if it may. */
export function denialReason(address: number, { allowed, subnet }: AddressPolicy): string | undefined {
  if (isInRange(address, subnet)) return 'of other sandboxes';
  const kind = specialKind(address);
  return kind === undefined || allowed.some((range) => isInRange(address, range)) ? undefined : kind;
}
