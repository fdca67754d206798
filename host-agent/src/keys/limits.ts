// Quota and policy checks: a request is admitted against its key's policy and its tenant's quota in one step, so that
// two concurrent requests cannot both get the last capacity.
import type { Policy } from '@sandboxd/api';
import type { AppError } from '../lib/errors.ts';
import {
  countPorts,
  type Holding,
  isAwake,
  isSame,
  type LimitUse,
  pickLimited,
  type Totals,
  totalsOf,
} from './holding.ts';
import {
  checkInspected,
  checkMax,
  checkNetwork,
  checkSecrets,
  findExceeded,
  findExceededBy,
  findExceededByPorts,
  type Published,
  type RequestedNetwork,
  type RequestedResources,
  type RequestedSecret,
} from './policy.ts';
import {
  describe,
  forbidden,
  mayDo,
  type Owner,
  ownerOf,
  type Principal,
  policyOf,
  type RequestContext,
  type RequestedChange,
  type SnapshotMaker,
  tenantOf,
} from './principal.ts';
import { RecentCounts } from './recent-counts.ts';
import type { Quota, QuotaLimit } from './record.ts';

export type LimitsOptions = {
  /** Called for each request: quotas change while the daemon runs. */
  readonly quotaOf: (tenant: string) => Quota | undefined;
  /** Of the owner's key as it is now; undefined if it has none or is not valid any more. */
  readonly policyOfOwner: (owner: Owner) => Policy | undefined;
  readonly sandboxes: () => Iterable<Holding>;
  /** Host ports that a key may publish if it has a policy or tenant but no publish_ports. */
  readonly publishPorts: readonly string[];
  /** What a tenant has in the snapshot store, as last known. */
  readonly storedBytes: (tenant: string) => number;
  /** Owners of the snapshots that exist. */
  readonly snapshots: () => Iterable<Owner | undefined>;
};

export class Limits {
  readonly #options: LimitsOptions;
  readonly #reserved = new Set<Holding>();
  readonly #reservedSnapshots = new Set<Owner>();
  readonly #reservedPauses = new Set<Owner>();
  readonly #creates = new RecentCounts();
  readonly #changes = new RecentCounts();

  constructor(options: LimitsOptions) {
    this.#options = options;
  }

