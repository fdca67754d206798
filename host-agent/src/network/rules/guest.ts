// nftables rules in a sandbox's network namespace: what its guest may send and receive.
import { formatIpv4 } from '../../lib/ipv4.ts';
import type { PortMode } from '../port-control.ts';
import type { NetworkSlot } from '../subnet.ts';

type GuestRulesInput = NetworkSlot & { readonly resolverPort: number };

export const GUEST_TABLE = 'ip sandbox';
/** As in native/netd.c. */
const LOG_GROUP = 1;
/** Limit of addresses that one guest may have open at once. */
const MAX_OPEN = 8192;
/** Limit of connections: all guests share the host's conntrack table. */
const MAX_CONNECTIONS = 4096;
/** Rate limit of DNS queries. Bytes are limited as well, because a GSO packet counts as one and is split later. */
const QUESTIONS = 'limit rate 200/second burst 2000 packets';
const QUESTION_BYTES = 'limit rate 64 kbytes/second burst 512 kbytes';
/**
 * Rate limit of TCP connections to the resolver: the host's kernel keeps each for one or two minutes after the close if
 * the guest does not acknowledge.
 */
const QUESTION_CONNECTIONS = 'limit rate over 5/second burst 40 packets';
/** An address stays open for this long after the last packet of a connection to it. */
const USED_S = 60;

/**
 * Two chains. Malformed packets and spoofed source addresses are dropped at the tap. The rest may pass to an open
 * address, to the resolver, and as part of a connection to a published port.
 */
export function guestRules(input: GuestRulesInput): string {
  const { guestIp, gateway, mac, gatewayMac, resolverIp, resolverPort } = input;
  const toResolver = `ip daddr ${resolverIp} th dport ${resolverPort} ct status dnat`;
  const opening = 'tcp flags & (fin | syn | rst | ack) == syn';
  return `
table netdev sandbox {
  chain tap {
    type filter hook ingress device "tap0" priority 0; policy drop;
    ether saddr != ${mac} counter drop comment "another MAC address"
    ether type arp arp operation request arp saddr ether ${mac} arp saddr ip ${guestIp} arp daddr ip ${gateway} limit rate 10/second accept
    ether type != ip counter drop comment "IPv6, VLAN, ARP for others, and all else"
    ether daddr != ${gatewayMac} counter drop comment "broadcast, multicast"
    ip version != 4 counter drop
    ip hdrlength != 5 counter drop comment "options: source routing"
    ip frag-off & 0x3fff != 0 counter drop comment "fragments"
    ip saddr != ${guestIp} counter drop comment "another source address"
    ip protocol { tcp, udp } accept
    icmp type { echo-request, echo-reply, destination-unreachable, time-exceeded } accept
    counter comment "other protocols, redirects"
  }
}
table ${GUEST_TABLE} {
  set allowed { type ipv4_addr; flags timeout; size ${MAX_OPEN}; }
  set used { type ipv4_addr; flags dynamic,timeout; size ${MAX_OPEN}; timeout ${USED_S}s; }
  set published { type inet_service; }
  chain refuse {
    limit rate 5/second burst 10 packets log group ${LOG_GROUP} snaplen 64
    fib daddr type { broadcast, multicast, anycast } drop
    ip protocol tcp limit rate 50/second burst 100 packets reject with tcp reset
    ip protocol != tcp limit rate 50/second burst 100 packets reject with icmp type admin-prohibited
    counter drop
  }
  chain open {
    ct count over ${MAX_CONNECTIONS} goto refuse
    ${opening} accept
    ip protocol udp accept
    icmp type echo-request limit rate 50/second accept
    goto refuse
  }
  chain outward {
    ${toResolver} ${opening} ${QUESTION_CONNECTIONS} counter drop
    ${toResolver} ${QUESTIONS} ${QUESTION_BYTES} accept
    ${toResolver} counter drop
    ct state established ct direction original ip daddr @allowed update @used { ip daddr }
    ct state established ct direction original ip daddr @used update @used { ip daddr }
    ct state established,related accept
    ct state new ip daddr @allowed goto open
    ct state new ip daddr @used goto open
    goto refuse
  }
  chain asleep {}
  chain inward {
    jump asleep
    ct state established,related accept
    ct state new ${opening} tcp dport @published accept
    ip protocol tcp limit rate 50/second reject with tcp reset
  }
  chain resolve {
    type nat hook prerouting priority dstnat;
    iifname "tap0" ip daddr ${gateway} meta l4proto { tcp, udp } th dport 53 dnat to ${resolverIp}:${resolverPort}
  }
  chain input {
    type filter hook input priority 0; policy drop;
    iifname "tap0" goto refuse
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    iifname "tap0" oifname "up0" goto outward
    iifname "up0" oifname "tap0" goto inward
    iifname "tap0" goto refuse
  }
  chain output {
    type filter hook output priority 0; policy accept;
    meta skuid 0-4294967295 counter drop comment "a VMM that its guest has broken"
  }
}
`;
}

/** Accepts connections from outside to these ports. */
export function openPorts(ports: readonly number[]): string {
  return ports.map((port) => `add element ${GUEST_TABLE} published { ${port} }`).join('\n');
}

/**
 * Data of clients on connections that were open before the guest fell asleep: it is reported, or resets the connection.
 * Acknowledgements and probes are no data; they have no PSH, and up to 60 bytes of TCP header.
 */
export function asleepRules(mode: PortMode): string {
  const [chain, client] = [`${GUEST_TABLE} asleep`, 'ct state established ct direction original'];
  const verdicts = {
    hold: `limit rate 5/second log group ${LOG_GROUP} snaplen 64`,
    refuse: 'reject with tcp reset',
  };
  const rules =
    mode === 'open'
      ? []
      : ['tcp flags & psh == psh', 'ip protocol tcp ip length > 80'].map(
          (data) => `add rule ${chain} ${client} ${data} ${verdicts[mode]}`,
        );
  // The namespace of an older version has no such chain.
  return [`add chain ${chain}`, `flush chain ${chain}`, ...rules].join('\n');
}

/** Whether a logged packet is of `asleepRules`: all others are from the guest. */
export function isToGuest(packet: Buffer, guestIp: string): boolean {
  return packet.length >= 20 && formatIpv4(packet.readUInt32BE(16)) === guestIp;
}

export function closePort(port: number): string {
  const element = `element ${GUEST_TABLE} published { ${port} }`;
  return `add ${element}\ndelete ${element}`;
}

/** Opens addresses for their TTL. `isKnown`: the address may be open already, with an earlier expiry. */
export function openAddresses(
  addresses: readonly { readonly address: string; readonly ttlS: number; readonly isKnown: boolean }[],
): string {
  const set = `${GUEST_TABLE} allowed`;
  return addresses
    .flatMap(({ address, ttlS, isKnown }) => {
      const add = `add element ${set} { ${address} timeout ${ttlS}s }`;
      // nft does not change the expiry of an existing element, so it is deleted and added in one transaction.
      return isKnown ? [add, `delete element ${set} { ${address} }`, add] : [add];
    })
    .join('\n');
}
