// Checks the requirements of sandbox networks, and firewalls that drop their packets.
import { adviseOn, findDroppers } from '../../network/host-side.ts';
import { guestRules } from '../../network/rules/guest.ts';
import { type Finding, fault, type Group, type Host, ok, warning } from './host.ts';

/** Name prefix of all network interfaces of sandboxes. */
const LINK_PREFIX = 'sbx';

/** Checks a sandbox's firewall rules in a temporary network namespace. */
export const RULES_CHECK = [
  'unshare',
  '--net',
  'nft',
  '--check',
  guestRules({
    guestIp: '192.0.2.2',
    gateway: '192.0.2.1',
    mac: '02:00:00:00:00:02',
    gatewayMac: '02:00:00:00:00:01',
    resolverIp: '192.0.2.3',
    resolverPort: 53,
  } as Parameters<typeof guestRules>[0]).replace('device "tap0"', 'device "lo"'),
] as const;

export const network: Group = {
  name: 'network',
  check: async (host) => {
    const chains = await host.run('nft', '--json', 'list', 'chains');
    const rules = await host.run(...RULES_CHECK);
    return [
      checkTun(host),
      checkNftables(chains, rules),
      checkForwarding(host),
      await checkFirewall(host, chains),
    ];
  },
};

function checkTun({ isUsable }: Host): Finding {
  return isUsable('/dev/net/tun')
    ? ok('tun', '/dev/net/tun can be used')
    : fault(
        'tun',
        '/dev/net/tun cannot be used',
        'modprobe tun, and tun in /etc/modules-load.d; a container has to be given the device',
      );
}

function checkNftables(chains: string | undefined, rules: string | undefined): Finding {
  if (chains === undefined)
    return fault(
      'nftables',
      'rules cannot be listed',
      'as root: apt-get install nftables; modprobe nf_tables',
    );
  return rules === undefined
    ? fault(
        'nftables',
        'this kernel does not take the rules of a sandbox',
        'a kernel of Debian 12 or later has what they need; sandboxes without a network work',
      )
    : ok('nftables', 'this kernel takes the rules of a sandbox');
}

function checkForwarding({ read }: Host): Finding {
  const value = read('/proc/sys/net/ipv4/ip_forward');
  if (value === '1') return ok('forwarding', 'on');
  if (value === '0')
    return ok('forwarding', 'off; the daemon switches it on with the first network, for sandboxes only');
  return fault('forwarding', 'cannot be read', 'networks need /proc/sys/net/ipv4/ip_forward');
}

async function checkFirewall({ read, run }: Host, chains: string | undefined): Promise<Finding> {
  if (chains === undefined)
    return warning('firewall', 'cannot be seen, as rules cannot be listed', 'run this as root');
  const droppers = findDroppers(chains);
  if (droppers.length > 0)
    return warning(
      'firewall',
      `drops what it does not know (${droppers.map(({ chain }) => chain).join(', ')})`,
      adviseOn(droppers, LINK_PREFIX),
    );
  // The nft command does not list rules of iptables-legacy.
  const legacy = read('/proc/net/ip_tables_names');
  const policy = legacy?.split('\n').includes('filter')
    ? await run('iptables-legacy', '-S', 'FORWARD')
    : undefined;
  if (policy?.includes('-P FORWARD DROP'))
    return warning(
      'firewall',
      'drops forwarded packets (iptables-legacy FORWARD)',
      `iptables-legacy -I FORWARD -i ${LINK_PREFIX}+ -j ACCEPT; iptables-legacy -I FORWARD -o ${LINK_PREFIX}+ -j ACCEPT`,
    );
  return ok('firewall', 'no other firewall drops forwarded packets');
}
