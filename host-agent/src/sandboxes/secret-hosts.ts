// A host of a secret is inspected: the policy that holds in the network has what clients chose, changed so that the
// gateway reads the requests to these hosts, and nothing more is open than before.
import type { BoundRule, NetworkRule } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { coversPattern } from '../lib/host-patterns.ts';
import type { NetworkPolicy } from '../network/index.ts';
import { assertFew } from '../network/resolve-policy.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { metadataOf } from './metadata.ts';
import type { SandboxRecord } from './record.ts';

type Protocol = 'tls' | 'http';
type Host = { readonly pattern: string; readonly protocol: Protocol };

/** What an entry of an allowlist opens by address. */
const OTHER_PORTS = ['1-79', '81-442', '444-65535'] as const;
const PORTS = { tls: [443], http: [80] } as const;

/** Undefined without a network. */
export function heldPolicyOf({
  options: { network },
  ...record
}: Pick<SandboxRecord, 'options' | 'metadata'>): NetworkPolicy | undefined {
  return network && withInspection(network, metadataOf(record).secrets ?? []);
}

/** AppError invalid_argument where the hosts of the secrets could be reached unread. */
export function assertInspectable(policy: NetworkPolicy, bindings: readonly StoredBinding[]): void {
  if (bindings.length === 0) return;
  try {
    assertFew(withInspection(policy, bindings));
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError('invalid_argument', `the network does not fit its secrets: ${error.message}`);
  }
}

export function withInspection(policy: NetworkPolicy, bindings: readonly StoredBinding[]): NetworkPolicy {
  const hosts = toHosts(bindings);
  if (hosts.length === 0) return policy;
  const { allowlist, rules = [], presets = [] } = policy;
  // An entry within the hosts of a secret is replaced by what it opens; one around them stays, with narrower rules.
  const replaced = allowlist.filter((entry) => hosts.some(({ pattern }) => coversPattern(pattern, entry)));
  const opened = replaced.flatMap(toRules).map((rule) => inspect(rule, hosts));
  const inspected = rules.map((rule) => inspect(rule, hosts));
  const applied = presets.map((preset) => ({
    ...preset,
    rules: preset.rules.map((rule) => inspect(rule, hosts)),
  }));
  const wide = [
    ...allowlist.flatMap((host): NetworkRule[] => [
      { host, protocol: 'tls', ports: PORTS.tls },
      { host, protocol: 'http', ports: PORTS.http },
    ]),
    ...rules,
    ...presets.flatMap((preset) => preset.rules),
  ];
  const narrow = wide.flatMap((rule) => narrowed(rule, hosts));
  const all = [...inspected, ...opened, ...narrow];
  return {
    ...policy,
    allowlist: allowlist.filter((entry) => !replaced.includes(entry)),
    ...(all.length > 0 && { rules: withoutRepeats(all) }),
    ...(applied.length > 0 && { presets: applied }),
  };
}

function toHosts(bindings: readonly StoredBinding[]): Host[] {
  return bindings.flatMap(({ hosts, plainHttp }) =>
    hosts.flatMap((pattern): Host[] => [
      { pattern, protocol: 'tls' },
      ...(plainHttp ? [{ pattern, protocol: 'http' } as const] : []),
    ]),
  );
}

/** What an entry of an allowlist opens. */
function toRules(host: string): NetworkRule[] {
  return [
    { host, protocol: 'tls', ports: PORTS.tls },
    { host, protocol: 'http', ports: PORTS.http },
    { host, protocol: 'tcp', ports: OTHER_PORTS },
    { host, protocol: 'udp', ports: OTHER_PORTS },
  ];
}

/** A rule that is within the hosts of a secret. */
function inspect(rule: NetworkRule, hosts: readonly Host[]): NetworkRule {
  if (!isUnread(rule)) return rule;
  const isWithin = hosts.some(
    ({ pattern, protocol }) => protocol === rule.protocol && coversPattern(pattern, rule.host),
  );
  return isWithin ? { ...rule, tls: 'inspect' } : rule;
}

/** Rules for the hosts of secrets that are within those of a rule: the narrowest name counts. */
function narrowed(rule: NetworkRule, hosts: readonly Host[]): NetworkRule[] {
  if (!isUnread(rule)) return [];
  return hosts.flatMap(({ pattern, protocol }): NetworkRule[] => {
    const isNarrower = pattern !== rule.host && coversPattern(rule.host, pattern);
    return isNarrower && protocol === rule.protocol ? [{ ...rule, host: pattern, tls: 'inspect' }] : [];
  });
}

function isUnread(rule: NetworkRule): rule is BoundRule {
  if (rule.protocol !== 'tls' && rule.protocol !== 'http') return false;
  return [rule.tls, rule.methods, rule.paths, rule.websocket].every((field) => field === undefined);
}

function withoutRepeats(rules: readonly NetworkRule[]): NetworkRule[] {
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}
