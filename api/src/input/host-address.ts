// Checks IP addresses on which a host port is to be published. Refuses addresses on which the kernel cannot listen or
// that TCP clients cannot reach. Does not check whether the address belongs to this host.
import { isIP } from 'node:net';

const NOT_AN_ADDRESS = 'must be an IP address';

/** The rest of a message that begins with the field's name; undefined for a valid address. */
export function findAddressProblem(text: string): string | undefined {
  const family = isIP(text);
  if (family === 0 || text.includes('%')) return NOT_AN_ADDRESS;
  return family === 4 ? findIpv4Problem(text) : findIpv6Problem(toGroups(text));
}

function findIpv4Problem(text: string): string | undefined {
  const first = Number(text.split('.', 1)[0]);
  if (first === 0 && text !== '0.0.0.0')
    return 'must be an address of the host; of 0.0.0.0/8 only 0.0.0.0 means one, which is every address';
  if (first >= 240) return 'must be an address of the host, not a broadcast or reserved one';
  return first >= 224 ? MULTICAST : undefined;
}

const MULTICAST = 'must be an address of the host, not a multicast one: TCP connects to none';

function findIpv6Problem(groups: readonly number[]): string | undefined {
  const [first = 0] = groups;
  const [high = 0, low = 0] = groups.slice(6);
  const areZero = (count: number): boolean => groups.slice(0, count).every((group) => group === 0);
  if (areZero(5) && groups[5] === 0xffff) {
    const four = [high >> 8, high & 255, low >> 8, low & 255].join('.');
    return `must be written as the IPv4 address that it stands for, ${four}`;
  }
  // This range includes :: and ::1.
  if (areZero(6) && (high !== 0 || low > 1))
    return 'must be an address of the host, not one of the IPv4-compatible range, which is out of use';
  if ((first & 0xffc0) === 0xfe80)
    return (
      'must not be a link-local address, which means nothing without its interface; give another address of the ' +
      'host, or :: for all'
    );
  return (first & 0xff00) === 0xff00 ? MULTICAST : undefined;
}

/** The eight groups of an IPv6 address in any notation. */
function toGroups(text: string): readonly number[] {
  const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const [head = [], tail = []] = canonical
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return [...head, ...zeros, ...tail].map((group) => Number.parseInt(group, 16));
}
