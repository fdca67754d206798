// The published ports of all sandboxes: each held by a process, and led to its guest by the host's rules.
import { readdir, rmdir } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { basename, join } from 'node:path';
import { AppError, isAppError } from '../lib/errors.ts';
import { endHolders, isHeld, type PublishedPort, startHolder, type Users } from './port-holder.ts';
import { openPorts } from './rules/guest.ts';
import { addPorts, type PortMap, removePorts, replacePorts } from './rules/host.ts';
import type { NetworkSlot } from './slot.ts';
import type { Subnet } from './subnet.ts';

export type PublishedOptions = {
  /** Path of the program that holds ports. */
  readonly program: string;
  /** For the records of who holds ports; the daemon's alone, made and removed as needed. */
  readonly dir: string;
  /** Of processes that hold ports. */
  readonly users: Users;
  /** Runs nftables commands, in a namespace or in that of the host, `-`. */
  readonly change: (namespace: string, commands: string) => Promise<unknown>;
};

export class Published {
  readonly #options: PublishedOptions;
  /** By the namespace of the slot. */
  readonly #ports = new Map<
    string,
    { readonly slot: NetworkSlot; readonly ports: readonly PublishedPort[] }
  >();

  constructor(options: PublishedOptions) {
    this.#options = options;
  }

  /** AppError conflict for a port that somebody has, invalid_argument for an address that is not the host's. */
  async add(subnet: Subnet, slot: NetworkSlot, ports: readonly PublishedPort[]): Promise<void> {
    const { change } = this.#options;
    this.#ports.set(slot.namespace, { slot, ports });
    await this.#hold(subnet, slot, ports);
    await change(slot.namespace, openPorts(ports.map(({ guestPort }) => guestPort)));
    const maps = toMaps(slot, ports);
    if (maps.length > 0) await change('-', addPorts(subnet.table, maps));
  }

  /** What an earlier daemon published. Rejects where nobody holds the ports any more, and somebody else has one. */
  async adopt(subnet: Subnet, slot: NetworkSlot, ports: readonly PublishedPort[]): Promise<void> {
    this.#ports.set(slot.namespace, { slot, ports });
    if (!isHeld(this.#recordOf(slot.namespace))) await this.#hold(subnet, slot, ports);
  }

  /** They are free when it resolves. Can be called again. */
  async remove(subnet: Subnet | undefined, { namespace }: NetworkSlot): Promise<void> {
    const own = this.#ports.get(namespace);
    if (own === undefined) return;
    if (subnet !== undefined) await this.#mislead(subnet, toMaps(own.slot, own.ports));
    await this.#end(namespace);
    this.#ports.delete(namespace);
  }

  /** Ends what is nobody's, of slots with namespaces in that directory, and leads only to guests that there are. */
  async tidy(subnet: Subnet, netDir: string): Promise<void> {
    const recorded = (await readdir(this.#options.dir).catch(() => [])).map((link) => join(netDir, link));
    const failures: unknown[] = [];
    const strays = recorded.filter((namespace) => !this.#ports.has(namespace));
    // All at once: each that does not end takes its time.
    await Promise.all(strays.map((namespace) => this.#end(namespace).catch((error) => failures.push(error))));
    const maps = [...this.#ports.values()].flatMap(({ slot, ports }) => toMaps(slot, ports));
    await succeeds(this.#options.change('-', replacePorts(subnet.table, maps)));
    for (const failure of failures) throw failure;
  }

  /** All at once, which fails where one is another sandbox's by now: then one by one. */
  async #mislead({ table }: Subnet, maps: readonly PortMap[]): Promise<void> {
    const remove = (some: readonly PortMap[]) => this.#options.change('-', removePorts(table, some));
    if (maps.length === 0 || (await succeeds(remove(maps)))) return;
    for (const map of maps) await succeeds(remove([map]));
  }

  async #hold(
    subnet: Subnet,
    { namespace, guestIp }: NetworkSlot,
    ports: readonly PublishedPort[],
  ): Promise<void> {
    const { program, users } = this.#options;
    if (ports.length === 0) throw new AppError('internal', 'no ports to publish');
    const record = this.#recordOf(namespace);
    await startHolder({ program, record, users, guestIp, source: subnet.hostAddress, ports });
  }

  async #end(namespace: string): Promise<void> {
    const { dir, users } = this.#options;
    await endHolders(this.#recordOf(namespace), users);
    // Those of other sandboxes may be in it.
    await rmdir(dir).catch(() => undefined);
  }

  #recordOf(namespace: string): string {
    return join(this.#options.dir, basename(namespace));
  }
}

/** False where what was to be changed is another's, or not there any more. */
async function succeeds(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (isAppError(error) && /File exists|No such file/.test(error.message)) return false;
    throw error;
  }
}

/** What comes from outside by IPv4. The rest is passed on by the process that holds the port. */
function toMaps({ guestIp }: NetworkSlot, ports: readonly PublishedPort[]): PortMap[] {
  return ports.flatMap(({ hostIp, hostPort, guestPort }) => {
    if (hostIp !== undefined && (isIPv6(hostIp) || hostIp.startsWith('127.'))) return [];
    return [{ hostIp: hostIp === '0.0.0.0' ? undefined : hostIp, hostPort, guestIp, guestPort }];
  });
}
