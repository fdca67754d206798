// What serves the network of one guest while a daemon runs: its policy, its names, and reports of what it reaches.
import type { Logger } from 'pino';
import type { Ipv4Range } from '../lib/ipv4.ts';
import { everyOne } from '../lib/wait.ts';
import { DenialLog } from './denial-log.ts';
import type { Dialler } from './dialler.ts';
import type { Diallers } from './diallers.ts';
import { Egress } from './egress.ts';
import { EgressReports } from './egress-reports.ts';
import { Flows } from './flows.ts';
import type { NetHelper } from './helper.ts';
import type { ServeOptions } from './network-options.ts';
import type { NetworkPolicy } from './network-policy.ts';
import { EgressPolicy } from './policy.ts';
import { ResolverClient } from './resolver/client.ts';
import { RESOLVER_PORT, Resolver } from './resolver/resolver.ts';
import type { Upstream } from './resolver/upstream.ts';
import type { NetworkSlot, Subnet } from './subnet.ts';

type ServedGuestDeps = {
  readonly subnet: Subnet;
  readonly upstream: Upstream;
  readonly allowedRanges: readonly Ipv4Range[];
  /** For requests that a guest waits for, and for those that take the kernel long. */
  readonly quick: NetHelper;
  readonly slow: NetHelper;
  readonly diallers: Diallers;
  readonly log: Logger;
};

export class ServedGuest {
  readonly reports: EgressReports;
  readonly onMissed: (count: number) => void;
  readonly #slot: NetworkSlot;
  /** How it begins. */
  readonly #first: Pick<ServeOptions, 'wasServed' | 'before' | 'generation'>;
  readonly #deps: ServedGuestDeps;
  readonly #flows: Flows;
  readonly #egress: Egress;
  readonly #dialler: Dialler;
  readonly #client: ResolverClient;
  #resolver: Resolver | undefined;

  /** Changes nothing. */
  constructor(slot: NetworkSlot, options: ServeOptions, deps: ServedGuestDeps) {
    this.#slot = slot;
    this.#deps = deps;
    const { wasServed, before, onDenied, onEgress, onMissed, generation, authority, secrets, ...policy } =
      options;
    this.#first = { wasServed, before, generation };
    this.onMissed = (count) => onMissed?.(count);
    const { subnet, upstream, allowedRanges, quick, slow, diallers, log } = deps;
    const { namespace, guestIp, resolverIp, gateway } = slot;
    const nft = (commands: string) => quick.request(['rules', namespace], commands);
    const denials = new DenialLog(onDenied);
    this.#flows = new Flows(slow, slot);
    this.#egress = new Egress({
      policy: new EgressPolicy(policy),
      nft,
      flows: this.#flows,
      ...{ gateway, subnet: String(subnet) },
      resolver: { resolverIp, resolverPort: RESOLVER_PORT, guestIp },
      onClosed: (flow) => this.reports.closed(flow),
    });
    this.#dialler = diallers.open(slot, generation, {
      nft,
      egress: this.#egress,
      resolve: (name) => this.#client.addressesOf(name),
      authority: async () => authority?.(),
      ...{ denials, secrets, onConnection: onEgress, onMissed: this.onMissed },
    });
    this.reports = new EgressReports(this.#egress, denials, onEgress);
    this.#client = new ResolverClient({
      names: this.#egress,
      upstream,
      addresses: { allowed: allowedRanges, subnet: subnet.range },
      open: async (addresses, name) => {
        await this.reports.open(addresses, name);
        this.#dialler.learn(addresses, name);
      },
      onDenied: (name, reason) => this.reports.deniedName(name, reason),
      onFailed: (name, error, step) => {
        const level = denials.failure(name, step) && step === 'open' ? 'warn' : 'debug';
        log[level]({ err: error, guestIp, name }, 'cannot resolve a name for a sandbox');
      },
    });
  }

  /** Names are resolved for the guest from now on. */
  async begin(): Promise<void> {
    const { wasServed, before, generation } = this.#first;
    const { namespace, guestIp, resolverIp } = this.#slot;
    const egress = this.#egress;
    if (!wasServed) await egress.begin();
    else if (before === undefined) await egress.restore();
    else await egress.change(egress.policy, before === 'unknown' ? before : new EgressPolicy(before));
    await this.#deps.quick.watch(namespace, guestIp);
    await (before === undefined ? this.#dialler.begin() : this.#dialler.change(generation));
    // One resolver per sandbox: a full socket queue of one guest does not delay the others.
    const at = { host: resolverIp, port: RESOLVER_PORT };
    const client = { address: guestIp, client: this.#client };
    this.#resolver = await Resolver.open(at, client, this.#deps.log);
  }

  get isServed(): boolean {
    return this.#resolver !== undefined;
  }

  /** As `Network.change`. */
  async change(policy: NetworkPolicy, generation?: number): Promise<number> {
    const closed = await this.#egress.change(new EgressPolicy(policy));
    return closed + (await this.#dialler.change(generation));
  }

  changeSecrets(): Promise<void> {
    return this.#dialler.changeSecrets();
  }

  async shut(): Promise<void> {
    await everyOne([this.#egress.shut(), this.#dialler.shut()]);
  }

  namesOf(address: string): readonly string[] {
    return this.#egress.namesOf(address);
  }

  /** Ends the resolver; the network stays as it is. */
  async detach(): Promise<void> {
    await this.#resolver?.close();
  }

  async stop(): Promise<void> {
    await this.detach();
    this.#resolver = undefined;
    this.#flows.stop();
  }
}
