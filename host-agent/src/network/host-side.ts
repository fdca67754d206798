// The host's part of all sandbox networks of one daemon: an address range, an anchor link with a host address, nftables
// rules and IP forwarding. It exists as long as any sandbox has a network, even while the daemon is stopped.
import { readFile, writeFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError, toError } from '../lib/errors.ts';
import { type Ipv4Range, parseIpv4Range } from '../lib/ipv4.ts';
import { readBootId } from '../lib/proc.ts';
import type { Table } from '../store/store.ts';
import type { NetHelper } from './helper.ts';
import { RESOLVER_PORT } from './resolver/resolver.ts';
import { hostRules, NO_ROUTER, removeHostRules } from './rules/host.ts';
import { findClash, freeSubnets, isAnchor, readRoutes, Subnet, tableOf } from './subnet.ts';

/** Stored in the registry under one key. */
export type HostSideRecord = {
  readonly subnet: string;
  readonly bootId: string;
  /** IP forwarding was off before this daemon (or another sandboxd) turned it on. */
  readonly isForwardingOurs: boolean;
};

export type HostSideOptions = {
  /** Absent: the first free candidate range. */
  readonly subnet?: Ipv4Range | undefined;
  readonly records: Table<HostSideRecord>;
  readonly helper: NetHelper;
  readonly log: Logger;
};

const RECORD = 'host';
const FORWARDING = '/proc/sys/net/ipv4/ip_forward';

export class HostSide {
  readonly subnet: Subnet;

  private constructor(subnet: Subnet) {
    this.subnet = subnet;
  }

  /** The state of an earlier daemon; undefined if the host has rebooted since. */
  static recorded(
    records: Table<HostSideRecord>,
  ): { readonly subnet: Subnet; readonly isForwardingOurs: boolean } | undefined {
    const record = records.get(RECORD);
    const range = record?.bootId === readBootId() ? parseIpv4Range(record.subnet) : undefined;
    if (record === undefined || range === undefined) return undefined;
    return { subnet: new Subnet(range), isForwardingOurs: record.isForwardingOurs };
  }

  /** Reuses the state of an earlier daemon, or sets it up. AppError unsupported names what the host lacks. */
  static async open(options: HostSideOptions): Promise<HostSide> {
    const { records, helper, log } = options;
    const earlier = HostSide.recorded(records);
    const subnet = earlier?.subnet ?? (await chooseSubnet(options));
    const isForwardingOurs = earlier?.isForwardingOurs ?? (await isForwardingSandboxes(helper));
    await records.put(RECORD, { subnet: String(subnet), bootId: readBootId(), isForwardingOurs });
    const { anchor, hostAddress, range } = subnet;
    const mode = earlier === undefined ? 'new' : 'again';
    try {
      await helper.request(['anchor', anchor, hostAddress, String(range.prefixLength), mode]);
      const { table, linkPrefix } = subnet;
      await helper.request(
        ['rules', '-'],
        hostRules({
          ...{ table, linkPrefix, anchor, subnet: String(subnet) },
          resolverPort: RESOLVER_PORT,
          isForwardingOurs,
        }),
      );
      // Forwarding is turned on only after the rules that drop all other forwarded packets are in place.
      await writeFile(FORWARDING, '1');
      const droppers = findDroppers(await helper.request(['rules', '-'], 'list chains'));
      if (droppers.length > 0) log.warn(adviseOn(droppers, linkPrefix));
      log.info({ subnet: String(subnet), links: `${linkPrefix}*`, table }, 'networks of sandboxes are ready');
      return new HostSide(subnet);
    } catch (error) {
      if (earlier !== undefined) throw hostLacks(error);
      const isTaken = toError(error).message === `cannot make the link ${anchor}: Device or resource busy`;
      if (!isTaken) {
        await remove(options, subnet, isForwardingOurs).catch(() => undefined);
        throw hostLacks(error);
      }
      // Another daemon chose the same range at the same moment and created the link first: choose again.
      await records.remove(RECORD);
      return HostSide.open(options);
    }
  }

