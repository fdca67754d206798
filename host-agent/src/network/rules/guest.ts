// nftables rules in a sandbox's network namespace: what its guest may send and receive.
import { formatIpv4 } from '../../lib/ipv4.ts';
import { WEB_PORTS } from '../bound-rules.ts';
import { MAIL_PORT, QUIC_PORT } from '../policy.ts';
import type { PortMode } from '../port-control.ts';
import { SPECIAL_RANGES } from '../special-addresses.ts';
import type { NetworkSlot } from '../subnet.ts';
import {
  BOUND_CHAIN,
  type BoundRulesInput,
  boundRules,
  type DiallerRulesInput,
  diallerChains,
} from './dialler.ts';
import { type Element, GUEST_TABLE, MAX_OPEN, MAX_OPEN_BY_PORT, OPENING, setNames } from './table.ts';

type GuestRulesInput = NetworkSlot & { readonly resolverPort: number };

/** As in native/netd.c. */
const LOG_GROUP = 1;
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
  const { guestIp, gateway, mac, gatewayMac } = input;
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
    ${OPENING} accept
    ip protocol udp accept
    icmp type echo-request limit rate 50/second accept
    goto refuse
  }
  chain keep {}
  chain ruled {}
  ${outwardChain(input)}
  chain bound {}
  chain dial {}
  chain dialler {}
  ${diallerChains(input)}
  chain asleep {}
  chain inward {
    jump asleep
    ct state established,related accept
    ct state new ${OPENING} tcp dport @published accept
    ip protocol tcp limit rate 50/second burst 100 packets reject with tcp reset
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    iifname "tap0" oifname "up0" goto outward
    iifname "up0" oifname "tap0" goto inward
    iifname "tap0" goto refuse
  }
}
`;
}

/** `keep` and `ruled` are the chains of the policy: what renews an address in use, and what lets a connection begin. */
function outwardChain({
  resolverIp,
  resolverPort,
}: Pick<GuestRulesInput, 'resolverIp' | 'resolverPort'>): string {
  const toResolver = `ip daddr ${resolverIp} th dport ${resolverPort} ct status dnat`;
  return `
  chain outward {
    ${toResolver} ${OPENING} ${QUESTION_CONNECTIONS} counter drop
    ${toResolver} ${QUESTIONS} ${QUESTION_BYTES} accept
    ${toResolver} counter drop
    ct state established ct direction original ip daddr @allowed update @used { ip daddr }
    ct state established ct direction original ip daddr @used update @used { ip daddr }
    ct state established ct direction original jump keep
    ct state established,related accept
    ct state new jump ruled
    tcp dport { ${WEB_PORTS.join(', ')} } goto refuse
    udp dport ${QUIC_PORT} goto refuse
    ct state new ip daddr @allowed goto open
    ct state new ip daddr @used goto open
    goto refuse
  }`;
}

export type PolicyRulesInput = DiallerRulesInput &
  BoundRulesInput & {
    /** The range of all sandboxes, which no policy opens: it may be a public one. */
    readonly subnet: string;
    /** What is open of all sets; the rest of the sets is emptied. */
    readonly elements: readonly Element[];
    /** Sets of an earlier policy. */
    readonly unused: readonly string[];
  };

/** `dialler` is not among them: the policy does not change who it is. */
const OWN_CHAINS = ['keep', 'ruled', BOUND_CHAIN, 'dial'];
const BASE_CHAINS = ['outward', 'resolve', 'leave', 'input', 'output'];

/** Replaces the policy in one transaction. */
export function policyRules(input: PolicyRulesInput): string {
  const { classes, elements, unused } = input;
  const named = classes.filter(({ patterns }) => patterns.length > 0).map(({ set }) => setNames(set));
  const sets = ['allowed', 'used', ...named.flat()];
  return `
${[...OWN_CHAINS, ...BASE_CHAINS].map((chain) => `flush chain ${GUEST_TABLE} ${chain}`).join('\n')}
table ${GUEST_TABLE} {
  ${outwardChain(input)}
  ${diallerChains(input)}
}
${firstPolicyRules(input)}
${sets.map((set) => `flush set ${GUEST_TABLE} ${set}`).join('\n')}
${unused.map((set) => `delete set ${GUEST_TABLE} ${set}`).join('\n')}
${addElements(elements)}
`;
}

type FirstRulesInput = BoundRulesInput & Pick<PolicyRulesInput, 'subnet'>;

/** The policy in a table of `guestRules`, which has none yet. */
export function firstPolicyRules(input: FirstRulesInput): string {
  const { subnet, classes, isInternet, hasAllowlist } = input;
  const named = classes
    .filter(({ patterns }) => patterns.length > 0)
    .map((each) => ({ ...each, sets: setNames(each.set) }));
  const special = `ip daddr != { ${SPECIAL_RANGES.join(', ')} }`;
  const open = named.filter(({ isBound }) => !isBound);
  return `
