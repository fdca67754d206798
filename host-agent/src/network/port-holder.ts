// The process that holds the published ports of a sandbox (native/portd.c), under a user id of its own. A record that
// the daemon writes before the start identifies it later. It outlives the daemon and ends with the sandbox.
import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { AppError } from '../lib/errors.ts';
import { type ProcessId, readStartTicks } from '../lib/proc.ts';
import {
  endProcess,
  findRecorded,
  noteProcess,
  readProcessRecord,
  removeProcessRecord,
  writeProcessRecord,
} from '../lib/process-record.ts';
import { startProgram } from '../lib/programs.ts';
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

/** Allocates user ids that no other process of the host has. */
export type Users = {
  /** AppError exhausted. */
  take(): Promise<number>;
  /** Marks the user id as used by that process. */
  handOver(uid: number, holder: ProcessId): Promise<void>;
  giveBack(uid: number): Promise<void>;
};

/**
 * AppError conflict for a port in use, invalid_argument for an address that this host does not have, exhausted if no
 * user id is free.
 */
export async function startHolder(options: HolderOptions): Promise<void> {
  const { record, users, ports } = options;
  const broadcast = ports.find(({ hostIp }) => hostIp !== undefined && isBroadcast(hostIp))?.hostIp;
  if (broadcast !== undefined) throw notOfThisHost(broadcast);
  const uid = await users.take();
  try {
    await mkdir(dirname(record), { recursive: true, mode: 0o700 });
    writeProcessRecord(record, { what: ARGV0, uid, about: ports });
    const child = spawnHolder(options, uid);
    const pid = child.pid ?? 0;
    // If the process has exited already, its error message is read below.
    const process = { pid, startTicks: readStartTicks(pid) ?? -1 };
    noteProcess(record, process);
    await waitUntilReady(child);
    await users.handOver(uid, process);
  } catch (error) {
    const remaining = findHolders(record);
    await Promise.all(remaining.map(endProcess));
    await removeRecord(record);
    await users.giveBack(uid);
    throw error;
  }
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

function spawnHolder(options: HolderOptions, uid: number): Child {
  const { program, record, guestIp, source, ports, mode } = options;
  const portArgs = ports.flatMap((port) => toArguments(port).flat());
  return startProgram(
    program,
    [String(uid), guestIp, source, controlOf(record), MODE_LETTERS[mode], ...portArgs],
    {
      argv0: ARGV0,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
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

async function waitUntilReady(child: Child): Promise<void> {
  child.unref();
  let output = '';
  let errorText = '';
  child.stdout.on('data', (text) => {
    output += text;
  });
  child.stderr.on('data', (text) => {
    errorText += text;
  });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (cause) =>
      reject(new AppError('internal', `cannot start ${child.spawnfile}: ${cause.message}`)),
    );
    child.once('close', () => {
      if (!output.includes('ready')) reject(toListenError(errorText.trim()));
    });
  });
  await Promise.race([once(child.stdout, 'data'), failed]);
  child.stdout.destroy();
  child.stderr.destroy();
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
    `host_ip ${address} is no address of this host; leave it out for all of them`,
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

/** The ports that a holder of this run directory was started with. Undefined without one, or for an older record. */
export function readHeldPorts(record: string): readonly PublishedPort[] | undefined {
  return readProcessRecord(record)?.about as readonly PublishedPort[] | undefined;
}

const CONTROL = '.control';

/** The socket that controls a holder, beside its record. */
export function controlOf(record: string): string {
  return `${record}${CONTROL}`;
}

export function isControl(path: string): boolean {
  return path.endsWith(CONTROL);
}

async function removeRecord(record: string): Promise<void> {
  await rm(controlOf(record), { force: true });
  removeProcessRecord(record);
}

/** Whether a process of this run directory holds the ports of a slot. */
export function isHeld(record: string): boolean {
  return findHolders(record).length > 0;
}

/** Resolves when the ports are free. Rejects if a process does not end. */
export async function endHolders(record: string, users: Users): Promise<void> {
  const uid = readProcessRecord(record)?.uid;
  const holders = findHolders(record);
  for (const holder of holders) await endProcess(holder);
  await removeRecord(record);
  // If no holder was running, its user id may already have been given to another process.
  if (uid !== undefined && holders.length > 0) await users.giveBack(uid);
}

function findHolders(path: string): ProcessId[] {
  const record = readProcessRecord(path);
  return record === undefined ? [] : findRecorded(record);
}
