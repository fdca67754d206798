// The published ports of all sandboxes. A holder process keeps each port, and nftables maps forward IPv4 connections to
// the guest.
import { readFileSync } from 'node:fs';
import { readdir, readFile, rmdir } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { basename, join } from 'node:path';
import { MAX_PORT } from '@sandboxd/api';
import { AppError, isAppError } from '../lib/errors.ts';
import { PortControl, type PortMode } from './port-control.ts';
import {
  controlOf,
  endHolders,
  isControl,
  isHeld,
  type PublishedPort,
  startHolder,
  type Users,
} from './port-holder.ts';
import { asleepRules, openPorts } from './rules/guest.ts';
import { addPorts, type PortMap, removePorts, replacePorts } from './rules/host.ts';
import type { NetworkSlot, Subnet } from './subnet.ts';

export type PublishedOptions = {
  /** Path of the holder program. */
  readonly program: string;
  /** Directory of the holders' process records, private to the daemon; created and removed as needed. */
  readonly dir: string;
  /** User ids of the holders. */
  readonly users: Users;
  /** Runs nftables commands in a namespace; `-` is the host's namespace. */
  readonly change: (namespace: string, commands: string) => Promise<unknown>;
};

/** The published ports of one sandbox. */
type Entry = {
  readonly slot: NetworkSlot;
  readonly ports: readonly PublishedPort[];
  /** Its guest sleeps: the holder gets all new connections. */
  isAsleep: boolean;
  control?: PortControl | undefined;
  onHeld: () => void;
  /** Changes of its mode are made one at a time. */
  last: Promise<unknown>;
};

export class Published {
  readonly #options: PublishedOptions;
  /** By the slot's namespace. */
  readonly #ports = new Map<string, Entry>();

  constructor(options: PublishedOptions) {
    this.#options = options;
  }

  /**
   * `isAsleep`: as after `setMode('hold')`. AppError conflict for a port in use, invalid_argument for an address that
   * this host does not have.
   */
  async add(
    subnet: Subnet,
    slot: NetworkSlot,
    ports: readonly PublishedPort[],
    isAsleep: boolean,
  ): Promise<void> {
    const { change } = this.#options;
    const entry = this.#enter(slot, ports, isAsleep);
    await this.#startHolder(subnet, entry);
    await change(slot.namespace, openPorts(ports.map(({ guestPort }) => guestPort)));
    const maps = toMaps(entry);
    if (maps.length > 0 && !isAsleep) await change('-', addPorts(subnet.table, maps));
  }

