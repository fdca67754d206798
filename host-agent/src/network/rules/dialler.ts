// nftables rules about the process that dials by name (native/egressd.c): what leads to it, who it is, and where it may
// connect.
import { WEB_PORTS } from '../bound-rules.ts';
import { MAIL_PORT, type RuleClass } from '../policy.ts';
import type { NetworkSlot } from '../subnet.ts';
import { GUEST_TABLE, OPENING, setNames } from './table.ts';

/** Where native/egressd.c listens, on the gateway's address within the namespace. */
export const DIALLER_PORT = 1443;
/** Twice what it takes: entries of connections that are over stay for a while. */
const MAX_REDIRECTED = 2048;
/** Twice what it takes. What is over is not counted above, and each costs the dialler a call and the daemon a word. */
const REDIRECTIONS = 'limit rate over 200/second burst 800 packets';
/** What leads to the dialler. */
export const BOUND_CHAIN = 'bound';

export type DiallerRulesInput = Pick<NetworkSlot, 'resolverIp' | 'gateway' | 'guestIp'> & {
  readonly resolverPort: number;
};

export type BoundRulesInput = {
  readonly classes: readonly RuleClass[];
  /** Ports of connections that are bound to names. */
  readonly boundPorts: string;
  /** The allowlist has names. */
  readonly hasAllowlist: boolean;
  readonly isInternet: boolean;
};

/**
 * Connections that are bound to names lead to the dialler (native/egressd.c), and nothing else reaches it. `bound` says
 * which they are, `dialler` who it is, and `dial` where it may connect. Its packets leave with the guest's address.
 */
export function diallerChains({ gateway, guestIp, resolverIp, resolverPort }: DiallerRulesInput): string {
  const redirected = `iifname "tap0" ip daddr ${gateway} tcp dport ${DIALLER_PORT} ct status dnat`;
  return `
  chain resolve {
    type nat hook prerouting priority dstnat;
    iifname "tap0" ip daddr ${gateway} meta l4proto { tcp, udp } th dport 53 dnat to ${resolverIp}:${resolverPort}
    iifname "tap0" ip daddr != ${gateway} jump bound
  }
  chain leave {
    type nat hook postrouting priority srcnat;
    oifname "up0" ip saddr ${gateway} snat to ${guestIp}
  }
  chain input {
    type filter hook input priority 0; policy drop;
    iifname "up0" ct state established,related ct direction reply accept
    ${redirected} ct state established accept
    ${redirected} ct state new ${REDIRECTIONS} goto refuse
    ${redirected} ct count over ${MAX_REDIRECTED} goto refuse
    ${redirected} ct state new ${OPENING} accept
    iifname "tap0" goto refuse
  }
  chain output {
    type filter hook output priority 0; policy accept;
    meta skuid 0-4294967295 jump dialler
    meta skuid 0-4294967295 counter drop comment "a VMM that its guest has broken"
  }`;
}

/** Names the user of the dialler that runs now. */
export function diallerRules(uid: number): string {
  const chain = `${GUEST_TABLE} dialler`;
  return [
    `flush chain ${chain}`,
    `add rule ${chain} meta skuid != ${uid} return`,
    `add rule ${chain} oifname "tap0" tcp sport ${DIALLER_PORT} ct state established ct direction reply accept`,
    `add rule ${chain} oifname "up0" ct state established ct direction original accept`,
    `add rule ${chain} oifname "up0" ct state new ${OPENING} jump dial`,
  ].join('\n');
}

/** Nothing may leave of what no dialler runs for. */
export function noDiallerRules(): string {
  return `flush chain ${GUEST_TABLE} dialler`;
}

/** What is open by its address is not redirected. */
export function boundRules(
  { classes, isInternet, boundPorts, hasAllowlist }: BoundRulesInput,
  open: readonly (RuleClass & { readonly sets: readonly string[] })[],
  special: string,
): string {
  if (boundPorts === '') return '';
  const byTcp = ({ protocol, isBound }: RuleClass) => protocol === 'tcp' && !isBound;
  return [
    ...(isInternet ? [`tcp dport != ${MAIL_PORT} ${special} return`] : []),
    ...open
      .filter(byTcp)
      .flatMap(({ ports, sets }) => sets.map((set) => `tcp dport { ${ports} } ip daddr @${set} return`)),
    ...classes
      .filter((each) => byTcp(each) && each.cidrs.length > 0)
      .map(({ ports, cidrs }) => `tcp dport { ${ports} } ip daddr { ${cidrs.join(', ')} } return`),
    ...(hasAllowlist ? setNames(undefined) : []).map(
      (set) => `tcp dport != { ${WEB_PORTS.join(', ')} } ip daddr @${set} return`,
    ),
    `tcp dport { ${boundPorts} } redirect to :${DIALLER_PORT}`,
  ]
    .map((rule) => `\n    ${rule}`)
    .join('');
}
