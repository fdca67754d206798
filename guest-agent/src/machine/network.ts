// Configures the guest's network interface as the host requests: address, gateway and name server.
import { isIPv4 } from 'node:net';
import { AgentError, type Connections, type Network } from '@sandboxd/proto';
import { logError } from '../lib/log.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { writeOwnFile } from './own-file.ts';

const RESOLVER_FILE = '/etc/resolv.conf';

/** Throws AgentError for a field that is out of range. */
export function checkNetwork({ address, gateway, dns, mac, gatewayMac, prefixLength }: Network): void {
  for (const text of [address, gateway, dns])
    if (!isIPv4(text)) throw new AgentError('invalid', `${JSON.stringify(text)} is not an IPv4 address`);
  for (const text of [mac, gatewayMac]) parseMac(text);
  if (prefixLength < 1 || prefixLength > 31)
    throw new AgentError('invalid', `a prefix of ${prefixLength} bits is not 1 to 31`);
}

/** Returns six bytes; throws AgentError for an invalid text. */
export function parseMac(text: string): Uint8Array {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(text))
    throw new AgentError('invalid', `${JSON.stringify(text)} is not a MAC address`);
  return Uint8Array.from(text.split(':'), (octet) => Number.parseInt(octet, 16));
}

/**
 * Configures this network, or removes it. A copy has the interface and the connections of its snapshot. The connections
 * are aborted before a packet can leave with the new address. Packets with the old address are dropped at the tap.
 */
export function applyNetwork(network: Network | undefined): void {
  if (network === undefined) {
    addon.unbindInterface();
    return;
  }
  const { mac, address, prefixLength, gateway, gatewayMac, dns } = network;
  const name = addon.bindInterface();
  abort(() => addon.abortConnections());
  addon.setInterface(name, parseMac(mac), address, prefixLength, gateway, parseMac(gatewayMac));
  writeResolver(`nameserver ${dns}\n`);
}

/** Aborts the connections that the network has forgotten while the guest was paused: no program shall wait for them. */
export function abortForgotten({ address, tracked }: Connections): void {
  abort(() => addon.abortForgotten(address, tracked));
}

/** The operator's own kernel may lack this function; then programs notice late that their connections are gone. */
function abort(connections: () => void): void {
  try {
    connections();
  } catch (error) {
    logError('abort connections', error);
  }
}

/** A symbolic link at this path points to a file that the image's programs would write, or dangles; it is replaced. */
function writeResolver(text: string): void {
  if (typeof addon.readLink(NO_DIRECTORY, RESOLVER_FILE) === 'string')
    addon.removeFile(NO_DIRECTORY, RESOLVER_FILE);
  writeOwnFile(RESOLVER_FILE, text);
}
