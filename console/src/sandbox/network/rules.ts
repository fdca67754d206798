// Rules of a network as text, and the change of a policy that permits what was denied.
import type { EgressRecord, NetworkChanges, NetworkPolicy, NetworkRule } from '@sandboxd/client';

type ShownRule = NetworkPolicy['rules'][number];
type ShownSecret = NetworkPolicy['secrets'][number];

/** A path of this length may have been cut. */
const MAX_PATH_CHARS = 1024;

/** All of it: a rule that looks wider or narrower than it is misleads. */
export function describeRule(rule: ShownRule): string {
  const { host, cidr, protocol, ports, methods, paths, websocket, encoded_slash, tls, ech } = rule;
  const isRead = methods !== undefined || paths !== undefined || websocket === true;
  const parts = [
    `${host ?? cidr ?? ''} ${protocol} ${ports.join(', ')}`,
    methods?.join(', '),
    paths?.join(', '),
    websocket && 'WebSocket',
    encoded_slash && 'with %2F',
    tls === 'inspect' && !isRead && 'every request is read',
    ech === 'refuse' && 'no encrypted name',
  ];
  return parts.filter(Boolean).join(' · ');
}

/** Hosts and places of a secret, never a value. */
export function describeSecret({ hosts, ports, in: forms = [], inject, plain_http }: ShownSecret): string {
  const places = forms.map((form) => {
    if (typeof form === 'string') return form;
    return 'header' in form ? `header ${form.header}` : `query ${form.query}`;
  });
  const parts = [
    hosts.join(', '),
    ports && `ports ${ports.join(', ')}`,
    inject === undefined ? places.join(', ') : `adds the header ${inject.header}`,
    plain_http && 'also without TLS',
  ];
  return parts.filter(Boolean).join(' · ');
}

/**
 * The least that permits it: its port of that host, or of that address, and of a request that was read its method and
 * path. A name that was only asked for has no port, so its host is permitted. Undefined for what no rule can permit.
 */
export function permitting(record: EgressRecord, policy: NetworkPolicy): NetworkChanges | undefined {
  const { name, protocol } = record;
  if (protocol === 'dns' && name !== undefined) return { allowlist: [...policy.allowlist, name] };
  const rule = toRule(record);
  return rule && { rules: [...policy.rules, rule] };
}

function toRule({ name, address, port, protocol, method, path }: EgressRecord): NetworkRule | undefined {
  if (port === undefined || protocol === undefined) return undefined;
  const ports = [port];
  if (protocol === 'icmp' || protocol === 'dns' || protocol === 'other') return undefined;
  if (name !== undefined && method !== undefined) {
    // A star would be a pattern.
    if (path === undefined || path.includes('*') || path.length >= MAX_PATH_CHARS) return undefined;
    const slash = /%2f/i.test(path) && { encoded_slash: true };
    return { host: name, protocol, ports, methods: [method], paths: [path], ...slash };
  }
  if (name !== undefined) return { host: name, protocol, ports };
  // Other protocols need a name: without one it is a plain connection.
  const transport = protocol === 'udp' ? 'udp' : 'tcp';
  return address === undefined ? undefined : { cidr: `${address}/32`, protocol: transport, ports };
}
