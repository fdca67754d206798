// The rules within a sandbox's own network namespace: what its guest may send, and what may come to it. Text for nft.
import type { NetworkSlot } from '../slot.ts';

export type GuestRulesInput = NetworkSlot & { readonly resolverPort: number };

export const GUEST_TABLE = 'ip sandbox';
/** Addresses that one guest may have open at once. */
const MAX_OPEN = 8192;
/** Connections at once: those of all guests share one table of the host. */
const MAX_CONNECTIONS = 4096;
/** Questions to the resolver: a packet is one, unless it is of those that a kernel takes apart again, so bytes count as well. */
const QUESTIONS = 'limit rate 200/second burst 2000 packets';
const QUESTION_BYTES = 'limit rate 64 kbytes/second burst 512 kbytes';
/** By TCP: the host's kernel goes on with each for a minute or two after its end, where a guest takes no answer. */
const QUESTION_CONNECTIONS = 'limit rate over 5/second burst 40 packets';
/** An address stays open for so long after the last packet of a connection to it. */
const USED_S = 60;

/**
 * Two gates. What is malformed or lies about its sender ends at the tap, before it is a packet of anyone's; what is left may
 * pass to an address that was answered, to the resolver, and as part of a connection from outside to a published port.
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
    limit rate 5/second burst 10 packets log group 1 snaplen 64
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
  chain inward {
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

/** Lets connections from outside come to these ports. */
export function openPorts(ports: readonly number[]): string {
  return ports.map((port) => `add element ${GUEST_TABLE} published { ${port} }`).join('\n');
}

/** Opens addresses for so long from now; `isKnown`: it may be open already, for less. */
export function openAddresses(
  addresses: readonly { readonly address: string; readonly ttlS: number; readonly isKnown: boolean }[],
): string {
  const set = `${GUEST_TABLE} allowed`;
  return addresses
    .flatMap(({ address, ttlS, isKnown }) => {
      const add = `add element ${set} { ${address} timeout ${ttlS}s }`;
      // What is in a set keeps its end, so it has to go and come again, in one step.
      return isKnown ? [add, `delete element ${set} { ${address} }`, add] : [add];
    })
    .join('\n');
}