table ${GUEST_TABLE} {
  ${named
    .map(
      ({ sets: [open, used] }) => `
  set ${open} { type ipv4_addr; flags timeout; size ${MAX_OPEN_BY_PORT}; }
  set ${used} { type ipv4_addr; flags dynamic,timeout; size ${MAX_OPEN_BY_PORT}; timeout ${USED_S}s; }`,
    )
    .join('')}
  chain bound {${boundRules(input, open, special)}
  }
  chain dial {
    ${(hasAllowlist ? [`tcp dport { ${WEB_PORTS.join(', ')} } ip daddr @allowed accept`] : []).join('')}
    ${named
      .filter(({ isBound }) => isBound)
      .map(({ ports, sets: [set] }) => `tcp dport { ${ports} } ip daddr @${set} accept`)
      .join('\n    ')}
  }
  chain keep {
    ${open
      .flatMap(({ protocol, ports, sets }) =>
        sets.map((set) => `${protocol} dport { ${ports} } ip daddr @${set} update @${sets[1]} { ip daddr }`),
      )
      .join('\n    ')}
  }
  chain ruled {
    ip daddr ${subnet} goto refuse
    ${[
      ...open.flatMap(({ protocol, ports, sets }) =>
        sets.map((set) => `${protocol} dport { ${ports} } ip daddr @${set} goto open`),
      ),
      ...classes
        .filter(({ cidrs }) => cidrs.length > 0)
        .map(
          ({ protocol, ports, cidrs }) =>
            `${protocol} dport { ${ports} } ip daddr { ${cidrs.join(', ')} } goto open`,
        ),
      ...(isInternet
        ? [
            `ip daddr { ${SPECIAL_RANGES.join(', ')} } goto refuse`,
            `tcp dport != ${MAIL_PORT} goto open`,
            'ip protocol { udp, icmp } goto open',
          ]
        : []),
    ].join('\n    ')}
  }
}
`;
}

/**
 * Nothing that the guest sends passes, nor what a dialler sends for it, until `policyRules` and `diallerRules` follow.
 * Short, so that it works where those have failed.
 */
export function shutRules(): string {
  const chains = ['outward', BOUND_CHAIN, 'dial', 'dialler'];
  const flushed = chains.map((chain) => `flush chain ${GUEST_TABLE} ${chain}`);
  return [...flushed, `add rule ${GUEST_TABLE} outward goto refuse`].join('\n');
}

function addElements(elements: readonly Element[]): string {
  const bySet = Object.groupBy(elements, ({ set }) => set);
  return Object.entries(bySet)
    .map(([set, of = []]) => {
      const list = of.map(({ address, ttlS }) => `${address} timeout ${ttlS}s`).join(', ');
      return `add element ${GUEST_TABLE} ${set} { ${list} }`;
    })
    .join('\n');
}

/** Accepts connections from outside to these ports. */
export function openPorts(ports: readonly number[]): string {
  return ports.map((port) => `add element ${GUEST_TABLE} published { ${port} }`).join('\n');
}

/**
 * Data of clients on connections that were open before the guest fell asleep: it is reported, or resets the connection.
 * Acknowledgements and probes are not data; they have no PSH, and up to 60 bytes of TCP header.
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
  return [`flush chain ${chain}`, ...rules].join('\n');
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
export function openAddresses(elements: readonly (Element & { readonly isKnown: boolean })[]): string {
  return elements
    .flatMap(({ set, address, ttlS, isKnown }) => {
      const add = `add element ${GUEST_TABLE} ${set} { ${address} timeout ${ttlS}s }`;
      // nft does not change the expiry of an existing element, so it is deleted and added in one transaction.
      return isKnown ? [add, `delete element ${GUEST_TABLE} ${set} { ${address} }`, add] : [add];
    })
    .join('\n');
}