  /**
   * Reserves what is requested until disposed; by then the sandboxes exist or the request failed. AppError forbidden
   * names each exceeded limit.
   */
  admit({ principal, onResolved }: RequestContext, requested: RequestedResources): Disposable {
    onResolved?.(requested);
    const owner = ownerOf(principal);
    const tenant = tenantOf(principal);
    const policy = this.#policyOf(principal);
    const exceeded = findExceeded(policy, requested);
    if (requested.startsService && !mayDo(principal, 'exec'))
      exceeded.push(`a service needs exec: ${describe(principal, 'exec')}`);
    if (requested.savesItself && !mayDo(principal, 'snapshot'))
      exceeded.push(`idle_action snapshot needs snapshot: ${describe(principal, 'snapshot')}`);
    const all = [...this.#options.sandboxes(), ...this.#reserved];
    const own = all.filter((holding) => isSame(holding.owner, owner));
    exceeded.push(...checkMaxSandboxes(policy, own.filter(isAwake).length + requested.count));
    const max = policy.max_published_ports;
    exceeded.push(
      ...checkMax('ports of this key', countPorts([...own, requested]), 'max_published_ports', max),
    );
    if (requested.savesItself)
      exceeded.push(...checkMaxSnapshots(policy, this.#countSnapshots(owner, own) + requested.count));
    const overQuota = tenant === undefined ? [] : this.#findOverQuota(tenant, all, requested);
    overQuota.push(...this.#findUnread(principal, requested));
    if (exceeded.length + overQuota.length > 0) throw forbidden(principal, exceeded, overQuota);
    const { vcpus, memoryMib, diskBytes, publish, savesItself, count } = requested;
    const each = { owner, vcpus, memoryMib, diskBytes, savesItself };
    // The ports are those of all together.
    const reserved = Array.from({ length: count }, (_, n) => ({ ...each, ...(n === 0 && { publish }) }));
    for (const each of reserved) this.#reserved.add(each);
    if (tenant !== undefined) this.#creates.add(tenant, count);
    return {
      [Symbol.dispose]: () => {
        for (const each of reserved) this.#reserved.delete(each);
      },
    };
  }

  /**
   * The same for a change of a sandbox. AppError forbidden. The reservation is for the snapshot that the sandbox will
   * become when idle.
   */
  admitChange({ principal }: RequestContext, change: RequestedChange): Disposable {
    const { owner, lifetimeS, idleTimeoutS, savesItself, savedItself } = change;
    const policy = this.#policyOf(principal);
    const exceeded = findExceededBy(policy, { lifetimeS, idleTimeoutS });
    if (savesItself && !mayDo(principal, 'snapshot'))
      exceeded.push(`idle_action snapshot needs snapshot: ${describe(principal, 'snapshot')}`);
    if (!savesItself || savedItself) {
      if (exceeded.length > 0) throw forbidden(principal, exceeded);
      return NO_RESERVATION;
    }
    const own = [...this.#options.sandboxes(), ...this.#reserved].filter((each) => isSame(each.owner, owner));
    exceeded.push(...checkMaxSnapshots(policy, this.#countSnapshots(owner, own) + 1));
    if (exceeded.length > 0) throw forbidden(principal, exceeded);
    if (owner === undefined) return NO_RESERVATION;
    const reserved = { ...owner };
    this.#reservedSnapshots.add(reserved);
    return { [Symbol.dispose]: () => void this.#reservedSnapshots.delete(reserved) };
  }

  /** A change of what a guest may reach. Nothing at all is always allowed. AppError forbidden. */
  admitNetwork({ principal }: RequestContext, network: RequestedNetwork): void {
    const { allowlist, rules = [], presets = [] } = network;
    if (allowlist.length + rules.length + presets.length === 0) return;
    const refusal = this.findForbidden({ principal }, network);
    if (refusal !== undefined) throw refusal;
  }

  findForbidden({ principal }: RequestContext, network: RequestedNetwork): AppError | undefined {
    const exceeded = checkNetwork(network, this.#policyOf(principal));
    const overQuota = this.#findUnread(principal, network);
    return exceeded.length + overQuota.length > 0 ? forbidden(principal, exceeded, overQuota) : undefined;
  }

  /** Secrets that a sandbox gets later, or hosts of one that is stored. AppError forbidden. */
  admitSecrets({ principal }: Pick<RequestContext, 'principal'>, secrets: readonly RequestedSecret[]): void {
    const exceeded = checkSecrets(secrets, this.#policyOf(principal));
    if (exceeded.length > 0) throw forbidden(principal, exceeded);
  }

  /** The same for ports that a sandbox of `owner` gets later. */
  admitPorts(
    { principal }: RequestContext,
    owner: Owner | undefined,
    publish: readonly Published[],
  ): Disposable {
    const policy = this.#policyOf(principal);
    const all = [...this.#options.sandboxes(), ...this.#reserved];
    const added = { owner, publish };
    const ofKey = all.filter((holding) => isSame(holding.owner, owner));
    const exceeded = [
      ...findExceededByPorts(policy, publish),
      ...checkMax(
        'ports of this key',
        countPorts([...ofKey, added]),
        'max_published_ports',
        policy.max_published_ports,
      ),
    ];
    const tenant = owner?.tenant;
    const ofTenant = countPorts([...all.filter((holding) => holding.owner?.tenant === tenant), added]);
    const overQuota = this.#checkQuota(tenant, 'published ports', ofTenant, 'max_published_ports');
    if (exceeded.length + overQuota.length > 0) throw forbidden(principal, exceeded, overQuota);
    const reserved = { owner, publish, vcpus: 0, memoryMib: 0, diskBytes: 0, isPaused: true };
    this.#reserved.add(reserved);
    return { [Symbol.dispose]: () => void this.#reserved.delete(reserved) };
  }

  /** Counts a request to change a sandbox or snapshot. AppError forbidden. */
  countChange(principal: Principal): void {
    const tenant = tenantOf(principal);
    if (tenant === undefined) return;
    const total = this.#changes.of(tenant) + 1;
    const overQuota = this.#checkQuota(tenant, 'changes within a minute', total, 'max_changes_per_minute');
    if (overQuota.length > 0) throw forbidden(principal, [], overQuota);
    this.#changes.add(tenant, 1);
  }

  /** A key without policy and tenant is the operator's and has no default limits. */
  #policyOf(principal: Principal): Policy {
    const policy = policyOf(principal);
    const isNarrow = policy !== undefined || tenantOf(principal) !== undefined;
    const { publishPorts } = this.#options;
    return { ...(isNarrow && { publish_ports: publishPorts }), ...policy };
  }

  /** The same for a snapshot. The snapshot of an idle sandbox has no policy: it was counted at the sandbox's create. */
  admitSnapshot({ owner, policy = {} }: SnapshotMaker): Disposable {
    if (owner === undefined) return NO_RESERVATION;
    const sandboxes = [...this.#options.sandboxes(), ...this.#reserved];
    const own = sandboxes.filter((holding) => isSame(holding.owner, owner));
    const exceeded = checkMaxSnapshots(policy, this.#countSnapshots(owner, own) + 1);
    const overQuota = owner.tenant === undefined ? [] : this.#findOverSnapshotQuota(owner.tenant);
    if (exceeded.length + overQuota.length > 0) throw forbidden(owner, exceeded, overQuota);
    const reserved = { ...owner };
    this.#reservedSnapshots.add(reserved);
    return { [Symbol.dispose]: () => void this.#reservedSnapshots.delete(reserved) };
  }

  /**
   * Reserves a pause. The quota of the owner counts; a policy only for a request, because a pause by a timeout has
   * none.
   */
  admitPause(owner: Owner | undefined, policy: Policy = {}): Disposable {
    if (owner === undefined) return NO_RESERVATION;
    const paused = [...this.#options.sandboxes()].filter(({ isPaused }) => isPaused);
    const count = (isOne: (other: Owner | undefined) => boolean): number =>
      [...paused.map((holding) => holding.owner), ...this.#reservedPauses].filter(isOne).length + 1;
    const exceeded = checkMax(
      'paused sandboxes of this key',
      count((other) => isSame(other, owner)),
      'max_paused',
      policy.max_paused,
    );
    const { tenant } = owner;
    const ofTenant = count((other) => other?.tenant === tenant);
    const overQuota = this.#checkQuota(tenant, 'paused sandboxes', ofTenant, 'max_paused');
    if (exceeded.length + overQuota.length > 0) throw forbidden(owner, exceeded, overQuota);
    const reserved = { ...owner };
    this.#reservedPauses.add(reserved);
    return { [Symbol.dispose]: () => void this.#reservedPauses.delete(reserved) };
  }

  /** A paused sandbox holds again what it held while it ran. AppError forbidden. */
  admitResume({ owner, vcpus, memoryMib }: Holding): Disposable {
    if (owner === undefined) return NO_RESERVATION;
    const all = [...this.#options.sandboxes(), ...this.#reserved];
    const woken = { owner, vcpus, memoryMib, diskBytes: 0 };
    const exceeded = checkMaxSandboxes(
      this.#options.policyOfOwner(owner),
      all.filter((each) => isSame(each.owner, owner) && isAwake(each)).length + 1,
    );
    const overQuota =
      owner.tenant === undefined ? [] : this.#findOverQuota(owner.tenant, all, { ...woken, count: 1 }, 0);
    if (exceeded.length + overQuota.length > 0) throw forbidden(owner, exceeded, overQuota);
    this.#reserved.add(woken);
    return { [Symbol.dispose]: () => void this.#reserved.delete(woken) };
  }

  /** The limits on numbers that the client has, and what counts towards them now. */
  usage(principal: Principal): readonly LimitUse[] {
    const owner = ownerOf(principal);
    if (owner === undefined) return [];
    const all = [...this.#options.sandboxes(), ...this.#reserved];
    const own = all.filter((holding) => isSame(holding.owner, owner));
    const ofKey = totalsOf(own);
    const policy = policyOf(principal) ?? {};
    const uses: LimitUse[] = pickLimited('key', policy, {
      max_sandboxes: ofKey.sandboxes,
      max_paused: ofKey.paused,
      max_snapshots: this.#countSnapshots(owner, own),
      max_published_ports: ofKey.ports,
    });
    const { tenant } = owner;
    if (tenant === undefined) return uses;
    const ofTenant = totalsOf(all.filter((holding) => holding.owner?.tenant === tenant));
    const used: Record<QuotaLimit, number> = {
      max_sandboxes: ofTenant.sandboxes,
      max_vcpus: ofTenant.vcpus,
      max_memory_mib: ofTenant.memoryMib,
      max_disk_bytes: ofTenant.diskBytes,
      max_paused: ofTenant.paused,
      max_snapshots: this.#snapshotOwners().filter((each) => each?.tenant === tenant).length,
      max_stored_bytes: this.#storedBytes(tenant),
      max_published_ports: ofTenant.ports,
      max_creates_per_minute: this.#creates.of(tenant),
      max_changes_per_minute: this.#changes.of(tenant),
    };
    return [...uses, ...pickLimited('tenant', this.#options.quotaOf(tenant) ?? {}, used)];
  }

  #snapshotOwners(): readonly (Owner | undefined)[] {
    return [...this.#options.snapshots(), ...this.#reservedSnapshots];
  }

  /** Existing snapshots, and those that its sandboxes will become when idle. */
  #countSnapshots(by: Owner | undefined, own: readonly Holding[]): number {
    const existing = this.#snapshotOwners().filter((owner) => isSame(owner, by));
    return existing.length + own.filter(({ savesItself }) => savesItself).length;
  }

  #findOverQuota(
    tenant: string,
    all: readonly Holding[],
    requested: Omit<Holding, 'owner'> & { readonly count: number },
    created = requested.count,
  ): string[] {
    const quota = this.#options.quotaOf(tenant) ?? {};
    const held = totalsOf(all.filter(({ owner }) => owner?.tenant === tenant));
    const each = totalsOf([requested]);
    const sum = (what: Exclude<keyof Totals, 'ports' | 'paused'>) =>
      held[what] + each[what] * requested.count;
    const creates = this.#creates.of(tenant) + created;
    const totals = [
      ['sandboxes', sum('sandboxes'), 'max_sandboxes'],
      ['vcpus', sum('vcpus'), 'max_vcpus'],
      ['memory_mib', sum('memoryMib'), 'max_memory_mib'],
      ['disk_bytes', sum('diskBytes'), 'max_disk_bytes'],
      ['published ports', held.ports + each.ports, 'max_published_ports'],
      ['creates within a minute', creates, 'max_creates_per_minute'],
    ] as const;
    return totals.flatMap(([what, total, limit]) =>
      checkMax(`${what} of tenant ${tenant}`, total, limit, quota[limit]),
    );
  }

  #findUnread(principal: Principal, network: Partial<RequestedNetwork>): string[] {
    const tenant = tenantOf(principal);
    const quota = tenant === undefined ? undefined : this.#options.quotaOf(tenant);
    return quota?.net_require_inspect === true ? checkInspected(network) : [];
  }

  #findOverSnapshotQuota(tenant: string): string[] {
    const existing = this.#snapshotOwners().filter((owner) => owner?.tenant === tenant);
    return [
      ...this.#checkQuota(tenant, 'snapshots', existing.length + 1, 'max_snapshots'),
      // Every snapshot needs some.
      ...this.#checkQuota(tenant, 'stored bytes', this.#storedBytes(tenant) + 1, 'max_stored_bytes'),
    ];
  }

  /** Nothing is looked up for a tenant without that quota. */
  #storedBytes(tenant: string): number {
    const { quotaOf, storedBytes } = this.#options;
    return quotaOf(tenant)?.max_stored_bytes === undefined ? 0 : storedBytes(tenant);
  }

  /** Where there is no tenant, there is no quota. */
  #checkQuota(tenant: string | undefined, what: string, total: number, limit: QuotaLimit): string[] {
    if (tenant === undefined) return [];
    return checkMax(`${what} of tenant ${tenant}`, total, limit, this.#options.quotaOf(tenant)?.[limit]);
  }
}

function checkMaxSandboxes(policy: Policy | undefined, total: number): string[] {
  return checkMax('sandboxes of this key', total, 'max_sandboxes', policy?.max_sandboxes);
}

function checkMaxSnapshots({ max_snapshots }: Policy, total: number): string[] {
  return checkMax('snapshots of this key', total, 'max_snapshots', max_snapshots);
}

const NO_RESERVATION: Disposable = { [Symbol.dispose]: () => undefined };
