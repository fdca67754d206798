// Rules of a network as text, and the change of a policy that permits what was denied.
import type { EgressRecord, NetworkChanges, NetworkPolicy, NetworkRule } from '@sandboxd/client';

type ShownRule = NetworkPolicy['rules'][number];

export function describeRule({ host, cidr, protocol, ports }: ShownRule): string {
  return `${host ?? cidr ?? ''} ${protocol} ${ports.join(', ')}`;
}

/**
 * The least that permits it: its port of that host, or of that address. A name that was only asked for has no port, so
 * its host is permitted. Undefined for what no rule can permit.
 */
export function permitting(record: EgressRecord, policy: NetworkPolicy): NetworkChanges | undefined {
  const { name, address, port, protocol } = record;
  if (protocol === 'dns' && name !== undefined) return { allowlist: [...policy.allowlist, name] };
  const rule = toRule(name, address, port, protocol);
  return rule && { rules: [...policy.rules, rule] };
}

function toRule(
  name: string | undefined,
  address: string | undefined,
  port: number | undefined,
  protocol: EgressRecord['protocol'],
): NetworkRule | undefined {
  if (port === undefined || protocol === undefined) return undefined;
  const ports = [port];
  if (protocol === 'icmp' || protocol === 'dns' || protocol === 'other') return undefined;
  if (name !== undefined) return { host: name, protocol, ports };
  // Other protocols need a name: without one it is a plain connection.
  const transport = protocol === 'udp' ? 'udp' : 'tcp';
  return address === undefined ? undefined : { cidr: `${address}/32`, protocol: transport, ports };
}
