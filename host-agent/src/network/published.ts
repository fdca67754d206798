// The published ports of all sandboxes. A holder process keeps each port, and nftables maps forward IPv4 connections to
// the guest.
import { readdir, rmdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AppError, isAppError } from '../lib/errors.ts';
import { controlOf, endHeld, isControl, isHeld, type Users } from './held-process.ts';
import { PortControl, type PortMode } from './port-control.ts';
import { indexesOf, type PublishedPort, readHeldPorts, startHolder } from './port-holder.ts';
import { asleepRules, closePort, openPorts } from './rules/guest.ts';
import { addPorts, type PortMap, removePorts, replacePorts, toMaps } from './rules/host.ts';
import { type NetworkSlot, runDirOf, type Subnet } from './subnet.ts';

export type PublishedOptions = {
  /** Path of the holder program. */
  readonly program: string;
  /** Contains the directory of the holders' process records, private to the daemon; created and removed as needed. */
  readonly runDir: string;
  /** User ids of the holders. */
  readonly users: Users;
  /** Runs nftables commands in a namespace; `-` is the host's namespace. */
  readonly change: (namespace: string, commands: string) => Promise<unknown>;
  /** Ends the connections from outside to the guest, of one map or all. The maps are removed by then. */
  readonly cut: (slot: NetworkSlot, map?: PortMap) => Promise<unknown>;
};

/** The published ports of one sandbox. */
type Entry = {
  readonly slot: NetworkSlot;
  /** Each addition of ports has a holder of its own. */
  holders: Holder[];
  /** Its guest sleeps: the holders get all new connections. */
  isAsleep: boolean;
  onHeld: () => void;
  /** Changes are made one at a time. */
  last: Promise<unknown>;
};

type Holder = {
  /** Path of its process record. */
  readonly record: string;
  /** What it was started with. */
  readonly started: readonly PublishedPort[];
  /** What it has not closed since. */
  ports: readonly PublishedPort[];
  control?: PortControl | undefined;
};

export class Published {
  readonly #options: PublishedOptions;
  /** By the slot's namespace. */
  readonly #ports = new Map<string, Entry>();

  constructor(options: PublishedOptions) {
    this.#options = options;
  }

