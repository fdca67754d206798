// Addresses of pods that others made, of the range that is routed to this host.
import { createHash } from 'node:crypto';
import { formatIpv4, type Ipv4Range, rangeSize } from '../../lib/ipv4.ts';

/** Those with all host bits 0 or 1 are not used. */
const EDGES = 2;

/** The same pod tends to the same one, and an address is not used again at once. Undefined when all are taken. */
export function chooseAddress(
  { base, prefixLength }: Ipv4Range,
  uid: string,
  taken: ReadonlySet<string>,
): string | undefined {
  const count = rangeSize(prefixLength) - EDGES;
  if (count <= 0) return undefined;
  const first = createHash('sha256').update(uid).digest().readUInt32BE(0) % count;
  for (let n = 0; n < Math.min(count, taken.size + 1); n++) {
    const address = formatIpv4(base + 1 + ((first + n) % count));
    if (!taken.has(address)) return address;
  }
  return undefined;
}
