// What the tools of one MCP server may reach: its bounds, and the sandboxes and snapshots within them.
import type { Client } from '../client.ts';
import { pause } from '../connection/requests.ts';
import type { CreateOptions, SandboxInfo, SnapshotInfo } from '../contract.ts';
import { SandboxdError } from '../errors.ts';
import type { HeldDirectory } from '../platform/held-directory.ts';
import type { Sandbox, Snapshot } from '../sandbox.ts';

/** Set by the operator of the server; no tool can widen them. */
export type Bounds = {
  /** Profiles and images that sandboxes may be created from; both empty: all that the API key may use. */
  readonly profiles: readonly string[];
  readonly images: readonly string[];
  /** Hosts that sandboxes may reach, as in an allowlist. */
  readonly hosts: readonly string[];
  /** What is created gets these labels, and nothing without them can be reached. */
  readonly labels: Readonly<Record<string, string>>;
  /** Sandboxes at a time, with these labels or, without labels, of this server; undefined: no limit. */
  readonly maxSandboxes: number | undefined;
  /** Longest lifetime of a sandbox, and the default; 0: no limit. */
  readonly lifetimeS: number;
  /** Local directory of uploads and downloads, held open; undefined: none. */
  readonly localDirectory: HeldDirectory | undefined;
  /** Longest download. */
  readonly downloadBytes: number;
};

type Called = { readonly signal: AbortSignal };
export type CreateInput = {
  readonly profile?: string;
  readonly image?: string;
  readonly name?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly memory_mib?: number;
  readonly vcpus?: number;
  readonly hosts?: readonly string[];
  readonly lifetimeS?: number;
};

const SANDBOX_ID = /^sbx_[0-9a-v]{13}$/;
const SNAPSHOT_ID = /^snap_[0-9a-v]{13}$/;
const POLL_MS = 50;

/** What is being created by servers whose sandboxes count together. */
export type Admission = {
  /** Sandboxes that are being created. */
  pending: number;
  /** One after another, calls are admitted to creating. */
  last: Promise<unknown>;
};

export function makeAdmission(): Admission {
  return { pending: 0, last: Promise.resolve() };
}

export class Scope {
  readonly client: Client;
  readonly bounds: Bounds;
  readonly #filter: readonly string[];
  /** Sandboxes of this server, for the limit without labels. */
  readonly #made = new Set<string>();
  readonly #admission: Admission;

  /** `admission`: shared with other servers whose sandboxes count together. */
  constructor(client: Client, bounds: Bounds, admission: Admission = makeAdmission()) {
    this.client = client;
    this.bounds = bounds;
    this.#admission = admission;
    this.#filter = Object.entries(bounds.labels).map(([key, value]) => `${key}=${value}`);
  }

