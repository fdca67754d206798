// What one guest may reach now: its policy, the names that it resolved, and the addresses that are open for them. A
// changed policy holds, and what it does not allow is closed, before the change resolves.
import { AppError } from '../lib/errors.ts';
import { parseIpv4 } from '../lib/ipv4.ts';
import { AllowedAddresses, type Opening, readElements, readSetNames } from './allowed-addresses.ts';
import { type Flow, type Flows, isLive, trafficOf } from './flows.ts';
import { EgressPolicy, type SetOwner } from './policy.ts';
import type { AllowedNames } from './resolver/client.ts';
import { firstPolicyRules, policyRules, shutRules } from './rules/guest.ts';
import { type Element, GUEST_TABLE, maxOpen, setNames } from './rules/table.ts';

export type EgressOptions = {
  readonly policy: EgressPolicy;
  /** Runs nftables commands in the guest's namespace. */
  readonly nft: (commands: string) => Promise<string>;
  readonly flows: Flows;
  readonly gateway: string;
  /** The range of all sandboxes. */
  readonly subnet: string;
  readonly resolver: { readonly resolverIp: string; readonly resolverPort: number; readonly guestIp: string };
  /** Gets connections that a changed policy ended. */
  readonly onClosed: (flow: Flow) => void;
};

/** Pairs of an address and a name that led to it are remembered. A guest decides how many there could be. */
const MAX_KNOWN = 16_384;
/** Names of one address. */
const MAX_NAMES = 64;
/** Elements that a change keeps open; the command that does it has a limit. */
const MAX_KEPT = 16_384;
/** The sets where the policy has an address. */
type Owners = ReadonlyMap<string, ReadonlySet<SetOwner>>;

/** A packet that is on its way during a change may leave something behind, which the next round finds. */
const MAX_ROUNDS = 5;

export class Egress implements AllowedNames {
  readonly #options: EgressOptions;
  readonly #addresses: AllowedAddresses;
  #policy: EgressPolicy;
  /** The names that led to an address, and until when. They stay known while connections may last. */
  readonly #known = new Map<string, Map<string, number>>();
  /** Pairs in it. */
  #knownPairs = 0;
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

