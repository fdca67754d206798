// Networks of sandboxes that exist only as records: each call is recorded, and fails where a test asks for it.
import { basename, join } from 'node:path';
import type { EgressRecord, NetworkPolicy, NetworkSlot } from '../../../host-agent/src/network/index.ts';
import type { SandboxNetworks } from '../../../host-agent/src/sandboxes/resources/resource.ts';

export class RecordingNetwork implements SandboxNetworks {
  readonly calls: string[] = [];
  fails = '';
  /** Called before the call takes effect. */
  onCall: (call: string, slot?: NetworkSlot) => void = () => undefined;
  deny: (text: string) => void = () => undefined;
  /** Of the guest that was started last. */
  report: (record: EgressRecord) => void = () => undefined;
  #allocated = 0;
  /** Taps of slots that are allocated. */
  readonly #taken = new Set<string>();

  #call(call: string, slot?: NetworkSlot): void {
    const all = slot === undefined ? call : `${call} ${slot.tap}`;
    this.calls.push(all);
    this.onCall(call, slot);
    if (this.fails !== '' && all.startsWith(this.fails)) throw new Error(`cannot ${this.fails}`);
  }

  async tidy() {
    this.#call('tidy');
  }

  async allocate(): Promise<NetworkSlot> {
    this.#call('allocate');
    let at = ++this.#allocated;
    while (this.#taken.has(`tap${at}`)) at = ++this.#allocated;
    this.#taken.add(`tap${at}`);
    const addresses = { mac: '02', gatewayMac: '01', guestIp: `10.0.${at}.2`, gateway: `10.0.${at}.1` };
    return {
      namespace: `/ns/${at}`,
      tap: `tap${at}`,
      ...addresses,
      resolverIp: `10.0.${at}.3`,
      prefixLength: 30,
    };
  }

  async create(slot: NetworkSlot) {
    this.#call('create', slot);
  }

  /** The namespaces that were lost. */
  readonly lost = new Set<string>();
  /** Where a network is made again. */
  place = '/ns';

  async exists({ namespace }: NetworkSlot) {
    return !this.lost.has(namespace);
  }

  placed(slot: NetworkSlot) {
    return { ...slot, namespace: join(this.place, basename(slot.namespace)) };
  }

  async createAgain(slot: NetworkSlot) {
    this.#call('create again', slot);
    this.lost.delete(slot.namespace);
  }

  async publish(slot: NetworkSlot, ports: readonly { readonly hostPort: number }[], isAsleep = false) {
    this.#call(`publish [${ports.map(({ hostPort }) => hostPort)}]${isAsleep ? ' asleep' : ''}`, slot);
  }

  async unpublish(slot: NetworkSlot, { hostPort }: { readonly hostPort: number }) {
    this.#call(`unpublish ${hostPort}`, slot);
  }

  async start(
    slot: NetworkSlot,
    options: NetworkPolicy & {
      before?: NetworkPolicy | 'unknown' | undefined;
      wasServed: boolean;
      onDenied: (text: string) => void;
      onEgress: (record: EgressRecord) => void;
    },
  ) {
    this.deny = options.onDenied;
    this.report = options.onEgress;
    this.#call(`start [${options.allowlist}] ${options.wasServed ? 'again' : 'first'}`, slot);
    const { before } = options;
    if (before === undefined) return;
    this.calls.push(`${this.calls.pop()} before ${before === 'unknown' ? before : `[${before.allowlist}]`}`);
  }

  adopt(slot: NetworkSlot) {
    this.#call('adopt', slot);
    this.#taken.add(slot.tap);
  }

  async adoptPorts(slot: NetworkSlot, ports: readonly { readonly hostPort: number }[], isAsleep: boolean) {
    this.#call(`adopt ports [${ports.map(({ hostPort }) => hostPort)}]${isAsleep ? ' asleep' : ''}`, slot);
  }

  /** A client connects to a published port of the slot while its guest sleeps. */
  readonly knock = new Map<string, () => void>();

  async setPorts(slot: NetworkSlot, mode: string, onHeld?: () => void) {
    this.#call(`ports ${mode}`, slot);
    if (onHeld !== undefined) this.knock.set(slot.namespace, onHeld);
  }

  async endConnections(slot: NetworkSlot) {
    this.#call('end connections', slot);
  }

  /** What the network tracks of the guest. */
  tracked = Buffer.alloc(0);

  async connections(slot: NetworkSlot) {
    if (this.fails === 'connections') this.#call('connections', slot);
    return { address: Uint8Array.from([10, 0, 0, 2]), tracked: this.tracked };
  }

  /** What a change closes. */
  closes = 0;

  async changeSecrets(slot: NetworkSlot) {
    this.#call('change secrets', slot);
  }

  async change(slot: NetworkSlot, { allowlist, rules = [], presets = [] }: NetworkPolicy) {
    const words = [
      allowlist,
      rules.map((each) => ('host' in each ? each.host : each.cidr)),
      presets.map(({ name }) => name),
    ];
    this.#call(`change ${words.map((each) => `[${each}]`).join(' ')}`, slot);
    await this.onChange();
    return this.closes;
  }

  async shut(slot: NetworkSlot) {
    this.#call('shut', slot);
    await this.onShut();
  }

  onShut: () => Promise<void> = async () => undefined;
  onChange: () => Promise<void> = async () => undefined;

  isServed() {
    return true;
  }

  namesOf(): readonly string[] {
    return [];
  }

  async stop(slot: NetworkSlot) {
    this.#call('stop', slot);
  }

  async destroy(slot: NetworkSlot) {
    await this.clear(slot);
    this.free(slot);
  }

  async clear(slot: NetworkSlot) {
    this.#call('clear', slot);
    this.lost.add(slot.namespace);
  }

  free(slot: NetworkSlot) {
    this.#call('free', slot);
    this.#taken.delete(slot.tap);
  }
}
