// The process that holds the published ports of a sandbox (native/portd.c), as a user of its own, which is found again by a record
// that the daemon wrote before it started it. It outlives the daemon, and ends with the sandbox.
import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
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

/** What a holder is called. */
const ARGV0 = 'sandboxd-portd';

export type PublishedPort = {
  /** Absent: every address of the host, of both families. */
  readonly hostIp?: string | undefined;
  readonly hostPort: number;
  readonly guestPort: number;
};

export type HolderOptions = {
  readonly program: string;
  /** Path of the file by which it is found again; its directory is made. */
  readonly record: string;
  readonly users: Users;
  readonly guestIp: string;
  /** Address of the host that the guest sees as the other end. */
  readonly source: string;
  readonly ports: readonly PublishedPort[];
};

/** User ids that no other process of the host has. */
export type Users = {
  /** AppError exhausted. */
  take(): Promise<number>;
  /** It is that process's now. */
  handOver(uid: number, holder: ProcessId): Promise<void>;
  giveBack(uid: number): Promise<void>;
};

/** AppError conflict for a port that somebody has, invalid_argument for an address that is not the host's, exhausted without a user. */
export async function startHolder(options: HolderOptions): Promise<void> {
  const { record, users, ports } = options;
  const broadcast = ports.find(({ hostIp }) => hostIp !== undefined && isBroadcast(hostIp))?.hostIp;
  if (broadcast !== undefined) throw notOfThisHost(broadcast);
  const uid = await users.take();
  try {
    await mkdir(dirname(record), { recursive: true, mode: 0o700 });
    writeProcessRecord(record, { what: ARGV0, uid });
    const child = spawnHolder(options, uid);
    const pid = child.pid ?? 0;
    // Of one that has ended already why is heard.
    const process = { pid, startTicks: readStartTicks(pid) ?? -1 };
    noteProcess(record, process);
    await hearReady(child);
    await users.handOver(uid, process);
  } catch (error) {
    const left = findHolders(record);
    await Promise.all(left.map(endProcess));
    removeProcessRecord(record);
    await users.giveBack(uid);
    throw error;
  }
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

function spawnHolder({ program, guestIp, source, ports }: HolderOptions, uid: number): Child {
  const words = ports.flatMap(({ hostIp, hostPort, guestPort }) =>
    (hostIp === undefined ? ['0.0.0.0', '::'] : [hostIp]).flatMap((address) => [
      address,
      String(hostPort),
      String(guestPort),
    ]),
  );
  return startProgram(program, [String(uid), guestIp, source, ...words], {
    argv0: ARGV0,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function hearReady(child: Child): Promise<void> {
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
      reject(new AppError('internal', `cannot start ${child.spawnfile}: ${cause.message}`)),
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

/** Whether a daemon of this run directory started one that holds the ports of a slot. */
export function isHeld(record: string): boolean {
  return findHolders(record).length > 0;
}

/** Resolves when the ports are free. Rejects when a process that holds them does not end. */
export async function endHolders(record: string, users: Users): Promise<void> {
  const uid = readProcessRecord(record)?.uid;
  const holders = findHolders(record);
  for (const holder of holders) await endProcess(holder);
  removeProcessRecord(record);
  // The user of one that ended before may be another's by now.
  if (uid !== undefined && holders.length > 0) await users.giveBack(uid);
}

function findHolders(path: string): ProcessId[] {
  const record = readProcessRecord(path);
  return record === undefined ? [] : findRecorded(record);
}
