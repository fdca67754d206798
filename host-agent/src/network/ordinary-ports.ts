// Default range of ports that may be published: neither well-known ports nor the host's ephemeral ports.
import { readFileSync } from 'node:fs';
import { MAX_PORT } from '@sandboxd/api';

const RANGE_FILE = '/proc/sys/net/ipv4/ip_local_port_range';
/** Linux's default for ip_local_port_range. */
const USUAL_RANGE = [32_768, 60_999] as const;
const FIRST = 1024;

/** Ranges in the notation of policies. `file` is for tests. */
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
    // The file cannot be read: use the default.
  }
  return USUAL_RANGE;
}
