// Checks which host ports and addresses a key may publish.
import { BlockList, isIP } from 'node:net';
import { type Policy, parsePortRange } from '@sandboxd/api';

/** Maximum ports in an error message. */
const MAX_SHOWN_PORTS = 5;
const EVERY = { 4: '0.0.0.0', 6: '::' } as const;

/** A host port; without an address, on all addresses of both families. */
export type Published = { readonly hostIp?: string | undefined; readonly hostPort: number };

/** Returns one phrase for each exceeded limit. */
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
  return [`host port ${listFirst(beyond.map(String))} is not within ${within}`];
}

function checkAddresses(ports: readonly Published[], allowed: readonly string[]): string[] {
  const list = new BlockList();
  for (const address of allowed) list.addAddress(address, familyOf(address));
  // BlockList matches any spelling, also IPv4 addresses mapped to IPv6.
  const isAllowed = (address: string): boolean =>
    list.check(address, familyOf(address)) || allowed.includes(EVERY[isIP(address) === 6 ? 6 : 4]);
  const requested = new Set(ports.flatMap(({ hostIp }) => hostIp ?? Object.values(EVERY)));
  const beyond = [...requested].filter((address) => !isAllowed(address));
  if (beyond.length === 0) return [];
  const among =
    allowed.length === 0 ? 'publish_addresses, which are none' : `publish_addresses ${allowed.join(', ')}`;
  return [`host address ${listFirst(beyond)} is not among ${among}`];
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

function listFirst(items: readonly string[]): string {
  return items.slice(0, MAX_SHOWN_PORTS).join(', ') + (items.length > MAX_SHOWN_PORTS ? ', …' : '');
}
