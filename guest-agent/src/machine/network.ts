// The guest's one network interface, as the host says it is: its address, its way out and who answers for names.
import { isIPv4 } from 'node:net';
import { AgentError, type Network } from '@sandboxd/proto';
import { logError } from '../lib/log.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { writeOwnFile } from './own-file.ts';

const RESOLVER_FILE = '/etc/resolv.conf';

/** Throws AgentError for a field out of range. */
export function checkNetwork({ address, gateway, dns, mac, gatewayMac, prefixLength }: Network): void {
  for (const text of [address, gateway, dns])
    if (!isIPv4(text)) throw new AgentError('invalid', `${JSON.stringify(text)} is not an IPv4 address`);
  for (const text of [mac, gatewayMac]) parseMac(text);
  if (prefixLength < 1 || prefixLength > 31)
    throw new AgentError('invalid', `a prefix of ${prefixLength} bits is not 1 to 31`);
}

/** Six bytes; AgentError for anything else. */
export function parseMac(text: string): Uint8Array {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(text))
    throw new AgentError('invalid', `${JSON.stringify(text)} is not a MAC address`);
  return Uint8Array.from(text.split(':'), (octet) => Number.parseInt(octet, 16));
}

/**
 * Gives the guest this network, or none. A copy has the interface and the connections of the guest that was saved: they are
 * aborted before anything can leave by the new address; by the old one nothing gets past the gate of its tap.
 */
export function applyNetwork(network: Network | undefined): void {
  if (network === undefined) {
    addon.unbindInterface();
    return;
  }
  const { mac, address, prefixLength, gateway, gatewayMac, dns } = network;
  const name = addon.bindInterface();
  abortConnections();
  addon.setInterface(name, parseMac(mac), address, prefixLength, gateway, parseMac(gatewayMac));
  writeResolver(`nameserver ${dns}\n`);
}

/** A kernel of the operator's own may not be able to: programs then find out by themselves, late. */
function abortConnections(): void {
  try {
    addon.abortConnections();
  } catch (error) {
    logError('abort connections', error);
  }
}

/** A link there leads to what a program of the image would write, or nowhere: the file itself takes its place. */
function writeResolver(text: string): void {
  if (typeof addon.readLink(NO_DIRECTORY, RESOLVER_FILE) === 'string')
    addon.removeFile(NO_DIRECTORY, RESOLVER_FILE);
  writeOwnFile(RESOLVER_FILE, text);
}
