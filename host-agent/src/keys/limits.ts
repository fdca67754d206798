// Whether somebody may make what they ask for: the policy of their key and the quota of their tenant, at once, so that two
// requests at the same time cannot both have the last room.
import type { Policy } from '@sandboxd/api';
import { findPassed, over, type RequestedResources } from './policy.ts';
import { describe, forbidden, mayDo, type Owner, type Principal, toOwner } from './principal.ts';
import type { Published } from './published.ts';
import type { Quota } from './record.ts';

/** Creates are counted by the second in which they were asked for: a tenant may ask for any number. */
const MINUTE_S = 60;

/** A sandbox that exists, or is promised. */
export type Holding = {
  readonly owner: Owner | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** Absent: none. */
  readonly publish?: readonly Published[] | undefined;
  /** It will be a snapshot when it was idle for long enough. */
  readonly savesItself?: boolean;
};

/** Who wants to make something, and who is to know what it comes to, allowed or not. */
export type RequestContext = {
  readonly principal: Principal;
  readonly onResolved?: ((requested: RequestedResources) => void) | undefined;
};

/** Who takes a snapshot: a client, or an owner whose idle sandbox is saved. */
export type SnapshotMaker = Owner & Pick<Principal, 'policy'>;

export type LimitsOptions = {
  /** Read anew each time: quotas change under a running daemon. */
  readonly quotaOf: (tenant: string) => Quota | undefined;
  readonly sandboxes: () => Iterable<Holding>;
  /** Ports of the host that a key may publish whose policy does not say which, but which has one, or a tenant. */
  readonly publishPorts: readonly string[];
  /** Owners of the snapshots that exist. */
  readonly snapshots: () => Iterable<Owner | undefined>;
  readonly now?: () => number;
};

export class Limits {
  readonly #options: LimitsOptions;
  readonly #promised = new Set<Holding>();
  readonly #promisedSnapshots = new Set<Owner>();
  /** How many sandboxes were asked for in which second, by tenant. */
  readonly #asked = new Map<string, Map<number, number>>();

  constructor(options: LimitsOptions) {
    this.#options = options;
  }

