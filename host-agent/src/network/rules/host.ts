// nftables rules of the host, in one table for all sandboxes of a daemon. The namespace of a sandbox decides what its
// guest may reach. These rules isolate the host and other guests once more, and forward published ports.
import { isIPv6 } from 'node:net';
import type { PublishedPort } from '../port-holder.ts';
import type { NetworkSlot } from '../subnet.ts';

type HostRulesInput = {
  readonly table: string;
  /** Prefix of the sandboxes' link names. */
  readonly linkPrefix: string;
  /** Link that gets packets for addresses without a sandbox. */
  readonly anchor: string;
  readonly subnet: string;
  readonly resolverPort: number;
  /** This daemon turned IP forwarding on: then only packets of sandboxes are forwarded. */
  readonly isForwardingOurs: boolean;
};

/** Forwards `host_ip:host_port`, or a port of every address, to a guest. */
export type PortMap = {
  readonly hostIp: string | undefined;
  readonly hostPort: number;
  readonly guestIp: string;
  readonly guestPort: number;
};

/**
 * Limit of connections to each guest's published ports, half-open ones included: all guests share the conntrack table.
 */
const MAX_INWARD = 4096;
/** Rule comment that marks that a sandboxd turned IP forwarding on. */
export const NO_ROUTER = 'this host was no router before';
/** Other daemons filter the packets of their own sandboxes. */
const ANY_LINK = 'sbx*';
const CHAINS = ['before', 'answer', 'input', 'forward', 'lead', 'leave'] as const;

/** Replaces all rules in one transaction; the port maps are kept. */
export function hostRules(input: HostRulesInput): string {
  const { table, linkPrefix, anchor, subnet, resolverPort, isForwardingOurs } = input;
  const ours = `"${linkPrefix}*"`;
  // Each sandbox link has the address of that sandbox's resolver.
  const toResolver = `fib daddr . iif type local meta l4proto { tcp, udp } th dport ${resolverPort}`;
  const gone = 'ip protocol tcp limit rate 100/second reject with tcp reset comment "a sandbox that is gone"';
  return `
table ${table} {
  map ports { type ipv4_addr . inet_service : ipv4_addr . inet_service; }
  map every_address_ports { type inet_service : ipv4_addr . inet_service; }
  set inward { type ipv4_addr; size 65535; flags dynamic; }
  chain before { type filter hook prerouting priority raw; }
  chain answer { type filter hook output priority raw; }
  chain input { type filter hook input priority filter - 5; }
  chain forward { type filter hook forward priority filter - 5; }
  chain lead { type nat hook prerouting priority dstnat - 5; }
  chain leave { type nat hook postrouting priority srcnat - 5; }
}
${CHAINS.map((chain) => `flush chain ${table} ${chain}`).join('\n')}
table ${table} {
  chain before {
    iifname ${ours} fib saddr . iif oif 0 counter drop comment "a source address of another"
    iifname ${ours} ip daddr 127.0.0.0/8 counter drop
    iifname ${ours} ${toResolver} notrack comment "the host's table of connections is for others"
  }
  chain answer {
    oifname ${ours} meta l4proto { tcp, udp } th sport ${resolverPort} notrack
  }
  chain input {
    iifname ${ours} ct state established,related accept
    iifname ${ours} ${toResolver} accept
    iifname ${ours} counter drop
  }
  chain forward {
    oifname "${anchor}" ${gone}
    iifname ${ours} oifname ${ours} counter drop
    iifname ${ours} accept
    oifname ${ours} ct state established,related accept
    oifname ${ours} ct state new ct status dnat add @inward { ip daddr ct count over ${MAX_INWARD} } counter drop
    oifname ${ours} ct status dnat accept
    oifname ${ours} counter drop
    ${isForwardingOurs ? `iifname != "${ANY_LINK}" oifname != "${ANY_LINK}" counter drop comment "${NO_ROUTER}"` : ''}
  }
  chain lead {
    iifname ${ours} return
    fib daddr type local dnat ip to ip daddr . tcp dport map @ports
    fib daddr type local dnat ip to tcp dport map @every_address_ports
  }
  chain leave {
    oifname != ${ours} ip saddr ${subnet} masquerade
  }
}
`;
}

export function removeHostRules(table: string): string {
  return `table ${table} {}\ndelete table ${table}`;
}

export function addPorts(table: string, ports: readonly PortMap[]): string {
  return ports.map((port) => `add element ${table} ${element(port)}`).join('\n');
}

/** Entries that do not exist are ignored. */
export function removePorts(table: string, ports: readonly PortMap[]): string {
  return ports
    .flatMap((port) => [`add element ${table} ${element(port)}`, `delete element ${table} ${element(port)}`])
    .join('\n');
}

/** Replaces all port maps in one transaction. */
export function replacePorts(table: string, ports: readonly PortMap[]): string {
  return `flush map ${table} ports\nflush map ${table} every_address_ports\n${addPorts(table, ports)}`;
}

function element({ hostIp, hostPort, guestIp, guestPort }: PortMap): string {
  const [map, key] =
    hostIp === undefined ? ['every_address_ports', hostPort] : ['ports', `${hostIp} . ${hostPort}`];
  return `${map} { ${key} : ${guestIp} . ${guestPort} }`;
}

/** Maps cover IPv4 connections from outside. The holder process forwards all others. */
export function toMaps({ guestIp }: NetworkSlot, ports: readonly PublishedPort[]): PortMap[] {
  return ports.flatMap(({ hostIp, hostPort, guestPort }) => {
    if (hostIp !== undefined && (isIPv6(hostIp) || hostIp.startsWith('127.'))) return [];
    return [{ hostIp: hostIp === '0.0.0.0' ? undefined : hostIp, hostPort, guestIp, guestPort }];
  });
}
