// Rules of others that drop what the host forwards or gets, such as Docker's and ufw's: ours cannot accept for them, so the
// operator has to.

import { RESOLVER_PORT } from './resolver/port.ts';

type Chain = {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
  readonly policy?: string;
};

/** One that drops what it does not know. */
export type Dropper = { readonly chain: string; readonly hook: 'forward' | 'input' };

/** What `nft --json list chains` says, but for our own tables. */
export function findDroppers(json: string): Dropper[] {
  const { nftables = [] } = JSON.parse(json) as { nftables?: readonly { readonly chain?: Chain }[] };
  return nftables.flatMap(({ chain }) => {
    const { family, table, name, hook, policy } = chain ?? {};
    if (policy !== 'drop' || table?.startsWith('sandboxd_') !== false) return [];
    if ((family !== 'ip' && family !== 'inet') || (hook !== 'forward' && hook !== 'input')) return [];
    return [{ chain: `${family} ${table} ${name}`, hook }];
  });
}

/** How to let links of sandboxes through them, and their questions to the resolver. */
export function adviseOn(droppers: readonly Dropper[], linkPrefix: string): string {
  const questions = ['udp', 'tcp'];
  const commands = droppers.flatMap(({ chain, hook }) => {
    // The names by which iptables, and with it Docker and ufw, know it.
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
