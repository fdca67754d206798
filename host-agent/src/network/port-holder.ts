// The process that holds the published ports of a sandbox (native/portd.c).
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AppError } from '../lib/errors.ts';
import { readProcessRecord } from '../lib/process-record.ts';
import { controlOf, startHeld, type Users } from './held-process.ts';
import { MODE_LETTERS, type PortMode } from './port-control.ts';

/** argv[0] of a holder. */
const ARGV0 = 'sandboxd-portd';

export type PublishedPort = {
  /** Absent: every address of the host, IPv4 and IPv6. */
  readonly hostIp?: string | undefined;
  readonly hostPort: number;
  readonly guestPort: number;
};

type HolderOptions = {
  readonly program: string;
  /** Path of the process record; its directory is created. */
  readonly record: string;
  readonly users: Users;
  readonly guestIp: string;
  /** Source address of forwarded connections as the guest sees it. */
  readonly source: string;
  readonly ports: readonly PublishedPort[];
  /** What happens to new connections at first. */
  readonly mode: PortMode;
};

/**
 * AppError conflict for a port in use, invalid_argument for an address that this host does not have, exhausted if no
 * user id is free.
 */
export async function startHolder(options: HolderOptions): Promise<void> {
  const { program, record, users, guestIp, source, ports, mode } = options;
  const broadcast = ports.find(({ hostIp }) => hostIp !== undefined && isBroadcast(hostIp))?.hostIp;
  if (broadcast !== undefined) throw notOfThisHost(broadcast);
  const portArgs = ports.flatMap((port) => toArguments(port).flat());
  await startHeld({
    program,
    argv0: ARGV0,
    record,
    users,
    about: ports,
    toArguments: (uid) => [
      ...[String(uid), guestIp, source, controlOf(record), MODE_LETTERS[mode]],
      ...portArgs,
    ],
    toError: toListenError,
  });
}

/** One triple for each address that it listens on. */
function toArguments({ hostIp, hostPort, guestPort }: PublishedPort): string[][] {
  const addresses = hostIp === undefined ? ['0.0.0.0', '::'] : [hostIp];
  return addresses.map((address) => [address, String(hostPort), String(guestPort)]);
}

/** The indexes by which the holder of `ports` knows one of them. */
export function indexesOf(ports: readonly PublishedPort[], port: PublishedPort): number[] {
  const wanted = toArguments(port).map(String);
  const all = ports.flatMap(toArguments).map(String);
  return all.flatMap((each, index) => (wanted.includes(each) ? [index] : []));
}

/** Translates `listen ADDRESS PORT: ERROR` into an error for the client. */
function toListenError(errorText: string): AppError {
  const [, address = '', port = '', code = ''] = /^listen (\S+) (\S+): (\w+)$/.exec(errorText) ?? [];
  const where = isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
  if (code === 'EADDRINUSE')
    return new AppError(
      'conflict',
      `host port ${port} is taken: something listens on ${where}; publish another`,
    );
  // EINVAL: the kernel cannot listen on an address of this type.
  if (/^(?:EADDRNOTAVAIL|EAFNOSUPPORT|EINVAL)$/.test(code)) return notOfThisHost(address);
  return new AppError('internal', `cannot hold published ports: ${errorText || 'the program ended'}`);
}

function notOfThisHost(address: string): AppError {
  return new AppError(
    'invalid_argument',
    `host_ip ${address} is not an address of this host; leave it out for all of them`,
  );
}

/** A broadcast address of this host's networks: Linux accepts a TCP listen on it, but no client can connect. */
function isBroadcast(address: string): boolean {
  const octets = address.split('.').map(Number);
  return Object.values(networkInterfaces()).some((own = []) =>
    own.some(({ address: ip, netmask, family, cidr }) => {
      if (family !== 'IPv4' || octets.length !== 4 || Number(cidr?.split('/')[1]) > 30) return false;
      const [ours, mask] = [ip.split('.').map(Number), netmask.split('.').map(Number)];
      return octets.every((octet, at) => octet === ((ours[at] ?? 0) | (~(mask[at] ?? 0) & 255)));
    }),
  );
}

/** The ports that a holder of this run directory was started with. Undefined without one. */
export function readHeldPorts(record: string): readonly PublishedPort[] | undefined {
  return readProcessRecord(record)?.about as readonly PublishedPort[] | undefined;
}
