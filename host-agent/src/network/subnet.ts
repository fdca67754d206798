// The address range of all sandboxes of a daemon. Each sandbox has a slot: four addresses, and a namespace with a tap.
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { AppError } from '../lib/errors.ts';
import {
  doRangesOverlap,
  formatIpv4,
  formatIpv4Range,
  type Ipv4Range,
  isInRange,
  parseIpv4,
  parseIpv4Range,
  rangeSize,
} from '../lib/ipv4.ts';
import { runProgram } from '../lib/programs.ts';

/** Ranges that a daemon tries if none is configured. */
const CANDIDATES = ['10.87.0.0/16', '10.143.0.0/16', '10.201.0.0/16', '172.29.0.0/16', '192.168.224.0/20'];
const SLOT_PREFIX = 30;
const SLOT_ADDRESSES = 4;
const TAG_CHARS = 5;

export type Route = { readonly range: Ipv4Range; readonly link: string };

/** The same for every guest: each is alone on its link, and a fork does not need a new address. */
const GUEST_LINK = {
  tap: 'tap0',
  mac: '02:00:00:00:00:02',
  gatewayMac: '02:00:00:00:00:01',
} as const;

/** An address range, split into slots. The first slot is the host's own. */
export class Subnet {
  readonly range: Ipv4Range;
  readonly slots: number;
  /** Prefix of link names, unique to this range. */
  readonly linkPrefix: string;

  constructor(range: Ipv4Range) {
    this.range = range;
    this.slots = rangeSize(range.prefixLength) / SLOT_ADDRESSES;
    const hash = createHash('sha256').update(formatIpv4Range(range)).digest('hex');
    this.linkPrefix = `sbx${hash.slice(0, TAG_CHARS)}`;
  }

  /** Address of the host that only sandboxes can reach. */
  get hostAddress(): string {
    return formatIpv4(this.range.base + 1);
  }

  /** The link that has the host address. */
  get anchor(): string {
    return this.link(0);
  }

  get table(): string {
    return tableOf(this.anchor);
  }

  /**
   * The first slot is the host's. In the last one, the resolver address is the broadcast address of the whole range.
   */
  isForSandboxes(slot: number): boolean {
    return slot > 0 && slot < this.slots - 1;
  }

  link(slot: number): string {
    return this.linkPrefix + slot.toString(16).padStart(6, '0');
  }

  addresses(slot: number): Omit<NetworkSlot, 'namespace'> {
    const [gateway, guestIp, resolverIp] = [1, 2, 3].map((at) =>
      formatIpv4(this.range.base + slot * SLOT_ADDRESSES + at),
    ) as [string, string, string];
    return { ...GUEST_LINK, gateway, guestIp, resolverIp, prefixLength: SLOT_PREFIX };
  }

  /** The guest address of the slot that this link belongs to; undefined for any other name. */
  guestIp(link: string): string | undefined {
    const slot = Number.parseInt(link.slice(this.linkPrefix.length), 16);
    return this.link(slot) === link && slot < this.slots ? this.addresses(slot).guestIp : undefined;
  }

  toString(): string {
    return formatIpv4Range(this.range);
  }
}

/** Whether this is the anchor link of a sandboxd daemon's range. */
export function isAnchor(link: string): boolean {
  return /^sbx[\da-f]{5}0{6}$/.test(link);
}

/** Name of the nftables table of the daemon that owns this link. */
export function tableOf(link: string): string {
  return `ip sandboxd_${link.slice(0, 'sbx'.length + TAG_CHARS)}`;
}

/** All routes of the host except default routes. AppError unsupported without `ip`. */
export async function readRoutes(): Promise<Route[]> {
  let text: string;
  try {
    ({ stdout: text } = await runProgram('ip', ['-4', '-j', 'route', 'show', 'table', 'all']));
  } catch (cause) {
    throw new AppError('unsupported', 'networks need the program ip (Debian package iproute2)', { cause });
  }
  const routes: { readonly dst: string; readonly dev?: string; readonly type?: string }[] = JSON.parse(
    text || '[]',
  );
  return routes.flatMap(({ dst, dev = '', type = 'unicast' }) => {
    const range = parseIpv4Range(dst);
    return range === undefined || type === 'broadcast' ? [] : [{ range, link: dev }];
  });
}

/** A route of another program that overlaps the range. */
export function findClash(subnet: Subnet, routes: readonly Route[]): Route | undefined {
  return routes.find(
    ({ range, link }) => !link.startsWith(subnet.linkPrefix) && doRangesOverlap(range, subnet.range),
  );
}

/** AppError conflict that names the overlapping route. */
export function assertNoClash(subnet: Subnet, routes: readonly Route[]): void {
  const clash = findClash(subnet, routes);
  if (clash === undefined) return;
  throw new AppError(
    'conflict',
    `network_subnet ${subnet} overlaps the route to ${formatIpv4Range(clash.range)} by ${clash.link || 'no link'}; choose another range with --network-subnet`,
  );
}

/** Candidate ranges that no route of the host overlaps. AppError conflict if there are none. */
export function freeSubnets(routes: readonly Route[]): Subnet[] {
  const free = CANDIDATES.flatMap((text) => {
    const range = parseIpv4Range(text);
    const subnet = range && new Subnet(range);
    return subnet === undefined || findClash(subnet, routes) !== undefined ? [] : [subnet];
  });
  if (free.length > 0) return free;
  throw new AppError(
    'conflict',
    `no range is free for networks of sandboxes: ${CANDIDATES.join(', ')} all overlap routes of this host; choose another with --network-subnet`,
  );
}

/** JSON-safe. */
export type NetworkSlot = {
  /** Path of the bind-mounted network namespace. */
  readonly namespace: string;
  /**
   * Name of the tap in the namespace: persistent, up, with virtio headers; any process in the namespace can attach to
   * it.
   */
  readonly tap: string;
  /** The guest's MAC address. */
  readonly mac: string;
  readonly gatewayMac: string;
  readonly guestIp: string;
  /** The host's address as the guest sees it. It answers DNS queries and nothing else. */
  readonly gateway: string;
  /** Host address that the sandbox's resolver listens on. */
  readonly resolverIp: string;
  readonly prefixLength: number;
};

/** AppError conflict for a record without them: a socket without an address would listen on every one of the host. */
export function assertOwnAddresses({ guestIp, resolverIp }: Partial<NetworkSlot>, { range }: Subnet): void {
  for (const [name, text = ''] of Object.entries({ guestIp, resolverIp })) {
    const address = parseIpv4(text);
    if (address === undefined || !isInRange(address, range))
      throw new AppError('conflict', `the network's record has no ${name} of ${formatIpv4Range(range)}`);
  }
}

/** Of records of its processes. It is that of the daemon that made the namespace, which may not be this one's. */
export function runDirOf({ namespace }: Pick<NetworkSlot, 'namespace'>): string {
  return dirname(dirname(namespace));
}

/** The namespace file has the same name as the link. */
export function linkOf({ namespace }: Pick<NetworkSlot, 'namespace'>): string {
  return namespace.slice(namespace.lastIndexOf('/') + 1);
}
