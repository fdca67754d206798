// Which ports of the host a key may publish, and on which of its addresses.
import { BlockList, isIP } from 'node:net';
import { type Policy, parsePortRange } from '@sandboxd/api';

/** Of ports, in a message. */
const MAX_SHOWN_PORTS = 5;
const EVERY = { 4: '0.0.0.0', 6: '::' } as const;

/** A port of the host; without an address on all of both families. */
export type Published = { readonly hostIp?: string | undefined; readonly hostPort: number };

/** A sentence's part for each limit that they pass. */
export function checkPublished(
  ports: readonly Published[],
  { publish_ports, publish_addresses }: Pick<Policy, 'publish_ports' | 'publish_addresses'>,
): string[] {
  return [
    ...(publish_ports === undefined ? [] : checkPorts(ports, publish_ports)),
    ...(publish_addresses === undefined ? [] : checkAddresses(ports, publish_addresses)),
  ];
}

function checkPorts(ports: readonly Published[], allowed: readonly string[]): string[] {
  const ranges = allowed.flatMap((text) => parsePortRange(text) ?? []);
  const beyond = ports
    .map(({ hostPort }) => hostPort)
    .filter((port) => !ranges.some(({ first, last }) => first <= port && port <= last));
  if (beyond.length === 0) return [];
  const within =
    allowed.length === 0 ? 'publish_ports, which are none' : `publish_ports ${allowed.join(', ')}`;
  return [`host port ${show(beyond.map(String))} is not within ${within}`];
}

function checkAddresses(ports: readonly Published[], allowed: readonly string[]): string[] {
  const list = new BlockList();
  for (const address of allowed) list.addAddress(address, familyOf(address));
  // In any spelling: an address of IPv4 may come as one of IPv6.
  const isAllowed = (address: string): boolean =>
    list.check(address, familyOf(address)) || allowed.includes(EVERY[isIP(address) === 6 ? 6 : 4]);
  const wanted = new Set(ports.flatMap(({ hostIp }) => hostIp ?? Object.values(EVERY)));
  const beyond = [...wanted].filter((address) => !isAllowed(address));
  if (beyond.length === 0) return [];
  const among =
    allowed.length === 0 ? 'publish_addresses, which are none' : `publish_addresses ${allowed.join(', ')}`;
  return [`host address ${show(beyond)} is not among ${among}`];
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

function show(words: readonly string[]): string {
  return words.slice(0, MAX_SHOWN_PORTS).join(', ') + (words.length > MAX_SHOWN_PORTS ? ', …' : '');
}
