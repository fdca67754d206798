// Which slots of the address range are taken. A slot is freed in two steps: its addresses stay taken from when nothing
// of it exists any more until the registry does not have it either.
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { AppError } from '../lib/errors.ts';
import { linkOf, type NetworkSlot, type Subnet } from './subnet.ts';

export class Slots {
  /** Of namespaces, each a file with the name of its link. */
  readonly #dir: string;
  /** By the names of their links. */
  readonly #taken = new Map<string, NetworkSlot>();
  /** Links of those of which nothing exists any more. */
  readonly #cleared = new Set<string>();
  #next: number | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  get used(): number {
    return this.#taken.size;
  }

  get links(): Iterable<string> {
    return this.#taken.keys();
  }

  /** AppError exhausted. */
  allocate(subnet: Subnet): NetworkSlot {
    for (let tries = 0; tries < subnet.slots; tries++) {
      // Slots are allocated in turn, so late packets for the previous owner of an address do not reach the next one
      // soon.
      this.#next = ((this.#next ?? randomInt(subnet.slots)) + 1) % subnet.slots;
      const number = this.#next;
      const link = subnet.link(number);
      if (!subnet.isForSandboxes(number) || this.#taken.has(link)) continue;
      const slot = { namespace: join(this.#dir, link), ...subnet.addresses(number) };
      this.#taken.set(link, slot);
      return slot;
    }
    throw new AppError('exhausted', `all ${subnet.slots - 2} networks of ${subnet} are taken`);
  }

  /** The same addresses in this directory. */
  placed(slot: NetworkSlot): NetworkSlot {
    return { ...slot, namespace: join(this.#dir, linkOf(slot)) };
  }

  /** AppError internal if another sandbox has it. */
  adopt(slot: NetworkSlot): void {
    const link = linkOf(slot);
    const holder = this.#taken.get(link);
    if (holder !== undefined && holder !== slot)
      throw new AppError('internal', `the network ${link} belongs to another sandbox`);
    this.#taken.set(link, slot);
  }

  /** Something of it exists from now on. */
  made(slot: NetworkSlot): void {
    this.#cleared.delete(linkOf(slot));
  }

  /** Nothing of it exists any more. */
  cleared(slot: NetworkSlot): void {
    this.#cleared.add(linkOf(slot));
  }

  /** Only of one that was cleared. */
  free(slot: NetworkSlot): void {
    if (this.#cleared.delete(linkOf(slot))) this.#taken.delete(linkOf(slot));
  }
}