  /**
   * Also to the ports that a guest has. `isAsleep`: as after `setMode('hold')`. AppError conflict for a port in use,
   * invalid_argument for an address that this host does not have.
   */
  add(subnet: Subnet, slot: NetworkSlot, ports: readonly PublishedPort[], isAsleep: boolean): Promise<void> {
    const entry = this.#enter(slot, isAsleep);
    return this.#inTurn(entry, async () => {
      await this.#hold(subnet, entry, ports);
      const maps = toMaps(slot, ports);
      if (maps.length > 0 && !entry.isAsleep) await this.#options.change('-', addPorts(subnet.table, maps));
    });
  }

  async #hold(subnet: Subnet, entry: Entry, ports: readonly PublishedPort[]): Promise<void> {
    const holder = { record: this.#freeRecord(entry), started: ports, ports };
    await this.#startHolder(subnet, entry, holder);
    entry.holders.push(holder);
    const { namespace } = entry.slot;
    await this.#options.change(namespace, openPorts(ports.map(({ guestPort }) => guestPort)));
  }

  /** Resolves when the port is free, and its connections are ended. Idempotent. */
  async close(subnet: Subnet, slot: NetworkSlot, port: PublishedPort): Promise<void> {
    const entry = this.#ports.get(slot.namespace);
    if (entry !== undefined) await this.#inTurn(entry, () => this.#close(subnet, entry, port));
  }

  async #close(subnet: Subnet, entry: Entry, port: PublishedPort): Promise<void> {
    const { change, cut } = this.#options;
    const { slot } = entry;
    const holder = entry.holders.find(({ ports }) => ports.some((each) => isSamePort(each, port)));
    const maps = toMaps(slot, [port]);
    if (!entry.isAsleep) await this.#removeMaps(subnet, maps);
    if (holder !== undefined) await this.#closeHeld(subnet, entry, holder, port);
    const isReached = portsOf(entry).some(({ guestPort }) => guestPort === port.guestPort);
    if (!isReached) await change(slot.namespace, closePort(port.guestPort));
    for (const map of maps) await cut(slot, map);
  }

  async #closeHeld(subnet: Subnet, entry: Entry, holder: Holder, port: PublishedPort): Promise<void> {
    const rest = holder.ports.filter((each) => !isSamePort(each, port));
    try {
      const control = await this.#controlOf(entry, holder);
      // Also before it ends, because a killed process only closes its connections.
      for (const index of indexesOf(holder.started, port)) await control.closePort(index);
      if (!entry.isAsleep) this.#endControl(holder);
      holder.ports = rest;
      if (rest.length > 0) return;
    } catch {
      // It has ended, or speaks another protocol: another one gets the rest.
    }
    this.#endControl(holder);
    await this.#end(holder.record);
    entry.holders = entry.holders.filter((each) => each !== holder);
    if (rest.length === 0) return;
    const next = { record: holder.record, started: rest, ports: rest };
    await this.#startHolder(subnet, entry, next);
    entry.holders.push(next);
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
    const entry = this.#enter(slot, isAsleep);
    for (const record of await this.#recordsOf(slot)) {
      if (!isHeld(record)) {
        await this.#end(record);
        continue;
      }
      const started = readHeldPorts(record) ?? ports;
      entry.holders.push({ record, started, ports: started });
    }
    // The earlier daemon may have been killed in the middle of a change.
    for (const port of portsOf(entry))
      if (!ports.some((each) => isSamePort(each, port))) await this.close(subnet, slot, port);
    const held = portsOf(entry);
    const lost = ports.filter((port) => !held.some((each) => isSamePort(each, port)));
    // Their maps are made by `tidy`.
    if (lost.length > 0) await this.#inTurn(entry, () => this.#hold(subnet, entry, lost));
    if (!isAsleep && held.length > 0) await this.setMode(subnet, slot, 'open').catch(() => undefined);
  }

  /**
   * `hold` and `refuse` are for a guest that sleeps: its holders get all new connections. Connections that exist stay
   * until their client sends data in `refuse`. `onHeld` is called once, for the first connection or the first
   * data. Rejects if a holder has ended, or speaks another protocol.
   */
  setMode(subnet: Subnet, slot: NetworkSlot, mode: PortMode, onHeld?: () => void): Promise<void> {
    const entry = this.#ports.get(slot.namespace);
    if (entry === undefined) return Promise.resolve();
    if (onHeld !== undefined) entry.onHeld = onHeld;
    return this.#inTurn(entry, () => this.#setMode(subnet, entry, mode));
  }

  /** Resets all connections; call it after `hold`, whose later ones stay. Rejects if a holder has ended. */
  async endConnections(slot: NetworkSlot): Promise<void> {
    const entry = this.#ports.get(slot.namespace);
    if (entry !== undefined) await this.#inTurn(entry, () => this.#endConnections(entry));
  }

  async #endConnections(entry: Entry): Promise<void> {
    await this.#options.cut(entry.slot);
    for (const holder of entry.holders) {
      try {
        await (await this.#controlOf(entry, holder)).endAll();
      } catch (error) {
        // The next change of the mode replaces it, which ends its connections.
        holder.control = undefined;
        throw error;
      }
    }
  }

  /** A rule has logged a packet for the guest. */
  received(guestIp: string): void {
    for (const { slot, holders } of this.#ports.values())
      if (slot.guestIp === guestIp) holders.find(({ control }) => control !== undefined)?.control?.knock();
  }

  async #setMode(subnet: Subnet, entry: Entry, mode: PortMode): Promise<void> {
    const { change } = this.#options;
    const maps = toMaps(entry.slot, portsOf(entry));
    for (const holder of entry.holders) await this.#setHolderMode(subnet, entry, holder, mode);
    if (mode !== 'open') {
      if (!entry.isAsleep) await this.#removeMaps(subnet, maps);
      entry.isAsleep = true;
      await change(entry.slot.namespace, asleepRules(mode));
      return;
    }
    for (const holder of entry.holders) this.#endControl(holder);
    if (maps.length > 0 && entry.isAsleep)
      await change('-', `${removePorts(subnet.table, maps)}\n${addPorts(subnet.table, maps)}`);
    entry.isAsleep = false;
    await change(entry.slot.namespace, asleepRules(mode));
  }

  async #setHolderMode(subnet: Subnet, entry: Entry, holder: Holder, mode: PortMode): Promise<void> {
    try {
      await (await this.#controlOf(entry, holder)).set(mode);
    } catch (error) {
      holder.control = undefined;
      if (mode !== 'open') throw error;
      // One that has ended, or does not answer, is replaced.
      await this.#end(holder.record);
      const next = { record: holder.record, started: holder.ports, ports: holder.ports };
      await this.#startHolder(subnet, { ...entry, isAsleep: false }, next);
      entry.holders = entry.holders.map((each) => (each === holder ? next : each));
    }
  }

  async #controlOf(entry: Entry, holder: Holder): Promise<PortControl> {
    holder.control ??= await PortControl.open(controlOf(holder.record), () => entry.onHeld());
    return holder.control;
  }

  #endControl(holder: Holder): void {
    holder.control?.close();
    holder.control = undefined;
  }

  /** Resolves when the ports are free. Idempotent. */
  async remove(subnet: Subnet | undefined, slot: NetworkSlot): Promise<void> {
    const entry = this.#ports.get(slot.namespace);
    await entry?.last;
    for (const holder of entry?.holders ?? []) this.#endControl(holder);
    const maps = entry === undefined ? [] : toMaps(slot, portsOf(entry));
    if (subnet !== undefined) await this.#removeMaps(subnet, maps);
    // Without it they notice when they send next.
    if (maps.length > 0) await this.#options.cut(slot).catch(() => undefined);
    // Also one whose start failed, or that only an earlier daemon knew.
    for (const record of await this.#recordsOf(slot)) await this.#end(record);
    this.#ports.delete(slot.namespace);
  }

  /** Holders stay. */
  detach(): void {
    for (const { holders } of this.#ports.values()) for (const holder of holders) this.#endControl(holder);
  }

  #enter(slot: NetworkSlot, isAsleep: boolean): Entry {
    const known = this.#ports.get(slot.namespace);
    if (known !== undefined) return known;
    const entry = { slot, holders: [], isAsleep, onHeld: () => undefined, last: Promise.resolve() };
    this.#ports.set(slot.namespace, entry);
    return entry;
  }

  #inTurn(entry: Entry, change: () => Promise<void>): Promise<void> {
    const done = entry.last.then(change, change);
    entry.last = done.catch(() => undefined);
    return done;
  }

  /**
   * Garbage collection: ends the holders of slots that no sandbox has (`netDir` contains their namespaces), and
   * replaces the port maps by those of the existing guests.
   */
  async tidy(subnet: Subnet, netDir: string): Promise<void> {
    const dir = recordsIn(this.#options.runDir);
    const unused = (await namesIn(dir)).filter((name) => !this.#ports.has(join(netDir, linkOf(name))));
    const failures: unknown[] = [];
    // In parallel: a process that does not end delays the others otherwise.
    await Promise.all(
      unused.map((name) => this.#end(join(dir, name)).catch((error) => failures.push(error))),
    );
    const maps = [...this.#ports.values()].flatMap((entry) =>
      entry.isAsleep ? [] : toMaps(entry.slot, portsOf(entry)),
    );
    await succeeds(this.#options.change('-', replacePorts(subnet.table, maps)));
    for (const failure of failures) throw failure;
  }

  /** Removes all maps in one command. It fails if another sandbox owns one by now; then they are removed one by one. */
  async #removeMaps({ table }: Subnet, maps: readonly PortMap[]): Promise<void> {
    const remove = (subset: readonly PortMap[]) => this.#options.change('-', removePorts(table, subset));
    if (maps.length === 0 || (await succeeds(remove(maps)))) return;
    for (const map of maps) await succeeds(remove([map]));
  }

  async #startHolder(subnet: Subnet, { slot, isAsleep }: Entry, { record, ports }: Holder): Promise<void> {
    const { program, users } = this.#options;
    if (ports.length === 0) throw new AppError('internal', 'no ports to publish');
    const mode = isAsleep ? 'hold' : 'open';
    const addresses = { guestIp: slot.guestIp, source: subnet.hostAddress };
    await startHolder({ program, record, users, ...addresses, ports, mode });
  }

  async #end(record: string): Promise<void> {
    await endHeld(record, this.#options.users);
    // Fails while the directory contains records of other sandboxes.
    await rmdir(dirname(record)).catch(() => undefined);
  }

  async #recordsOf(slot: NetworkSlot): Promise<string[]> {
    const dir = recordsIn(runDirOf(slot));
    const names = (await namesIn(dir)).filter((name) => linkOf(name) === basename(slot.namespace));
    return names.map((name) => join(dir, name));
  }

  /** The first has the name of the slot's link. */
  #freeRecord({ slot, holders }: Entry): string {
    const first = join(recordsIn(runDirOf(slot)), basename(slot.namespace));
    const taken = new Set(holders.map(({ record }) => record));
    for (let number = 1; ; number++) {
      const record = number === 1 ? first : `${first}${SEPARATOR}${number}`;
      if (!taken.has(record)) return record;
    }
  }
}

function recordsIn(runDir: string): string {
  return join(runDir, 'ports');
}

/** Names of the records of all sandboxes. */
async function namesIn(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(() => [])).filter((name) => !isControl(name));
}

/** Between the name of a link and a number. */
const SEPARATOR = '+';

function linkOf(record: string): string {
  return record.split(SEPARATOR)[0] ?? '';
}

function portsOf({ holders }: Entry): PublishedPort[] {
  return holders.flatMap(({ ports }) => ports);
}

export function isSamePort(a: PublishedPort, b: PublishedPort): boolean {
  return a.hostIp === b.hostIp && a.hostPort === b.hostPort && a.guestPort === b.guestPort;
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
