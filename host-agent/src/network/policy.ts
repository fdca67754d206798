// What a guest may reach: its allowlist, rules and presets, as the resolver and the rules of the kernel see them.
import { createHash } from 'node:crypto';
import { INTERNET_PRESET, type NetworkRule } from '@sandboxd/api';
import { formatIpv4Range, type Ipv4Range, isInRange, parseIpv4, parseIpv4Range } from '../lib/ipv4.ts';
import { isBound, isRead } from '../lib/network-rules.ts';
import { type AllowedBy, BoundRules, type NamedConnection, WEB_PORTS } from './bound-rules.ts';
import type { NetworkPolicy } from './network-policy.ts';
import {
  coversPorts,
  doPortsOverlap,
  formatPorts,
  isWithin,
  type PortRange,
  toRanges,
} from './port-ranges.ts';
import { judgeRequest } from './request-verdict.ts';
import { Allowlist, isName, patternsOf } from './resolver/allowlist.ts';
import { type ChosenRule, RuleIndex } from './rule-index.ts';
import { specialKind } from './special-addresses.ts';

/** What a guest sends: a connection, or the first packet of one. */
export type Traffic = {
  readonly protocol: 'tcp' | 'udp' | 'icmp';
  /** Of the peer; 0 for ICMP. */
  readonly port: number;
  /** A request within it, where requests are read. */
  readonly request?: { readonly method: string; readonly path: string } | undefined;
};

export type Verdict = {
  readonly isAllowed: boolean;
  /** What allows it. */
  readonly by?: AllowedBy;
  readonly reason: string;
  /** The gateway lets its requests pass, or not. */
  readonly isRead?: boolean;
};

/** Mail leaves only by a rule that names the port. */
export const MAIL_PORT = 25;

/** HTTP/3 says its name where no gateway reads it. */
export const QUIC_PORT = 443;
const WEB_RANGES = toRanges(WEB_PORTS);

/** All rules of one protocol and one list of ports: they share a set of addresses in the kernel. */
export type RuleClass = {
  readonly protocol: 'tcp' | 'udp';
  /** Its connections are bound to names, and its addresses are not open to the guest itself. */
  readonly isBound: boolean;
  /** As nftables has them, sorted and merged: `22, 9000-9010`. */
  readonly ports: string;
  /** Part of the names of its sets; the same for the same protocol and ports. */
  readonly set: string;
  readonly patterns: readonly string[];
  readonly cidrs: readonly string[];
};

type CompiledClass = RuleClass & {
  readonly ranges: readonly PortRange[];
  readonly nets: readonly Ipv4Range[];
};

/** Where the kernel has the addresses of a name: in the sets of a class, or undefined in those of the allowlist. */
export type SetOwner = string | undefined;

export class EgressPolicy {
  readonly allowlist: readonly string[];
  /** As it was chosen. */
  readonly source: NetworkPolicy;
  readonly isInternet: boolean;
  readonly #classes: readonly CompiledClass[];
  readonly #rules: readonly ChosenRule[];
  readonly #named: RuleIndex;
  readonly #bound: BoundRules;
  readonly #open: Allowlist;
  readonly #all: Allowlist;
  /** By pattern. A guest may have resolved many names, so none is compared with all patterns. */
  readonly #owners = new Map<string, Set<SetOwner>>();

