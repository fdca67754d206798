// IPv4 addresses and ranges as numbers.
import { isIPv4 } from 'node:net';

export type Ipv4Range = {
  /** First address; the host bits are zero. */
  readonly base: number;
  readonly prefixLength: number;
};

/** Parses dotted decimal of four octets; undefined for any other notation. */
export function parseIpv4(text: string): number | undefined {
  if (!isIPv4(text)) return undefined;
  return text.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
}

export function formatIpv4(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.');
}

/** Parses `10.0.0.0/8` or a single address; undefined for anything else, or if host bits are set. */
export function parseIpv4Range(text: string): Ipv4Range | undefined {
  const [, address = '', bits = '32'] = /^([\d.]+)(?:\/(\d{1,2}))?$/.exec(text) ?? [];
  const base = parseIpv4(address);
  const prefixLength = Number(bits);
  if (base === undefined || prefixLength > 32 || base % rangeSize(prefixLength) !== 0) return undefined;
  return { base, prefixLength };
}

export function formatIpv4Range({ base, prefixLength }: Ipv4Range): string {
  return `${formatIpv4(base)}/${prefixLength}`;
}

export function isInRange(address: number, { base, prefixLength }: Ipv4Range): boolean {
  return address >= base && address < base + rangeSize(prefixLength);
}

export function doRangesOverlap(a: Ipv4Range, b: Ipv4Range): boolean {
  return isInRange(a.base, b) || isInRange(b.base, a);
}

/** Number of addresses in a range. */
export function rangeSize(prefixLength: number): number {
  return 2 ** (32 - prefixLength);
}
