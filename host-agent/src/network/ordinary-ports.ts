// Ports of the host that nobody misses who runs one: not those of its services, nor those that it takes for connections outward.
import { readFileSync } from 'node:fs';
import { MAX_PORT } from '@sandboxd/api';

const RANGE_FILE = '/proc/sys/net/ipv4/ip_local_port_range';
/** Of Linux, where the file says nothing. */
const USUAL_RANGE = [32_768, 60_999] as const;
const FIRST = 1024;

/** Ranges as policies write them. `file` is for tests. */
export function findOrdinaryPorts(file = RANGE_FILE): string[] {
  const [first, last] = readRange(file);
  return [
    ...(first > FIRST ? [`${FIRST}-${first - 1}`] : []),
    ...(last < MAX_PORT ? [`${Math.max(FIRST, last + 1)}-${MAX_PORT}`] : []),
  ];
}

function readRange(file: string): readonly [number, number] {
  try {
    const [, first, last] = /^(\d+)\s+(\d+)\s*$/.exec(readFileSync(file, 'utf8')) ?? [];
    if (first !== undefined && last !== undefined) return [Number(first), Number(last)];
  } catch {
    // A host that does not say.
  }
  return USUAL_RANGE;
}
