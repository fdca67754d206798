// The process that holds the published ports of a sandbox (native/portd.c): found by its name, so no record of it is needed. It
// outlives the daemon, and ends with the sandbox.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AppError } from '../lib/errors.ts';
import { isRunning, listPids, readArguments, readStartTicks, signalProcess } from '../lib/proc.ts';
import { poll } from '../lib/wait.ts';

export type PublishedPort = {
  /** Absent: every address of the host, of both families. */
  readonly hostIp?: string | undefined;
  readonly hostPort: number;
  readonly guestPort: number;
};

export type HolderOptions = {
  readonly program: string;
  /** No other sandbox has it. */
  readonly name: string;
  readonly guestIp: string;
  /** Address of the host that the guest sees as the other end. */
  readonly source: string;
  readonly ports: readonly PublishedPort[];
};

const ARGV0 = 'sandboxd-portd';
const POLL_MS = 5;
const END_TIMEOUT_MS = 5000;

/** AppError conflict for a port that somebody has, invalid_argument for an address that is not the host's. */
export async function startHolder({ program, name, guestIp, source, ports }: HolderOptions): Promise<void> {
  const broadcast = ports.find(({ hostIp }) => hostIp !== undefined && isBroadcast(hostIp))?.hostIp;
  if (broadcast !== undefined) throw notOfThisHost(broadcast);
  const words = ports.flatMap(({ hostIp, hostPort, guestPort }) =>
    (hostIp === undefined ? ['0.0.0.0', '::'] : [hostIp]).flatMap((address) => [
      address,
      String(hostPort),
      String(guestPort),
    ]),
  );
  const child = spawn(program, [name, guestIp, source, ...words], {
    argv0: ARGV0,
    detached: true,
    cwd: '/',
    env: {},
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.unref();
  let said = '';
  let complaint = '';
  child.stdout.on('data', (text) => {
    said += text;
  });
  child.stderr.on('data', (text) => {
    complaint += text;
  });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (cause) =>
      reject(new AppError('internal', `cannot start ${program}: ${cause.message}`)),
    );
    child.once('close', () => {
      if (!said.includes('ready')) reject(explain(complaint.trim()));
    });
  });
  await Promise.race([once(child.stdout, 'data'), failed]);
  child.stdout.destroy();
  child.stderr.destroy();
}

/** `listen ADDRESS PORT: ERROR` in words for a client. */
function explain(complaint: string): AppError {
  const [, address = '', port = '', code = ''] = /^listen (\S+) (\S+): (\w+)$/.exec(complaint) ?? [];
  const where = isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
  if (code === 'EADDRINUSE')
    return new AppError(
      'conflict',
      `host port ${port} is taken: something listens on ${where}; publish another`,
    );
  // EINVAL: of a kind that cannot be listened on.
  if (/^(?:EADDRNOTAVAIL|EAFNOSUPPORT|EINVAL)$/.test(code)) return notOfThisHost(address);
  return new AppError('internal', `cannot hold published ports: ${complaint || 'the program ended'}`);
}

function notOfThisHost(address: string): AppError {
  return new AppError(
    'invalid_argument',
    `host_ip ${address} is no address of this host; leave it out for all of them`,
  );
}

/** Of a network of this host: the kernel lets a socket of TCP listen there, and nobody can connect to it. */
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

export function isHeld(name: string): boolean {
  return findHolders(name).length > 0;
}

/** Resolves when the ports are free. */
export async function endHolders(name: string): Promise<void> {
  for (const holder of findHolders(name)) {
    signalProcess(holder, 'SIGKILL');
    await poll(async () => !isRunning(holder) || undefined, POLL_MS, AbortSignal.timeout(END_TIMEOUT_MS));
  }
}

/** Names of holders whose names begin so. */
export function listHolders(prefix: string): string[] {
  return listPids().flatMap((pid) => {
    const name = holderName(pid);
    return name?.startsWith(prefix) === true ? [name] : [];
  });
}

function findHolders(name: string): { readonly pid: number; readonly startTicks: number }[] {
  return listPids().flatMap((pid) => {
    const startTicks = holderName(pid) === name ? readStartTicks(pid) : undefined;
    return startTicks === undefined ? [] : [{ pid, startTicks }];
  });
}

/** Undefined for any other process. */
function holderName(pid: number): string | undefined {
  const [argv0, name] = readArguments(pid);
  if (argv0 !== ARGV0) return undefined;
  try {
    // Anybody may call a program so.
    return /\/portd(?: \(deleted\))?$/.test(readlinkSync(`/proc/${pid}/exe`)) ? name : undefined;
  } catch {
    return undefined;
  }
}
