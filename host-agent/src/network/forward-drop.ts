// Finds firewall rules of other programs (Docker, ufw) that drop forwarded or incoming packets of sandboxes. An accept
// rule in our own table cannot override them, so the operator must change them.

import { RESOLVER_PORT } from './resolver/port.ts';

type Chain = {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
  readonly policy?: string;
};

/** A chain whose policy is drop. */
export type Dropper = { readonly chain: string; readonly hook: 'forward' | 'input' };

/** Parses the output of `nft --json list chains`; our own tables are left out. */
export function findDroppers(json: string): Dropper[] {
  const { nftables = [] } = JSON.parse(json) as { nftables?: readonly { readonly chain?: Chain }[] };
  return nftables.flatMap(({ chain }) => {
    const { family, table, name, hook, policy } = chain ?? {};
    if (policy !== 'drop' || table?.startsWith('sandboxd_') !== false) return [];
    if ((family !== 'ip' && family !== 'inet') || (hook !== 'forward' && hook !== 'input')) return [];
    return [{ chain: `${family} ${table} ${name}`, hook }];
  });
}

/** Advice for the operator: the commands that let sandbox links and their DNS queries pass these chains. */
export function adviseOn(droppers: readonly Dropper[], linkPrefix: string): string {
  const questions = ['udp', 'tcp'];
  const commands = droppers.flatMap(({ chain, hook }) => {
    // iptables, and with it Docker and ufw, uses these names for the chain.
    if (chain === 'ip filter FORWARD')
      return ['-i', '-o'].map((way) => `iptables -I FORWARD ${way} ${linkPrefix}+ -j ACCEPT`);
    if (chain === 'ip filter INPUT')
      return questions.map(
        (protocol) => `iptables -I INPUT -i ${linkPrefix}+ -p ${protocol} --dport ${RESOLVER_PORT} -j ACCEPT`,
      );
    const insert = `nft insert rule ${chain}`;
    return hook === 'forward'
      ? ['iifname', 'oifname'].map((way) => `${insert} ${way} "${linkPrefix}*" accept`)
      : questions.map(
          (protocol) => `${insert} iifname "${linkPrefix}*" ${protocol} dport ${RESOLVER_PORT} accept`,
        );
  });
  const chains = droppers.map(({ chain }) => chain).join(', ');
  return `rules of this host drop what they do not know (${chains}), and so what sandboxes send and get; allow it: ${commands.join('; ')}`;
}
