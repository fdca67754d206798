// Lists of ports, as rules have them.
import { parsePortRange } from '@sandboxd/api/port-ranges';

export type PortRange = { readonly first: number; readonly last: number };

/** Sorted; those that overlap or adjoin are one. */
export function toRanges(ports: readonly (number | string)[]): PortRange[] {
  const sorted = ports
    .flatMap((port) => parsePortRange(String(port)) ?? [])
    .sort((a, b) => a.first - b.first);
  const merged: PortRange[] = [];
  for (const range of sorted) {
    const before = merged.at(-1);
    if (before === undefined || range.first > before.last + 1) merged.push(range);
    else merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
  }
  return merged;
}

/** As nftables has them. */
export function formatPorts(ranges: readonly PortRange[]): string {
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}

export function isWithin(port: number, ranges: readonly PortRange[]): boolean {
  return ranges.some(({ first, last }) => first <= port && port <= last);
}

export function coversPorts(ranges: readonly PortRange[], others: readonly PortRange[]): boolean {
  return others.every((other) =>
    ranges.some(({ first, last }) => first <= other.first && other.last <= last),
  );
}

export function doPortsOverlap(ranges: readonly PortRange[], others: readonly PortRange[]): boolean {
  return others.some((other) => ranges.some(({ first, last }) => first <= other.last && other.first <= last));
}
