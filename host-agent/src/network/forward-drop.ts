// Rules of others that drop what the host forwards, such as Docker's and ufw's: ours cannot accept for them, so the operator has to.

type Chain = {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
  readonly policy?: string;
};

/** What `nft --json list chains` says, but for our own tables: chains that drop what they do not know, in words. */
export function findDroppers(json: string): string[] {
  const { nftables = [] } = JSON.parse(json) as { nftables?: readonly { readonly chain?: Chain }[] };
  return nftables.flatMap(({ chain }) => {
    if (chain?.hook !== 'forward' || chain.policy !== 'drop' || chain.table.startsWith('sandboxd_'))
      return [];
    return chain.family === 'ip' || chain.family === 'inet'
      ? [`${chain.family} ${chain.table} ${chain.name}`]
      : [];
  });
}

/** How to let links of sandboxes through them. */
export function adviseOn(droppers: readonly string[], linkPrefix: string): string {
  const commands = droppers.flatMap((chain) =>
    // The names by which iptables, and with it Docker and ufw, know it.
    chain === 'ip filter FORWARD'
      ? [`iptables -I FORWARD -i ${linkPrefix}+ -j ACCEPT`, `iptables -I FORWARD -o ${linkPrefix}+ -j ACCEPT`]
      : [
          `nft insert rule ${chain} iifname "${linkPrefix}*" accept`,
          `nft insert rule ${chain} oifname "${linkPrefix}*" accept`,
        ],
  );
  return `rules of this host drop what is forwarded (${droppers.join(', ')}), and so all that sandboxes send and get; allow it: ${commands.join('; ')}`;
}