  /**
   * Re-attaches ports that an earlier daemon published. Rejects if the holder has ended and another process has a port
   * now.
   */
  async adopt(
    subnet: Subnet,
    slot: NetworkSlot,
    ports: readonly PublishedPort[],
    isAsleep: boolean,
  ): Promise<void> {
    const entry = this.#enter(slot, ports, isAsleep);
    if (!isHeld(this.#recordOf(slot.namespace))) await this.#startHolder(subnet, entry);
    // The earlier daemon may have been killed in the middle of a pause.
    else if (!isAsleep) await this.setMode(subnet, slot, 'open').catch(() => undefined);
  }

  /**
   * `hold` and `refuse` are for a guest that sleeps: its holder gets all new connections. Connections that exist stay
   * until their client sends data in `refuse`. `onHeld` is called once, for the first connection or the first
   * data. Rejects if the holder has ended, or is of an older version.
   */
  setMode(subnet: Subnet, slot: NetworkSlot, mode: PortMode, onHeld?: () => void): Promise<void> {
    const entry = this.#ports.get(slot.namespace);
    if (entry === undefined) return Promise.resolve();
    if (onHeld !== undefined) entry.onHeld = onHeld;
    const change = () => this.#setMode(subnet, entry, mode);
    const done = entry.last.then(change, change);
    entry.last = done.catch(() => undefined);
    return done;
  }

  /** A rule has logged a packet for the guest. */
  received(guestIp: string): void {
    for (const { slot, control } of this.#ports.values()) if (slot.guestIp === guestIp) control?.knock();
  }

  async #setMode(subnet: Subnet, entry: Entry, mode: PortMode): Promise<void> {
    const { change } = this.#options;
    const path = controlOf(this.#recordOf(entry.slot.namespace));
    const maps = toMaps(entry);
    try {
      entry.control ??= await PortControl.open(path, () => entry.onHeld());
      await entry.control.set(mode);
    } catch (error) {
      entry.control = undefined;
      if (mode !== 'open') throw error;
      // One that has ended, or does not answer, is replaced.
      await this.#end(entry.slot.namespace);
      await this.#startHolder(subnet, { ...entry, isAsleep: false });
    }
    if (mode !== 'open') {
      if (!entry.isAsleep) await this.#removeMaps(subnet, maps);
      entry.isAsleep = true;
      await change(entry.slot.namespace, asleepRules(mode));
      return;
    }
    entry.control?.close();
    entry.control = undefined;
    if (maps.length > 0 && entry.isAsleep)
      await change('-', `${removePorts(subnet.table, maps)}\n${addPorts(subnet.table, maps)}`);
    entry.isAsleep = false;
    await change(entry.slot.namespace, asleepRules(mode));
  }

  /** Resolves when the ports are free. Idempotent. */
  async remove(subnet: Subnet | undefined, { namespace }: NetworkSlot): Promise<void> {
    const entry = this.#ports.get(namespace);
    if (entry === undefined) return;
    await entry.last;
    entry.control?.close();
    if (subnet !== undefined) await this.#removeMaps(subnet, toMaps(entry));
    await this.#end(namespace);
    this.#ports.delete(namespace);
  }

  /** Holders stay. */
  close(): void {
    for (const { control } of this.#ports.values()) control?.close();
  }

  #enter(slot: NetworkSlot, ports: readonly PublishedPort[], isAsleep: boolean): Entry {
    const entry = { slot, ports, isAsleep, onHeld: () => undefined, last: Promise.resolve() };
    this.#ports.set(slot.namespace, entry);
    return entry;
  }

  /**
   * Garbage collection: ends the holders of slots that no sandbox has (`netDir` contains their namespaces), and
   * replaces the port maps by those of the existing guests.
   */
  async tidy(subnet: Subnet, netDir: string): Promise<void> {
    const recorded = (await readdir(this.#options.dir).catch(() => []))
      .filter((name) => !isControl(name))
      .map((link) => join(netDir, link));
    const failures: unknown[] = [];
    const unused = recorded.filter((namespace) => !this.#ports.has(namespace));
    // In parallel: a process that does not end delays the others otherwise.
    await Promise.all(unused.map((namespace) => this.#end(namespace).catch((error) => failures.push(error))));
    const maps = [...this.#ports.values()].flatMap((entry) => (entry.isAsleep ? [] : toMaps(entry)));
    await succeeds(this.#options.change('-', replacePorts(subnet.table, maps)));
    for (const failure of failures) throw failure;
  }

  /** Removes all maps in one command. It fails if another sandbox owns one by now; then they are removed one by one. */
  async #removeMaps({ table }: Subnet, maps: readonly PortMap[]): Promise<void> {
    const remove = (subset: readonly PortMap[]) => this.#options.change('-', removePorts(table, subset));
    if (maps.length === 0 || (await succeeds(remove(maps)))) return;
    for (const map of maps) await succeeds(remove([map]));
  }

  async #startHolder(subnet: Subnet, { slot, ports, isAsleep }: Entry): Promise<void> {
    const { program, users } = this.#options;
    if (ports.length === 0) throw new AppError('internal', 'no ports to publish');
    const record = this.#recordOf(slot.namespace);
    const mode = isAsleep ? 'hold' : 'open';
    const addresses = { guestIp: slot.guestIp, source: subnet.hostAddress };
    await startHolder({ program, record, users, ...addresses, ports, mode });
  }

  async #end(namespace: string): Promise<void> {
    const { dir, users } = this.#options;
    await endHolders(this.#recordOf(namespace), users);
    // Fails while the directory contains records of other sandboxes.
    await rmdir(dir).catch(() => undefined);
  }

  #recordOf(namespace: string): string {
    return join(this.#options.dir, basename(namespace));
  }
}

/** False if an entry belongs to another sandbox or is already gone. */
async function succeeds(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (isAppError(error) && /File exists|No such file/.test(error.message)) return false;
    throw error;
  }
}

/** Maps cover IPv4 connections from outside. The holder process forwards all others. */
function toMaps({ slot: { guestIp }, ports }: Entry): PortMap[] {
  return ports.flatMap(({ hostIp, hostPort, guestPort }) => {
    if (hostIp !== undefined && (isIPv6(hostIp) || hostIp.startsWith('127.'))) return [];
    return [{ hostIp: hostIp === '0.0.0.0' ? undefined : hostIp, hostPort, guestIp, guestPort }];
  });
}

// Default range of ports that may be published: neither well-known ports nor the host's ephemeral ports.
const RANGE_FILE = '/proc/sys/net/ipv4/ip_local_port_range';
/** Linux's default for ip_local_port_range. */
const USUAL_RANGE = [32_768, 60_999] as const;
const FIRST = 1024;

/** Ranges in the notation of policies. `file` is for tests. */
export function findOrdinaryPorts(file = RANGE_FILE): string[] {
  const [first, last] = readRange(file);
  return [
    ...(first > FIRST ? [`${FIRST}-${first - 1}`] : []),
    ...(last < MAX_PORT ? [`${Math.max(FIRST, last + 1)}-${MAX_PORT}`] : []),
  ];
}

function readRange(file: string): readonly [number, number] {
  try {
    const [, first, last] = /^(\d+)\s+(\d+)\s*$/.exec(readFileSync(file, 'utf8')) ?? [];
    if (first !== undefined && last !== undefined) return [Number(first), Number(last)];
  } catch {
    // The file cannot be read: use the default.
  }
  return USUAL_RANGE;
}

// Connections from outside to a guest, from the host's conntrack table.
const TABLE = '/proc/net/nf_conntrack';

/**
 * Whether a connection to a published port of the guest is established. False if the kernel does not provide the table.
 */
export async function hasOpenConnection(guestIp: string, table = TABLE): Promise<boolean> {
  const text = await readFile(table, 'latin1').catch(() => '');
  // The second `src` of a conntrack entry is the peer that replies: this leaves out connections that the guest opened.
  const answered = new RegExp(`src=\\S+ .* src=${guestIp.replaceAll('.', '\\.')} `);
  return text.split('\n').some((line) => line.includes(' ESTABLISHED ') && answered.test(line));
}