  /** The sandbox of an id or a name. The answer is bound to its id. SandboxdError. */
  async sandbox(word: string, { signal }: Called): Promise<Sandbox> {
    if (SANDBOX_ID.test(word)) {
      const sandbox = this.client.sandboxes.get(word);
      if (this.#filter.length > 0) this.#assertReachable(await sandbox.info({ signal }), word);
      return sandbox;
    }
    const found = await this.client.sandboxes.list({ name: word, label: this.#filter, signal });
    return this.client.sandboxes.get(theOnly(found, `sandbox ${JSON.stringify(word)}`).id);
  }

  /** The snapshot of an id or a name. SandboxdError. */
  async snapshot(word: string, { signal }: Called): Promise<Snapshot> {
    if (SNAPSHOT_ID.test(word)) {
      const snapshot = this.client.snapshots.get(word);
      if (this.#filter.length > 0) this.#assertReachable(await snapshot.info({ signal }), word);
      return snapshot;
    }
    const found = await this.client.snapshots.list({ name: word, labels: this.#filter, signal });
    return this.client.snapshots.get(theOnly(found, `snapshot ${JSON.stringify(word)}`).id);
  }

  sandboxes({ signal }: Called): Promise<readonly SandboxInfo[]> {
    return this.client.sandboxes.list({ label: this.#filter, signal });
  }

  snapshots({ signal }: Called): Promise<readonly SnapshotInfo[]> {
    return this.client.snapshots.list({ labels: this.#filter, signal });
  }

  /** Creates a sandbox within the bounds. SandboxdError that names the bound. */
  async create(input: CreateInput, { signal }: Called): Promise<SandboxInfo> {
    const { profile, image, hosts = [], lifetimeS, ...options } = input;
    const network = this.#network(hosts);
    const request = {
      ...options,
      ...this.#source(profile, image),
      timeout_s: this.#lifetime(lifetimeS),
      labels: this.bounds.labels,
      ...(network !== undefined && { network }),
    };
    return this.#counted(1, signal, async () => {
      const sandbox = await this.client.sandboxes.create({ ...request, signal });
      this.#made.add(sandbox.id);
      return orDeleted([sandbox], signal, () => sandbox.info());
    });
  }

  /** Forks a sandbox or a snapshot within the bounds. */
  async fork(
    source: Sandbox | Snapshot,
    { count, ...options }: { readonly count: number; readonly name?: string },
    { signal }: Called,
  ): Promise<readonly SandboxInfo[]> {
    return this.#counted(count, signal, async () => {
      const forks = await source.fork({ ...options, count, labels: this.bounds.labels, signal });
      for (const { id } of forks) this.#made.add(id);
      return orDeleted(forks, signal, () => Promise.all(forks.map((each) => this.#limitLifetime(each))));
    });
  }

  /** A fork has the lifetime of its source, which may be longer than the bound. */
  async #limitLifetime(sandbox: Sandbox): Promise<SandboxInfo> {
    const info = await sandbox.info();
    const { lifetimeS } = this.bounds;
    if (lifetimeS === 0 || (info.timeout_s > 0 && info.timeout_s <= lifetimeS)) return info;
    return sandbox.update({ timeout_s: lifetimeS });
  }

  #assertReachable({ labels = {} }: { labels?: Readonly<Record<string, string>> }, word: string): void {
    for (const [key, value] of Object.entries(this.bounds.labels))
      if (labels[key] !== value) throw new SandboxdError(`there is no ${word}`);
  }

  #source(profile: string | undefined, image: string | undefined): Pick<CreateOptions, 'profile' | 'image'> {
    if (profile !== undefined && image !== undefined)
      throw new SandboxdError('a sandbox has a profile or an image, not both');
    const { profiles, images } = this.bounds;
    const isOpen = profiles.length + images.length === 0;
    if (image !== undefined) {
      if (!isOpen && !images.includes(image)) throw outside('image', image, images);
      return { image: { oci: image } };
    }
    if (profile !== undefined) {
      if (!isOpen && !profiles.includes(profile)) throw outside('profile', profile, profiles);
      return { profile };
    }
    const [first] = profiles;
    const [firstImage] = images;
    if (first !== undefined) return { profile: first };
    return firstImage === undefined ? {} : { image: { oci: firstImage } };
  }

  #network(hosts: readonly string[]): CreateOptions['network'] | undefined {
    if (hosts.length === 0) return undefined;
    for (const host of hosts)
      if (!this.bounds.hosts.some((allowed) => covers(allowed, host)))
        throw outside('host', host, this.bounds.hosts);
    return { enabled: true, allowlist: [...hosts] };
  }

  #lifetime(wantedS: number | undefined): number {
    const { lifetimeS } = this.bounds;
    if (lifetimeS === 0) return wantedS ?? 0;
    if (wantedS === undefined) return lifetimeS;
    if (wantedS < 1 || wantedS > lifetimeS)
      throw new SandboxdError(`lifetime_s must be from 1 to ${lifetimeS} here`);
    return wantedS;
  }

  async #counted<T>(count: number, signal: AbortSignal, make: () => Promise<T>): Promise<T> {
    const admission = this.#admission;
    const admitted = admission.last.then(() => this.#admit(count, signal));
    admission.last = admitted.catch(() => undefined);
    await admitted;
    try {
      return await make();
    } finally {
      admission.pending -= count;
    }
  }

  /** Counts sandboxes and those that are being created. A sandbox may be both, which shows when its creation ends. */
  async #admit(count: number, signal: AbortSignal): Promise<void> {
    const { maxSandboxes = Number.POSITIVE_INFINITY } = this.bounds;
    while (maxSandboxes < Number.POSITIVE_INFINITY) {
      const pending = this.#admission.pending;
      const all = await this.sandboxes({ signal });
      const taken = all.filter(({ id }) => this.#filter.length > 0 || this.#made.has(id)).length;
      if (taken + pending + count <= maxSandboxes) break;
      if (pending === 0 || taken + count > maxSandboxes)
        throw new SandboxdError(
          `there may be ${maxSandboxes} sandboxes here, and there are ${taken}: delete one first`,
        );
      while (this.#admission.pending >= pending) await pause(POLL_MS, signal);
    }
    signal.throwIfAborted();
    this.#admission.pending += count;
  }
}

/** The caller of a call that fails, or is cancelled, does not learn what it has made. */
async function orDeleted<T>(
  made: readonly Sandbox[],
  signal: AbortSignal,
  finish: () => Promise<T>,
): Promise<T> {
  try {
    const finished = await finish();
    signal.throwIfAborted();
    return finished;
  } catch (error) {
    await Promise.allSettled(made.map((each) => each.delete()));
    throw error;
  }
}

/** By the rule of allowlists: `*.` is exactly one more label, `**.` one or more. */
export function covers(allowed: string, host: string): boolean {
  const [rule, name] = [allowed.toLowerCase(), host.toLowerCase()];
  if (rule.startsWith('**.') && rule !== name) {
    const base = name.replace(/^\*\*?\./, 'x.');
    return /^[^.*]+(?:\.[^.*]+)+$/.test(base) && base.endsWith(rule.slice(2));
  }
  return rule === name || (rule.startsWith('*.') && /^[^.*]+(\..*)$/.exec(name)?.[1] === rule.slice(1));
}

function theOnly<T>(found: readonly T[], what: string): T {
  const [first] = found;
  if (first === undefined) throw new SandboxdError(`there is no ${what}`);
  if (found.length > 1) throw new SandboxdError(`several are called ${what}: use an id`);
  return first;
}

function outside(what: string, value: string, allowed: readonly string[]): SandboxdError {
  const list = allowed.length === 0 ? 'none is allowed here' : `allowed here: ${allowed.join(', ')}`;
  return new SandboxdError(`the ${what} ${JSON.stringify(value)} is not allowed; ${list}`);
}
