// What allows connections that are bound to names: rules, and entries of an allowlist on the ports of the web. The
// gateway has the same, and finds in it what requests may pass.
import type { BoundRule, NetworkRule } from '@sandboxd/api';
import { isBound, isRead } from '../lib/network-rules.ts';
import type { NetworkPolicy } from './network-policy.ts';
import { isWithin, type PortRange, toRanges } from './port-ranges.ts';
import { patternsOf } from './resolver/allowlist.ts';

/** Where an entry of an allowlist is bound to the name: TLS and HTTP. */
export const WEB_PORTS: readonly number[] = [80, 443];

/** What a connection says of itself. */
export type NamedConnection = {
  readonly kind: BoundRule['protocol'];
  /** Normalized. */
  readonly name: string;
  readonly port: number;
  /** Another name may be encrypted within its handshake. */
  readonly hasEch: boolean;
  /** The gateway reads it, or wants a server for one that it reads; absent: it has none of both. */
  readonly by?: 'read' | 'dial' | undefined;
};

/** What allows something. */
export type AllowedBy =
  | { readonly allowlist: string }
  | { readonly rule: NetworkRule }
  | { readonly preset: string };

export type BoundEntry = { readonly by: AllowedBy; readonly rule?: BoundRule | undefined };

type Indexed = BoundEntry & { readonly at: number; readonly ranges: readonly PortRange[] };

const WEB_RANGES = toRanges(WEB_PORTS);

export class BoundRules {
  readonly #byPattern = new Map<string, Indexed[]>();

  constructor({ allowlist, rules = [], presets = [] }: NetworkPolicy) {
    let at = 0;
    const add = (pattern: string, entry: Omit<Indexed, 'at'>): void => {
      const entries = this.#byPattern.get(pattern) ?? [];
      entries.push({ ...entry, at: at++ });
      this.#byPattern.set(pattern, entries);
    };
    for (const pattern of allowlist) add(pattern, { by: { allowlist: pattern }, ranges: WEB_RANGES });
    const chosen = [
      ...rules.map((rule) => ({ rule, by: { rule } })),
      ...presets.flatMap(({ name, rules }) => rules.map((rule) => ({ rule, by: { preset: name } }))),
    ];
    for (const { rule, by } of chosen)
      if (isBound(rule)) add(rule.host, { rule, by, ranges: toRanges(rule.ports) });
  }

  /**
   * All that counts for a name and port, in the order of the policy. Where any of it is read, that is what the most
   * specific pattern has: a wide rule does not undo a narrow one.
   */
  find(name: string, port: number): readonly BoundEntry[] {
    const lists = patternsOf(name)
      .map((pattern) => (this.#byPattern.get(pattern) ?? []).filter(({ ranges }) => isWithin(port, ranges)))
      .filter((entries) => entries.length > 0);
    const isAnyRead = lists.flat().some(({ rule }) => rule !== undefined && isRead(rule));
    return (isAnyRead ? (lists[0] ?? []) : lists.flat()).toSorted((a, b) => a.at - b.at);
  }

  /** Those of them that are for connections of that kind. */
  findFor({ kind, name, port, hasEch }: NamedConnection): readonly BoundEntry[] {
    return this.find(name, port).filter(({ rule }) =>
      rule === undefined ? kind !== 'postgres' : isRuleFor(rule, kind) && !(hasEch && rule.ech === 'refuse'),
    );
  }
}

/** TLS of a database may begin at once. */
function isRuleFor({ protocol }: BoundRule, kind: NamedConnection['kind']): boolean {
  return protocol === kind || (protocol === 'postgres' && kind === 'tls');
}

/** In words: `github.com:443/tls`, `preset web`, or an entry of the allowlist. */
export function describeAllowedBy(by: AllowedBy): string {
  if ('allowlist' in by) return by.allowlist;
  if ('preset' in by) return `preset ${by.preset}`;
  const target = 'host' in by.rule ? by.rule.host : by.rule.cidr;
  return `${target}:${by.rule.ports.join(',').slice(0, 64)}/${by.rule.protocol}`;
}