  /** Removes everything. Called when no sandbox has a network. */
  static async remove(options: HostSideOptions): Promise<void> {
    const recorded = HostSide.recorded(options.records);
    if (recorded !== undefined) await remove(options, recorded.subnet, recorded.isForwardingOurs);
    await options.records.remove(RECORD);
  }
}

export function hostLacks(error: unknown): AppError {
  const message = `networks of sandboxes cannot be had on this host: ${toError(error).message}; leave network and publish out, or mend that`;
  return new AppError('unsupported', message, { cause: error });
}

async function remove(
  { helper, records }: HostSideOptions,
  subnet: Subnet,
  isForwardingOurs: boolean,
): Promise<void> {
  const isLast = (await otherAnchors(subnet)).length === 0;
  if (isForwardingOurs && isLast) await writeFile(FORWARDING, '0');
  await helper.request(['rules', '-'], removeHostRules(subnet.table));
  await helper.request(['unlink', subnet.anchor]);
  await records.remove(RECORD);
}

/**
 * Whether IP forwarding is on for sandboxes only: it was off before, or another sandboxd turned it on and may stop
 * first.
 */
async function isForwardingSandboxes(helper: NetHelper): Promise<boolean> {
  if ((await readFile(FORWARDING, 'latin1')).trim() === '0') return true;
  for (const anchor of await otherAnchors()) {
    const rules = await helper.request(['rules', '-'], `list table ${tableOf(anchor)}`).catch(() => '');
    if (rules.includes(NO_ROUTER)) return true;
  }
  return false;
}

/** Anchor links of the other sandboxd daemons on this host. */
async function otherAnchors(subnet?: Subnet): Promise<string[]> {
  return (await listLinks()).filter((name) => isAnchor(name) && name !== subnet?.anchor);
}

/** A range is taken if its anchor link exists. AppError conflict. */
async function chooseSubnet({ subnet: requested, records }: HostSideOptions): Promise<Subnet> {
  const links = await listLinks();
  const isTaken = ({ anchor }: Subnet) => links.includes(anchor);
  if (requested !== undefined) {
    const subnet = new Subnet(requested);
    if (!isTaken(subnet)) return subnet;
    throw new AppError(
      'conflict',
      `network_subnet ${subnet} is that of another daemon, which has the link ${subnet.anchor}; choose another with --network-subnet, or remove the link if no such daemon is left`,
    );
  }
  const routes = await readRoutes();
  // Paused sandboxes have addresses of the range of an earlier boot.
  const earlier = parseIpv4Range(records.get(RECORD)?.subnet ?? '');
  if (earlier !== undefined) {
    const subnet = new Subnet(earlier);
    if (!isTaken(subnet) && findClash(subnet, routes) === undefined) return subnet;
  }
  const free = freeSubnets(routes).find((subnet) => !isTaken(subnet));
  if (free !== undefined) return free;
  throw new AppError(
    'conflict',
    'every range for networks is that of another daemon; choose one with --network-subnet',
  );
}

// Finds firewall rules of other programs (Docker, ufw) that drop forwarded or incoming packets of sandboxes. An accept
// rule in our own table cannot override them, so the operator must change them.
type Chain = {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
  readonly policy?: string;
};

/** A chain whose policy is drop. */
type Dropper = { readonly chain: string; readonly hook: 'forward' | 'input' };

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

// Network links in the daemon's own network namespace.
/** Reads /proc/net/dev: a /sys mount may show the links of another network namespace. */
export async function listLinks(): Promise<string[]> {
  const lines = (await readFile('/proc/net/dev', 'latin1')).split('\n');
  return lines.flatMap((line) => /^\s*([^\s:]+):/.exec(line)?.[1] ?? []);
}