  /** The rules are valid, and their names normalized. */
  constructor(policy: NetworkPolicy) {
    const { allowlist, rules = [], presets = [] } = policy;
    this.source = policy;
    this.#bound = new BoundRules(policy);
    this.allowlist = allowlist;
    this.isInternet = presets.some(({ name }) => name === INTERNET_PRESET);
    this.#rules = [
      ...rules.map((each) => [each, undefined] as const),
      ...presets.flatMap(({ name, rules }) => rules.map((each) => [each, name] as const)),
    ];
    this.#named = new RuleIndex(this.#rules);
    this.#classes = compile(this.#rules.map(([each]) => each));
    this.#open = new Allowlist(allowlist);
    this.#all = new Allowlist([...allowlist, ...this.#classes.flatMap(({ patterns }) => patterns)]);
    for (const { set, patterns } of [{ set: undefined, patterns: allowlist }, ...this.#classes])
      for (const pattern of patterns)
        this.#owners.set(pattern, (this.#owners.get(pattern) ?? new Set()).add(set));
  }

  get classes(): readonly RuleClass[] {
    return this.#classes;
  }

  /** The ports of connections that are bound to names, as nftables has them; empty: there are none. */
  get boundPorts(): string {
    const web = this.allowlist.length > 0 ? WEB_PORTS : [];
    const ofRules = this.#classes.filter(({ isBound }) => isBound).map(({ ports }) => ports.split(', '));
    return formatPorts(toRanges([...web, ...ofRules.flat()]));
  }

  /** Whether a connection passes that is bound to its name. */
  judge(connection: NamedConnection): Verdict {
    const { kind, name, port, hasEch } = connection;
    const found = this.#bound.findFor(connection);
    const [first] = found;
    if (first !== undefined) {
      const isAnyRead = found.some(({ rule }) => rule !== undefined && isRead(rule));
      return { isAllowed: true, by: first.by, reason: BOUND, ...(isAnyRead && { isRead: true }) };
    }
    if (hasEch && this.#bound.findFor({ ...connection, hasEch: false }).length > 0)
      return { isAllowed: false, reason: 'the rule refuses encrypted names (ECH)' };
    if (!this.allows(name)) return { isAllowed: false, reason: 'no allowlist, rule or preset has the name' };
    return { isAllowed: false, reason: `the rules for the name have no ${kind} on port ${port}` };
  }

  /** Whether the resolver answers for this normalized name. */
  allows(name: string): boolean {
    return this.isInternet ? isName(name) : this.#all.allows(name);
  }

  /** The most specific entry or rule for a name, in words; undefined if the resolver does not answer for it. */
  patternFor(name: string): string | undefined {
    return this.#all.find(name) ?? (this.allows(name) ? INTERNET_PRESET : undefined);
  }

  /** As of `Allowlist`. */
  isAboveAllowed(name: string): boolean {
    return this.isInternet || this.#all.isAboveAllowed(name);
  }

  /** The sets that get the addresses of a name. */
  setsOf(name: string): SetOwner[] {
    return [...new Set(patternsOf(name).flatMap((pattern) => [...(this.#owners.get(pattern) ?? [])]))];
  }

  /** The sets through which such traffic passes. */
  setsFor({ protocol, port }: Traffic): SetOwner[] {
    const classes = this.#classes.filter(
      (each) =>
        !each.isBound &&
        each.protocol === protocol &&
        each.patterns.length > 0 &&
        isWithin(port, each.ranges),
    );
    const isListed = this.allowlist.length > 0 && isOpenByAllowlist({ protocol, port });
    return [...(isListed ? [undefined] : []), ...classes.map(({ set }) => set)];
  }

  /** Whether traffic to an address passes that is in these sets. */
  passes(address: number, traffic: Traffic, sets: ReadonlySet<SetOwner> | undefined): boolean {
    if (this.#passesByAddress(address, traffic)) return true;
    return sets !== undefined && this.setsFor(traffic).some((set) => sets.has(set));
  }

  /** Whether the kernel allows everything that it allows by `other`, by the same names and ranges. */
  includes(other: EgressPolicy): boolean {
    if (other.isInternet && !this.isInternet) return false;
    const open = new Set(this.allowlist);
    if (!other.allowlist.every((pattern) => open.has(pattern))) return false;
    const kernelClasses = (policy: EgressPolicy) => policy.#classes.filter(({ isBound }) => !isBound);
    return kernelClasses(other).every((theirs) => {
      const ours = kernelClasses(this).filter(
        (each) => each.protocol === theirs.protocol && coversPorts(each.ranges, theirs.ranges),
      );
      const closed = theirs.protocol === 'tcp' ? WEB_PORTS : [QUIC_PORT];
      const isListed = !doPortsOverlap(theirs.ranges, toRanges(closed));
      const has = (list: 'patterns' | 'cidrs', value: string) =>
        ours.some((each) => each[list].includes(value));
      return (
        theirs.patterns.every((pattern) => (isListed && open.has(pattern)) || has('patterns', pattern)) &&
        theirs.cidrs.every((cidr) => has('cidrs', cidr))
      );
    });
  }

  /** `host`: a normalized name, or an address that the guest would use without asking for a name. */
  check(host: string, traffic: Traffic): Verdict {
    const address = parseIpv4(host);
    return address === undefined ? this.#checkName(host, traffic) : this.#checkAddress(address, traffic);
  }

  /** Whether the addresses of a normalized name are open for it, whatever it says. */
  isOpenUnbound(name: string, traffic: Traffic): boolean {
    return this.#findName(name, traffic) !== undefined || this.#passesAnywhere(name, traffic);
  }

  #passesAnywhere(name: string, traffic: Traffic): boolean {
    return this.isInternet && isName(name) && passesInternet(traffic);
  }

  #checkName(name: string, traffic: Traffic): Verdict {
    const { protocol, port } = traffic;
    const found = this.#findName(name, traffic);
    if (found !== undefined)
      return { isAllowed: true, ...found, reason: 'it is open once the guest has resolved the name' };
    const bound = protocol === 'tcp' ? this.#findBound(name, traffic) : undefined;
    if (bound !== undefined) return bound;
    if (this.#passesAnywhere(name, traffic))
      return { isAllowed: true, by: { preset: INTERNET_PRESET }, reason: 'its public addresses are open' };
    if (!this.allows(name)) return { isAllowed: false, reason: 'no allowlist, rule or preset has the name' };
    if (protocol === 'icmp') return { isAllowed: false, reason: 'rules have no ICMP' };
    return { isAllowed: false, reason: `the rules for the name have no ${protocol} port ${port}` };
  }

  #checkAddress(address: number, traffic: Traffic): Verdict {
    const rule = this.#rules.find(([each]) => matchesCidr(each, address, traffic));
    if (rule !== undefined)
      return { isAllowed: true, ...toBy(rule), reason: 'a range of addresses is open, without a name' };
    const kind = specialKind(address);
    if (kind !== undefined) return { isAllowed: false, reason: `the address is ${kind}` };
    if (this.isInternet && passesInternet(traffic))
      return { isAllowed: true, by: { preset: INTERNET_PRESET }, reason: 'public addresses are open' };
    return {
      isAllowed: false,
      reason: 'no rule has the address; it is open only while an allowed name leads to it',
    };
  }

  #findBound(name: string, { port, request }: Traffic): Verdict | undefined {
    const kinds = (['tls', 'http', 'postgres'] as const).filter(
      (kind) => this.judge({ kind, name, port, hasEch: false }).isAllowed,
    );
    const [kind] = kinds;
    if (kind === undefined) return undefined;
    const connection = { kind, name, port, hasEch: false };
    const { by, isRead: isConnectionRead } = this.judge(connection);
    const allowed = `connections of ${kinds.join(' and ')} that say the name pass, to its own addresses`;
    if (isConnectionRead !== true)
      return {
        isAllowed: true,
        ...(by && { by }),
        reason: request === undefined ? allowed : `${allowed}; their requests are not read`,
      };
    if (request === undefined)
      return {
        isAllowed: true,
        ...(by && { by }),
        reason: `${allowed}; of their requests, those that a rule lets pass`,
      };
    const verdict = judgeRequest(this.#bound.findFor(connection), {
      method: request.method,
      target: request.path,
      hasOverride: false,
      isWebSocket: false,
    });
    return verdict.isAllowed
      ? { isAllowed: true, by: verdict.by, reason: 'a rule lets the request pass' }
      : { isAllowed: false, reason: verdict.reason };
  }

  #passesByAddress(address: number, traffic: Traffic): boolean {
    if (this.isInternet && specialKind(address) === undefined && passesInternet(traffic)) return true;
    return this.#classes.some(
      ({ protocol, ranges, nets }) =>
        protocol === traffic.protocol &&
        nets.some((net) => isInRange(address, net)) &&
        isWithin(traffic.port, ranges),
    );
  }

  /** What opens the addresses of a name for that traffic. */
  #findName(name: string, { protocol, port }: Traffic): Pick<Verdict, 'by'> | undefined {
    const pattern = isOpenByAllowlist({ protocol, port }) ? this.#open.find(name) : undefined;
    if (pattern !== undefined) return { by: { allowlist: pattern } };
    const rule = this.#named.find(name, port, (each) => each.protocol === protocol);
    return rule && toBy(rule);
  }
}