  /**
   * Holds what is wanted until disposed, when it shows among the sandboxes or will never be. AppError forbidden names each
   * limit that it passes.
   */
  admit({ principal, onResolved }: RequestContext, requested: RequestedResources): Disposable {
    onResolved?.(requested);
    const { tenant } = principal;
    const policy = this.#policyOf(principal);
    const passed = findPassed(policy, requested);
    if (requested.startsService && !mayDo(principal, 'exec'))
      passed.push(`a service needs exec: ${describe(principal, 'exec')}`);
    if (requested.savesItself && !mayDo(principal, 'snapshot'))
      passed.push(`idle_action snapshot needs snapshot: ${describe(principal, 'snapshot')}`);
    const all = [...this.#options.sandboxes(), ...this.#promised];
    const own = all.filter(({ owner }) => isSame(owner, principal));
    const total = own.length + requested.count;
    passed.push(...over('sandboxes of this key', total, 'max_sandboxes', policy.max_sandboxes));
    const most = policy.max_published_ports;
    passed.push(...over('ports of this key', countPorts([...own, requested]), 'max_published_ports', most));
    if (requested.savesItself)
      passed.push(...overSnapshots(policy, this.#countSnapshots(principal, own) + requested.count));
    if (tenant !== undefined) passed.push(...this.#findOverQuota(tenant, all, requested));
    if (passed.length > 0) throw forbidden(principal, passed);
    const { vcpus, memoryMib, diskBytes, publish, savesItself, count } = requested;
    const each = { owner: toOwner(principal), vcpus, memoryMib, diskBytes, publish, savesItself };
    const promised = Array.from({ length: count }, () => ({ ...each }));
    for (const each of promised) this.#promised.add(each);
    if (tenant !== undefined) this.#noteAsked(tenant, count);
    return {
      [Symbol.dispose]: () => {
        for (const each of promised) this.#promised.delete(each);
      },
    };
  }

  /** One that nothing narrows is the operator's own. */
  #policyOf({ policy, tenant, keepsOldGrants }: Principal): Policy {
    const isNarrow = policy !== undefined || tenant !== undefined;
    const { publishPorts } = this.#options;
    return { ...(isNarrow && !keepsOldGrants && { publish_ports: publishPorts }), ...policy };
  }

  /** The same for a snapshot. An idle sandbox that saves itself has no policy: its snapshot was counted when it was made. */
  admitSnapshot(by: SnapshotMaker | undefined): Disposable {
    if (by === undefined || toOwner(by) === undefined) return NOTHING_HELD;
    const { key, tenant, policy = {} } = by;
    const sandboxes = [...this.#options.sandboxes(), ...this.#promised];
    const own = sandboxes.filter(({ owner }) => isSame(owner, by));
    const passed = overSnapshots(policy, this.#countSnapshots(by, own) + 1);
    if (tenant !== undefined) {
      const theirs = this.#snapshotOwners().filter((owner) => owner?.tenant === tenant);
      const most = this.#options.quotaOf(tenant)?.max_snapshots;
      passed.push(...over(`snapshots of tenant ${tenant}`, theirs.length + 1, 'max_snapshots', most));
    }
    if (passed.length > 0) throw forbidden(by, passed);
    const promised = { key, ...(tenant !== undefined && { tenant }) };
    this.#promisedSnapshots.add(promised);
    return { [Symbol.dispose]: () => void this.#promisedSnapshots.delete(promised) };
  }

  #snapshotOwners(): readonly (Owner | undefined)[] {
    return [...this.#options.snapshots(), ...this.#promisedSnapshots];
  }

  /** Those that there are, and those that its sandboxes will be. */
  #countSnapshots(by: Owner, own: readonly Holding[]): number {
    const made = this.#snapshotOwners().filter((owner) => isSame(owner, by));
    return made.length + own.filter(({ savesItself }) => savesItself).length;
  }

  #findOverQuota(tenant: string, all: readonly Holding[], requested: RequestedResources): string[] {
    const quota = this.#options.quotaOf(tenant) ?? {};
    const theirs = all.filter(({ owner }) => owner?.tenant === tenant);
    const sum = (of: (holding: Omit<Holding, 'owner'>) => number): number =>
      theirs.reduce((total, holding) => total + of(holding), of(requested) * requested.count);
    const creates = this.#recentlyAsked(tenant) + requested.count;
    const totals = [
      ['sandboxes', sum(() => 1), 'max_sandboxes'],
      ['vcpus', sum(({ vcpus }) => vcpus), 'max_vcpus'],
      ['memory_mib', sum(({ memoryMib }) => memoryMib), 'max_memory_mib'],
      ['disk_bytes', sum(({ diskBytes }) => diskBytes), 'max_disk_bytes'],
      ['published ports', countPorts([...theirs, requested]), 'max_published_ports'],
      ['creates within a minute', creates, 'max_creates_per_minute'],
    ] as const;
    return totals.flatMap(([what, total, limit]) =>
      over(`${what} of tenant ${tenant}`, total, limit, quota[limit]),
    );
  }

  #recentlyAsked(tenant: string): number {
    const counts = this.#asked.get(tenant) ?? new Map<number, number>();
    const oldest = this.#second() - MINUTE_S;
    for (const second of counts.keys()) if (second < oldest) counts.delete(second);
    return counts.values().reduce((sum, count) => sum + count, 0);
  }

  #noteAsked(tenant: string, count: number): void {
    const counts = this.#asked.get(tenant) ?? new Map<number, number>();
    const second = this.#second();
    counts.set(second, (counts.get(second) ?? 0) + count);
    this.#asked.set(tenant, counts);
  }

  #second(): number {
    const { now = Date.now } = this.#options;
    return Math.floor(now() / 1000);
  }
}

function isSame(owner: Owner | undefined, { key, tenant }: Owner): boolean {
  return owner?.key === key && owner.tenant === tenant;
}

function overSnapshots({ max_snapshots }: Policy, total: number): string[] {
  return over('snapshots of this key', total, 'max_snapshots', max_snapshots);
}

function countPorts(all: Iterable<Pick<Holding, 'publish'>>): number {
  let count = 0;
  for (const { publish = [] } of all) count += publish.length;
  return count;
}

const NOTHING_HELD: Disposable = { [Symbol.dispose]: () => undefined };
