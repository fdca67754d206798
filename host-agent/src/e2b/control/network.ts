// Networks of E2B's creates as networks of the REST interface. Where theirs allow more than ours can refuse, it is 501.
import { isIPv4 } from 'node:net';
import { INTERNET_PRESET } from '@sandboxd/api';
import { E2bError, unsupported } from '../errors.ts';
import type { SandboxRecord } from '../sandbox-records.ts';
import type { NetworkBody } from './requests.ts';

const EVERYTHING = '0.0.0.0/0';
const ALL_PORTS = ['1-65535'];
/** Of a network that stays where its guest may reach nothing. */
export const NO_TARGETS: Targets = { allowlist: [], rules: [], presets: [] };

export type Targets = {
  readonly allowlist: readonly string[];
  readonly rules: readonly {
    readonly cidr: string;
    readonly protocol: 'tcp' | 'udp';
    readonly ports: readonly string[];
  }[];
  readonly presets: readonly string[];
};

/** What the guest may reach; undefined: nothing. E2bError 400, 501. */
export function toTargets(network: Partial<NetworkBody>, allowsInternet: boolean): Targets | undefined {
  const { allowOut = [], denyOut = [] } = network;
  assertKnown(network);
  const isClosed = !allowsInternet || denyOut.includes(EVERYTHING);
  if (!isClosed && denyOut.length > 0)
    throw unsupported('denyOut of single addresses (deny 0.0.0.0/0 and name what to allow in allowOut)');
  if (!isClosed) {
    const name = allowOut.find((entry) => !isRange(entry));
    if (name === undefined) return { allowlist: [], rules: [], presets: [INTERNET_PRESET] };
    throw new E2bError(400, `allowOut with the domain ${name} needs denyOut with ${EVERYTHING}`);
  }
  if (allowOut.length === 0) return undefined;
  if (allowOut.includes(EVERYTHING)) return { allowlist: [], rules: [], presets: [INTERNET_PRESET] };
  const ranges = allowOut.filter(isRange).map((entry) => (entry.includes('/') ? entry : `${entry}/32`));
  return {
    allowlist: allowOut.filter((entry) => !isRange(entry)),
    rules: ranges.flatMap((cidr) =>
      (['tcp', 'udp'] as const).map((protocol) => ({ cidr, protocol, ports: ALL_PORTS })),
    ),
    presets: [],
  };
}

/** Who may use its ports, and what its servers see. */
export function toPortAccess(network: Partial<NetworkBody>): Pick<SandboxRecord, 'ports' | 'masksHost'> {
  return {
    ports: network.allowPublicTraffic === false ? 'token' : 'public',
    masksHost: network.maskRequestHost != null,
  };
}

function assertKnown({ egressProxy, dnsServers, httpsPorts, maskRequestHost }: Partial<NetworkBody>): void {
  if (egressProxy != null) throw unsupported('network.egressProxy');
  if (dnsServers != null && dnsServers.length > 0) throw unsupported('network.dnsServers');
  if (httpsPorts != null && httpsPorts.length > 0) throw unsupported('network.httpsPorts');
  if (maskRequestHost != null && !/^localhost(?::\$\{PORT\})?$/.test(maskRequestHost))
    throw unsupported('network.maskRequestHost other than localhost with the port');
}

function isRange(entry: string): boolean {
  return isIPv4(entry.replace(/\/\d{1,2}$/, ''));
}