function toBy([rule, preset]: ChosenRule): Pick<Verdict, 'by'> {
  return { by: preset === undefined ? { rule } : { preset } };
}

const BOUND = 'the connection says the name';

function isOpenByAllowlist({ protocol, port }: Traffic): boolean {
  if (protocol === 'tcp') return !isWithin(port, WEB_RANGES);
  return protocol !== 'udp' || port !== QUIC_PORT;
}

function passesInternet({ protocol, port }: Traffic): boolean {
  return protocol !== 'tcp' || port !== MAIL_PORT;
}

function matchesCidr(rule: NetworkRule, address: number, { protocol, port }: Traffic): boolean {
  if (!('cidr' in rule) || rule.protocol !== protocol || !isWithin(port, toRanges(rule.ports))) return false;
  const range = parseIpv4Range(rule.cidr);
  return range !== undefined && isInRange(address, range);
}

function compile(rules: readonly NetworkRule[]): CompiledClass[] {
  const classes = new Map<string, { rule: NetworkRule; patterns: Set<string>; cidrs: Set<string> }>();
  for (const rule of rules) {
    const word = isBound(rule) ? 'bound' : rule.protocol;
    const key = `${word} ${formatPorts(toRanges(rule.ports))}`;
    const entry = classes.get(key) ?? { rule, patterns: new Set(), cidrs: new Set() };
    classes.set(key, entry);
    if ('host' in rule) entry.patterns.add(rule.host);
    else entry.cidrs.add(rule.cidr);
  }
  return [...classes].map(([key, { rule, patterns, cidrs }]) => {
    const ranges = toRanges(rule.ports);
    const nets = mergeCidrs([...cidrs]);
    return {
      protocol: rule.protocol === 'udp' ? 'udp' : 'tcp',
      isBound: isBound(rule),
      ports: formatPorts(ranges),
      ranges,
      set: createHash('sha256').update(key).digest('hex').slice(0, 16),
      patterns: [...patterns],
      cidrs: nets.map(formatIpv4Range),
      nets,
    };
  });
}

/** Without ranges that lie within others: a set of the kernel has no overlapping elements. */
function mergeCidrs(cidrs: readonly string[]): Ipv4Range[] {
  const ranges = cidrs
    .flatMap((text) => parseIpv4Range(text) ?? [])
    .sort((a, b) => a.prefixLength - b.prefixLength);
  const kept: Ipv4Range[] = [];
  for (const range of ranges) if (!kept.some((each) => isInRange(range.base, each))) kept.push(range);
  return kept;
}