  get gateway(): string {
    return this.#options.gateway;
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

  /** In a new namespace, whose rules open nothing. */
  async begin(): Promise<void> {
    const { nft, subnet } = this.#options;
    const { classes, isInternet, boundPorts } = this.#policy;
    if (classes.length > 0 || isInternet || boundPorts !== '')
      await nft(firstPolicyRules({ subnet, ...this.#opened() }));
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
   * of this object. If it rejects, what holds is not known.
   */
  change(policy: EgressPolicy, before: EgressPolicy | 'unknown' = this.#policy): Promise<number> {
    const change = async (): Promise<number> => {
      await Promise.allSettled(this.#openings);
      this.#policy = policy;
      const known = this.#isSettled && before !== 'unknown' ? before : undefined;
      this.#isSettled = false;
      const closed = await this.#enforce(policy, known);
      this.#isSettled = true;
      return closed;
    };
    const done = this.#changing.then(change, change);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  /** After a change that failed: nothing passes, and no name is resolved, until the next one. */
  shut(): Promise<void> {
    const shut = async (): Promise<void> => {
      this.#policy = new EgressPolicy({ allowlist: [] });
      this.#isSettled = false;
      await this.#options.nft(shutRules());
    };
    const done = this.#changing.then(shut, shut);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  async #enforce(policy: EgressPolicy, before: EgressPolicy | undefined): Promise<number> {
    const isWider = before !== undefined && policy.includes(before);
    const byName = this.#findOwners();
    const closed: Flow[] = [];
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const listed = await this.#list();
      const present = readElements(listed);
      const allowed = present.filter((element) => this.#isAllowed(element, byName, before));
      // One that only expires is not stale: a guest decides when its addresses expire.
      const isStale = allowed.length < present.length;
      if (round === 0 || isStale) await this.#apply(this.#select(allowed), readSetNames(listed));
      if (isWider) return 0;
      const owners = this.#addOwners(byName, allowed);
      const denied = (await this.#options.flows.list()).filter((flow) => !this.#passes(flow, owners, before));
      if (denied.length > 0) await this.#options.flows.drop(denied);
      closed.push(...denied);
      for (const flow of denied.filter(isLive)) this.#options.onClosed(flow);
      if (round > 0 && !isStale && denied.length === 0) {
        const live = closed.filter(isLive);
        // Last, because the kernel takes long to end it.
        await this.#options.flows.tell(live);
        return live.length;
      }
    }
    throw new AppError(
      'internal',
      'connections that the network’s policy does not allow come again and again',
    );
  }

  #list(): Promise<string> {
    return this.#options.nft(`list table ${GUEST_TABLE}`);
  }

  #opened() {
    const { classes, isInternet, boundPorts, allowlist } = this.#policy;
    return { classes, isInternet, boundPorts, hasAllowlist: allowlist.length > 0 };
  }

  async #apply(kept: readonly Element[], present: readonly string[]): Promise<void> {
    const { nft, resolver, gateway, subnet } = this.#options;
    const opened = this.#opened();
    const named = opened.classes.filter(({ patterns }) => patterns.length > 0);
    const needed = new Set(named.flatMap(({ set }) => setNames(set)));
    const unused = present.filter((set) => /^(?:open|used)_/.test(set) && !needed.has(set));
    await nft(policyRules({ ...resolver, ...opened, gateway, subnet, elements: kept, unused }));
    this.#addresses.reset(kept.filter(({ set }) => !set.startsWith('used')));
  }

  /** Of all addresses whose names are known. */
  #findOwners(): Owners {
    const byName = new Map<string, readonly SetOwner[]>();
    const ownersOf = (name: string): readonly SetOwner[] => {
      const owners = byName.get(name) ?? this.#policy.setsOf(name);
      byName.set(name, owners);
      return owners;
    };
    const toOwners = (names: Iterable<string>) => new Set([...names].flatMap(ownersOf));
    return new Map([...this.#known].map(([address, names]) => [address, toOwners(names.keys())]));
  }

  /** What the kernel lets begin has to pass, or the guest could begin it again and again. */
  #addOwners(byName: Owners, allowed: readonly Element[]): Owners {
    const owners = new Map(byName);
    for (const { set, address } of allowed)
      owners.set(address, new Set([...(owners.get(address) ?? []), ownerOf(set)]));
    return owners;
  }

  #isAllowed({ set, address }: Element, byName: Owners, before: EgressPolicy | undefined): boolean {
    const owner = ownerOf(set);
    const owners = byName.get(address);
    if (owners !== undefined) return owners.has(owner);
    return before !== undefined && hasAllOf(this.#policy, before, owner);
  }

  /** What stays open of what is, and what names that are known open now: at most as much as the sets hold. */
  #select(allowed: readonly Element[]): Element[] {
    const bySet = new Map<string, Map<string, Element>>();
    const elementsOf = (set: string): Map<string, Element> => {
      const elements = bySet.get(set) ?? new Map<string, Element>();
      bySet.set(set, elements);
      return elements;
    };
    const now = Date.now();
    for (const [address, names] of this.#known)
      for (const [name, until] of names)
        if (until > now)
          for (const owner of this.#policy.setsOf(name)) {
            const [set] = setNames(owner);
            const elements = elementsOf(set);
            const ttlS = Math.max(Math.ceil((until - now) / 1000), elements.get(address)?.ttlS ?? 0);
            elements.set(address, { set, address, ttlS });
          }
    for (const element of allowed) {
      const elements = elementsOf(element.set);
      if (element.ttlS > 0 && !elements.has(element.address)) elements.set(element.address, element);
    }
    const kept = [...bySet].flatMap(([set, elements]) => [...elements.values()].slice(-maxOpen(set)));
    return kept.slice(-MAX_KEPT);
  }

  #passes(flow: Flow, owners: Owners, before: EgressPolicy | undefined): boolean {
    const traffic = trafficOf(flow);
    if (flow.address === this.#options.gateway) return true;
    if (traffic === undefined) return false;
    const address = parseIpv4(flow.address) ?? 0;
    if (this.#policy.passes(address, traffic, owners.get(flow.address))) return true;
    if (this.#known.has(flow.address) || before === undefined) return false;
    if (before.passes(address, traffic, undefined)) return false;
    // An earlier daemon opened it, for one of the names of these sets.
    const sets = before.setsFor(traffic);
    return sets.length > 0 && sets.every((set) => hasAllOf(this.#policy, before, set));
  }

  #remember(openings: readonly Opening[], name: string): void {
    for (const { address, ttlS } of openings) {
      const names = this.#known.get(address) ?? new Map<string, number>();
      // The last in the order of insertion is what was resolved last.
      this.#known.delete(address);
      this.#known.set(address, names);
      this.#knownPairs -= names.size;
      names.set(name, Math.max(names.get(name) ?? 0, Date.now() + ttlS * 1000));
      const [first] = names.keys();
      if (names.size > MAX_NAMES && first !== undefined) names.delete(first);
      this.#knownPairs += names.size;
    }
    for (const [address, names] of this.#known) {
      if (this.#knownPairs <= MAX_KNOWN) break;
      this.#known.delete(address);
      this.#knownPairs -= names.size;
    }
  }
}

/** Of a set of addresses. */
function ownerOf(set: string): SetOwner {
  return /^(?:open|used)_(.*)$/.exec(set)?.[1];
}

/** Whether there were names that had their addresses in a set, and all of them still have them there. */
function hasAllOf(policy: EgressPolicy, before: EgressPolicy, set: SetOwner): boolean {
  const patterns = (of: EgressPolicy): readonly string[] =>
    set === undefined ? of.allowlist : (of.classes.find((each) => each.set === set)?.patterns ?? []);
  const now = new Set(patterns(policy));
  const was = patterns(before);
  return was.length > 0 && was.every((pattern) => now.has(pattern));
}
