// What one guest may reach now: its policy, the names that it resolved, and the addresses that are open for them. A
// changed policy holds, and what it does not allow is closed, before the change resolves.
import { AppError } from '../lib/errors.ts';
import { parseIpv4 } from '../lib/ipv4.ts';
import { AllowedAddresses, type Opening, readElements, readSetNames } from './allowed-addresses.ts';
import { type Flow, type Flows, isLive, trafficOf } from './flows.ts';
import type { EgressPolicy } from './policy.ts';
import type { AllowedNames } from './resolver/client.ts';
import { type Element, GUEST_TABLE, policyRules, setNames } from './rules/guest.ts';

export type EgressOptions = {
  readonly policy: EgressPolicy;
  /** Runs nftables commands in the guest's namespace. */
  readonly nft: (commands: string) => Promise<string>;
  readonly flows: Flows;
  readonly gateway: string;
  readonly resolver: { readonly resolverIp: string; readonly resolverPort: number };
};

/** Names of this many addresses are remembered. */
const MAX_KNOWN = 16_384;
/** Elements that a change keeps open; the command that does it has a limit. */
const MAX_KEPT = 16_384;
/** A packet that is on its way during a change may leave something behind, which the next round finds. */
const MAX_ROUNDS = 5;

export class Egress implements AllowedNames {
  readonly #options: EgressOptions;
  readonly #addresses: AllowedAddresses;
  #policy: EgressPolicy;
  /** The names that led to an address, and until when. They stay known while connections may last. */
  readonly #known = new Map<string, Map<string, number>>();
  /** Openings wait for a change, and a change for openings. */
  #changing: Promise<unknown> = Promise.resolve();
  readonly #openings = new Set<Promise<void>>();
  /** A change that failed may have left connections of any earlier policy. */
  #isSettled = true;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#policy = options.policy;
    this.#addresses = new AllowedAddresses(options.nft);
  }

  get policy(): EgressPolicy {
    return this.#policy;
  }

  allows(name: string): boolean {
    return this.#policy.allows(name);
  }

  isAboveAllowed(name: string): boolean {
    return this.#policy.isAboveAllowed(name);
  }

  /** The names, as far as they are known, that led to the address. */
  namesOf(address: string): string[] {
    return [...(this.#known.get(address)?.keys() ?? [])];
  }

  /** Restores what an earlier daemon opened. Names are not known of it. */
  async restore(): Promise<void> {
    this.#addresses.reset(readElements(await this.#list()));
  }

  /** In a new namespace, which has the rules of an allowlist. */
  async begin(): Promise<void> {
    if (this.#policy.classes.length > 0 || this.#policy.isInternet) await this.#apply([], []);
  }

  /** Lets the guest reach the addresses of a name; resolves when it can. What the policy does not have stays closed. */
  async open(openings: readonly Opening[], name: string): Promise<void> {
    for (let seen: unknown; seen !== this.#changing; ) {
      seen = this.#changing;
      await seen;
    }
    // The policy may have changed since the guest asked.
    if (!this.#policy.allows(name)) throw new AppError('conflict', 'the policy of the network has changed');
    this.#remember(openings, name);
    const sets = this.#policy.setsOf(name).map((set) => setNames(set)[0]);
    if (sets.length === 0) return;
    const opening = this.#addresses.open(openings, sets);
    this.#openings.add(opening);
    await opening.finally(() => this.#openings.delete(opening));
  }

  /**
   * Resolves with the number of connections that were closed. `before`: what held until now, if it is not the policy
   * of this object; undefined: not known. If it rejects, what holds is not known.
   */
  change(policy: EgressPolicy, before: EgressPolicy | undefined = this.#policy): Promise<number> {
    const change = async (): Promise<number> => {
      await Promise.allSettled(this.#openings);
      this.#policy = policy;
      const known = this.#isSettled ? before : undefined;
      this.#isSettled = false;
      const closed = await this.#enforce(policy, known);
      this.#isSettled = true;
      return closed;
    };
    const done = this.#changing.then(change, change);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  async #enforce(policy: EgressPolicy, before: EgressPolicy | undefined): Promise<number> {
    const isWider = before !== undefined && policy.includes(before);
    const closed: Flow[] = [];
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const listed = await this.#list();
      const present = readElements(listed);
      const kept = this.#select(present, before);
      const keys = new Set(kept.map(({ set, address }) => `${set} ${address}`));
      const isStale = present.some(({ set, address }) => !keys.has(`${set} ${address}`));
      if (round === 0 || isStale) await this.#apply(kept, readSetNames(listed));
      if (isWider) return 0;
      const denied = (await this.#options.flows.list()).filter((flow) => !this.#passes(flow, before));
      if (denied.length > 0) await this.#options.flows.close(denied);
      closed.push(...denied);
      if (round > 0 && !isStale && denied.length === 0) return closed.filter(isLive).length;
    }
    throw new AppError(
      'internal',
      'connections that the network’s policy does not allow come again and again',
    );
  }

  #list(): Promise<string> {
    return this.#options.nft(`list table ${GUEST_TABLE}`);
  }

  async #apply(kept: readonly Element[], present: readonly string[]): Promise<void> {
    const { nft, resolver } = this.#options;
    const { classes, isInternet } = this.#policy;
    const named = classes.filter(({ patterns }) => patterns.length > 0);
    const needed = new Set(named.flatMap(({ set }) => setNames(set)));
    const unused = present.filter((set) => /^(?:open|used)_/.test(set) && !needed.has(set));
    await nft(policyRules({ ...resolver, classes, isInternet, elements: kept, unused }));
    this.#addresses.reset(kept.filter(({ set }) => !set.startsWith('used')));
  }

  /** What stays open of what is, and what names that are known open now. */
  #select(present: readonly Element[], before: EgressPolicy | undefined): Element[] {
    const all = [undefined, ...this.#policy.classes.map(({ set }) => set)];
    const kept = new Map<string, Element>();
    const keep = (element: Element) => kept.set(`${element.set} ${element.address}`, element);
    const now = Date.now();
    for (const [address, names] of this.#known)
      for (const [name, until] of names)
        if (until > now)
          for (const set of this.#policy.setsOf(name))
            keep({ set: setNames(set)[0], address, ttlS: Math.ceil((until - now) / 1000) });
    const owners = new Map(all.flatMap((set) => setNames(set).map((name) => [name, set] as const)));
    for (const element of present) {
      const { set, address } = element;
      if (!owners.has(set) || kept.has(`${set} ${address}`)) continue;
      const owner = owners.get(set);
      const names = this.#known.get(address);
      const isAllowed =
        names === undefined
          ? before !== undefined && hasAllOf(this.#policy, before, owner)
          : [...names.keys()].some((name) => this.#policy.setsOf(name).includes(owner));
      if (isAllowed && element.ttlS > 0) keep(element);
    }
    return [...kept.values()].slice(-MAX_KEPT);
  }

  #passes(flow: Flow, before: EgressPolicy | undefined): boolean {
    const traffic = trafficOf(flow);
    if (flow.address === this.#options.gateway) return true;
    if (traffic === undefined) return false;
    const address = parseIpv4(flow.address) ?? 0;
    const names = this.#known.get(flow.address);
    if (this.#policy.passes(address, traffic, names?.keys() ?? [])) return true;
    if (names !== undefined || before === undefined || before.passes(address, traffic, [])) return false;
    // An earlier daemon opened it, for one of the names of these sets.
    return before.setsFor(traffic).every((set) => hasAllOf(this.#policy, before, set));
  }

  #remember(openings: readonly Opening[], name: string): void {
    for (const { address, ttlS } of openings) {
      const names = this.#known.get(address) ?? new Map<string, number>();
      // The last in the order of insertion is what was resolved last.
      this.#known.delete(address);
      this.#known.set(address, names);
      names.set(name, Math.max(names.get(name) ?? 0, Date.now() + ttlS * 1000));
      if (names.size > MAX_NAMES) for (const first of [...names.keys()].slice(0, 1)) names.delete(first);
    }
    while (this.#known.size > MAX_KNOWN)
      for (const first of this.#known.keys()) {
        this.#known.delete(first);
        break;
      }
  }
}

/** Names of one address. */
const MAX_NAMES = 64;

/** Whether all names that had their addresses in a set still have them there. */
function hasAllOf(policy: EgressPolicy, before: EgressPolicy, set: string | undefined): boolean {
  const patterns = (of: EgressPolicy): readonly string[] =>
    set === undefined ? of.allowlist : (of.classes.find((each) => each.set === set)?.patterns ?? []);
  const now = new Set(patterns(policy));
  return patterns(before).every((pattern) => now.has(pattern));
}
