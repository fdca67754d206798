// The addresses of all sandboxes of a daemon: a range of its own, in which each sandbox has four.
import { createHash } from 'node:crypto';
import { AppError } from '../lib/errors.ts';
import {
  doRangesOverlap,
  formatIpv4,
  formatIpv4Range,
  type Ipv4Range,
  parseIpv4Range,
  rangeSize,
} from '../lib/ipv4.ts';
import { runProgram } from '../lib/programs.ts';

/** Where a daemon looks for room by itself. */
const CANDIDATES = ['10.87.0.0/16', '10.143.0.0/16', '10.201.0.0/16', '172.29.0.0/16', '192.168.224.0/20'];
const SLOT_PREFIX = 30;
const SLOT_ADDRESSES = 4;
const TAG_CHARS = 5;

export type Route = { readonly range: Ipv4Range; readonly link: string };

/** One range cut into slots. The first is the host's: its resolver is there. */
export class Subnet {
  readonly range: Ipv4Range;
  readonly slots: number;
  /** What the names of its links begin with: no other range has it. */
  readonly linkPrefix: string;

  constructor(range: Ipv4Range) {
    this.range = range;
    this.slots = rangeSize(range.prefixLength) / SLOT_ADDRESSES;
    const hash = createHash('sha256').update(formatIpv4Range(range)).digest('hex');
    this.linkPrefix = `sbx${hash.slice(0, TAG_CHARS)}`;
  }

  /** Address of the host that only sandboxes reach. */
  get hostAddress(): string {
    return formatIpv4(this.range.base + 1);
  }

  /** The link that has it. */
  get anchor(): string {
    return this.link(0);
  }

  /** Name of the nftables table. */
  get table(): string {
    return tableOf(this.anchor);
  }

  /** The first is the host's; the address of the last one's resolver is the whole range's broadcast. */
  isForSandboxes(slot: number): boolean {
    return slot > 0 && slot < this.slots - 1;
  }

  link(slot: number): string {
    return this.linkPrefix + slot.toString(16).padStart(6, '0');
  }

  addresses(slot: number): {
    readonly gateway: string;
    readonly guestIp: string;
    readonly resolverIp: string;
    readonly prefixLength: number;
  } {
    const [gateway, guestIp, resolverIp] = [1, 2, 3].map((at) =>
      formatIpv4(this.range.base + slot * SLOT_ADDRESSES + at),
    ) as [string, string, string];
    return { gateway, guestIp, resolverIp, prefixLength: SLOT_PREFIX };
  }

  /** Of the slot that has this link; undefined for any other name. */
  guestIp(link: string): string | undefined {
    const slot = Number.parseInt(link.slice(this.linkPrefix.length), 16);
    return this.link(slot) === link && slot < this.slots ? this.addresses(slot).guestIp : undefined;
  }

  toString(): string {
    return formatIpv4Range(this.range);
  }
}

/** Whether a link is that of some daemon's range. */
export function isAnchor(link: string): boolean {
  return /^sbx[\da-f]{5}0{6}$/.test(link);
}

/** Name of the nftables table of the daemon that has this link. */
export function tableOf(link: string): string {
  return `ip sandboxd_${link.slice(0, 'sbx'.length + TAG_CHARS)}`;
}

/** All routes of the host but default ones. AppError unsupported without `ip`. */
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

/** The route of somebody else that the range would take addresses from. */
export function findClash(subnet: Subnet, routes: readonly Route[]): Route | undefined {
  return routes.find(
    ({ range, link }) => !link.startsWith(subnet.linkPrefix) && doRangesOverlap(range, subnet.range),
  );
}

/** AppError conflict naming the route that is in the way. */
export function assertNoClash(subnet: Subnet, routes: readonly Route[]): void {
  const clash = findClash(subnet, routes);
  if (clash === undefined) return;
  throw new AppError(
    'conflict',
    `network_subnet ${subnet} overlaps the route to ${formatIpv4Range(clash.range)} by ${clash.link || 'no link'}; choose another range with --network-subnet`,
  );
}

/** Ranges that nothing of the host is in; AppError conflict when there is none. */
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
