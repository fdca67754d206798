// The secrets that tenants store: their values are sealed in the registry, or read from a source of the operator.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_STORED_SECRET_BYTES, MAX_STORED_SECRETS, type SecretSource } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import { intersectPatterns } from '../lib/host-patterns.ts';
import type { Sealer } from '../lib/seal.ts';
import type { Store, Table } from '../store/store.ts';
import { type SecretUse, SecretUses } from './secret-uses.ts';
import { SourceValues } from './source-values.ts';
import type { SecretSources } from './sources.ts';

/** Hexadecimal digits of a digest that clients see. */
const SHOWN_DIGITS = 12;

type StoredSecret = {
  readonly hosts: readonly string[];
  /** The value; absent with a source. */
  readonly sealed?: string;
  readonly source?: SecretSource;
  /** Keyed, of the stored value. */
  readonly digest?: string;
  readonly valueBytes: number;
  readonly createdAtMs: number;
  readonly changedAtMs: number;
};

export type SecretInfo = Omit<StoredSecret, 'sealed' | 'valueBytes'> & {
  readonly name: string;
  readonly use?: SecretUse | undefined;
};

/** One that a command of the operator made beside the daemon, which tells gateways and the audit trail of it. */
export type SecretChange = {
  readonly change: 'created' | 'changed' | 'removed';
  readonly scope: string;
  readonly name: string;
  readonly atMs: number;
  /** A user of the host. */
  readonly by: string;
};

export type SecretToStore = {
  readonly value?: string | undefined;
  readonly source?: SecretSource | undefined;
  readonly hosts: readonly string[];
};

/** What a binding gets: undefined without a value. */
export type SecretContent = { readonly hosts: readonly string[]; readonly value: Buffer | null };

/** Settled when nothing uses what was before. */
type Listener = (scope: string, name: string) => Promise<void>;

/** A change is answered after so long, whatever its listeners wait for. */
const LISTENERS_MS = 15_000;

/** `scope`: the tenant, or '' for keys without one. One scope cannot name the secrets of another. */
type SecretStoreOptions = {
  readonly store: Store;
  readonly sealer: Sealer;
  readonly sources: SecretSources;
  readonly log: Logger;
  /** Of a command beside the daemon. */
  readonly by?: string | undefined;
};

export class SecretStore {
  readonly #table: Table<StoredSecret>;
  readonly #changes: Table<SecretChange>;
  /** Ids of changes that the audit trail has, and that could not be removed since. */
  readonly #recorded = new Set<string>();
  readonly #uses: SecretUses;
  readonly #by: string | undefined;
  readonly #sealer: Sealer;
  readonly #sources: SourceValues;
  readonly #log: Logger;
  readonly #listeners = new Set<Listener>();

  constructor({ store, sealer, sources, log, by }: SecretStoreOptions) {
    this.#table = store.table('secrets');
    this.#changes = store.table('secret_changes');
    this.#uses = new SecretUses(store, (err) =>
      log.warn({ err }, 'cannot write how often a secret was used'),
    );
    this.#sealer = sealer;
    this.#sources = new SourceValues(sources);
    this.#log = log;
    this.#by = by;
  }

  get count(): number {
    return this.#table.all().length;
  }

  /** Called after a change of value, source or hosts, and after a removal, which wait for it. */
  onChange(listener: Listener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** By name. */
  list(scope: string): SecretInfo[] {
    return this.#all(scope).map(({ id, record }) => this.#toInfo(scope, nameOf(id), record));
  }

  /** Those of all tenants, for the operator. */
  scopes(): string[] {
    const ids = this.#table.latestRange().map(({ id }) => id);
    return [...new Set(ids.map((id) => decodeURIComponent(id.slice(0, id.indexOf('/')))))];
  }

  /** AppError not_found. */
  get(scope: string, name: string): SecretInfo {
    return this.#toInfo(scope, name, this.#find(scope, name));
  }

  has(scope: string, name: string): boolean {
    return this.#table.latest(toId(scope, name)) !== undefined;
  }

  hostsOf(scope: string, name: string): readonly string[] | undefined {
    const record = this.#table.latest(toId(scope, name));
    return record && this.#boundHosts(scope, record);
  }

  /** Of its value; none for one that is read elsewhere. */
  bytesOf(scope: string, name: string): number {
    return this.#table.latest(toId(scope, name))?.valueBytes ?? 0;
  }

  /**
   * Makes or changes one. AppError forbidden for a source that the operator has not named, or bound to other hosts,
   * conflict for too many, internal for a source that cannot be read.
   */
  async put(scope: string, name: string, wanted: SecretToStore): Promise<SecretInfo & { isNew: boolean }> {
    const { value, source, hosts } = wanted;
    const id = toId(scope, name);
    if (source !== undefined) await this.#sources.check(scope, source, hosts);
    const sealed = value === undefined ? undefined : this.#seal(id, value);
    const now = Date.now();
    let isNew = false;
    const record = await this.#table.atomically(() => {
      const before = this.#table.get(id);
      isNew = before === undefined;
      this.#assertCapacity(scope, id, sealed?.valueBytes ?? 0);
      const next = {
        hosts,
        ...(source !== undefined && { source }),
        ...(sealed ?? { valueBytes: 0 }),
        createdAtMs: before?.createdAtMs ?? now,
        changedAtMs: now,
      };
      void this.#table.put(id, next);
      this.#recordChange(isNew ? 'created' : 'changed', scope, name);
      return next;
    });
    await this.#table.flush();
    await this.#changed(scope, name);
    return { ...this.#toInfo(scope, name, record), isNew };
  }

  /** Sandboxes that use it cannot any more. AppError not_found. */
  async remove(scope: string, name: string): Promise<void> {
    this.#find(scope, name);
    const id = toId(scope, name);
    await this.#table.remove(id, () => this.#recordChange('removed', scope, name));
    await this.#table.flush();
    await Promise.all([this.#changed(scope, name), this.#uses.remove(id)]);
  }

  /** Applies what commands have changed, oldest first, and passes it to `record`. */
  async takeChanges(record: (change: SecretChange) => void): Promise<void> {
    if (!this.#changes.hasLatest()) return;
    const changes = this.#changes.all();
    const inOrder = changes.toSorted((a, b) => a.record.atMs - b.record.atMs || (a.id < b.id ? -1 : 1));
    for (const { id, record: change } of inOrder) {
      if (this.#recorded.has(id)) continue;
      record(change);
      this.#recorded.add(id);
    }
    await Promise.all(
      changes.map(async ({ id, record: { scope, name } }) => {
        if (!this.has(scope, name)) await this.#uses.remove(toId(scope, name));
        await this.#changed(scope, name);
        await this.#changes.remove(id);
        this.#recorded.delete(id);
      }),
    );
  }

  /** As `contentNow`, when what a source has is known. */
  async content(scope: string, name: string): Promise<SecretContent | undefined> {
    await this.refresh(scope, name);
    return this.contentNow(scope, name);
  }

  /** The caller wipes the value. Undefined for one that does not exist; without a value where none is known now. */
  contentNow(scope: string, name: string): SecretContent | undefined {
    const id = toId(scope, name);
    const record = this.#table.latest(id);
    if (record === undefined) return undefined;
    const { sealed, source } = record;
    const hosts = this.#boundHosts(scope, record);
    try {
      if (sealed !== undefined) return { hosts, value: this.#sealer.open(id, sealed) };
      return { hosts, value: (source && this.#sources.known(scope, source)) ?? null };
    } catch (err) {
      this.#log.error({ err, secret: id }, 'the value of a secret cannot be used');
      return { hosts, value: null };
    }
  }

  /** Reads the value of a source again, if it was read some time ago. Never rejects. */
  async refresh(scope: string, name: string): Promise<void> {
    const id = toId(scope, name);
    const source = this.#table.latest(id)?.source;
    if (source === undefined) return;
    await this.#sources
      .refresh(scope, source)
      .catch((err) => this.#log.error({ err, secret: id }, 'the value of a secret cannot be read'));
  }

  /** A request had its value. */
  noteUse(scope: string, name: string): void {
    if (this.has(scope, name)) this.#uses.note(toId(scope, name));
  }

  /** Whether its value may change without a call of `put`. */
  isRead(scope: string, name: string): boolean {
    return this.#table.latest(toId(scope, name))?.source !== undefined;
  }

  async close(): Promise<void> {
    this.#sources.close();
    await this.#uses.close();
  }

  /** Of a source also those to which the operator has bound it; none where the source is not there any more. */
  #boundHosts(scope: string, { hosts, source }: StoredSecret): readonly string[] {
    if (source === undefined) return hosts;
    try {
      const bound = this.#sources.hostsOf(scope, source);
      return bound === undefined ? hosts : intersectPatterns(hosts, bound);
    } catch {
      return [];
    }
  }

  #recordChange(change: SecretChange['change'], scope: string, name: string): void {
    if (this.#by === undefined) return;
    // Microseconds, so that changes of the same millisecond are in order as well.
    const at = performance.timeOrigin + performance.now();
    const id = `${Math.floor(at * 1000)}-${randomBytes(8).toString('hex')}`;
    void this.#changes.put(id, { change, scope, name, atMs: Math.floor(at), by: this.#by });
  }

  #seal(id: string, value: string) {
    const bytes = Buffer.from(value, 'latin1');
    try {
      const digest = this.#sealer.digest(bytes).slice(0, SHOWN_DIGITS);
      return { sealed: this.#sealer.seal(id, bytes), digest, valueBytes: bytes.length };
    } finally {
      bytes.fill(0);
    }
  }

  #assertCapacity(scope: string, id: string, bytes: number): void {
    const others = this.#all(scope).filter((each) => each.id !== id);
    const of = scope === '' ? 'keys without a tenant have' : `tenant ${scope} has`;
    if (others.length >= MAX_STORED_SECRETS)
      throw new AppError('conflict', `${of} ${MAX_STORED_SECRETS} secrets already; remove one`);
    const total = others.reduce((sum, { record }) => sum + record.valueBytes, bytes);
    if (total > MAX_STORED_SECRET_BYTES)
      throw new AppError(
        'conflict',
        `${of} more than ${MAX_STORED_SECRET_BYTES} bytes in the values of secrets; remove one`,
      );
  }

  #all(scope: string) {
    const prefix = toId(scope, '');
    return this.#table.latestRange({ from: prefix }).filter(({ id }) => id.startsWith(prefix));
  }

  #find(scope: string, name: string): StoredSecret {
    const record = this.#table.latest(toId(scope, name));
    if (record === undefined) throw new AppError('not_found', `secret ${name} does not exist`);
    return record;
  }

  #toInfo(scope: string, name: string, record: StoredSecret): SecretInfo {
    const { sealed: _, valueBytes: _bytes, ...shown } = record;
    return {
      name,
      ...shown,
      hosts: this.#boundHosts(scope, record),
      use: this.#uses.of(toId(scope, name)),
    };
  }

  async #changed(scope: string, name: string): Promise<void> {
    const done = Promise.allSettled([...this.#listeners].map((listener) => listener(scope, name)));
    const late = await Promise.race([done, sleep(LISTENERS_MS, 'late' as const, { ref: false })]);
    if (late === 'late')
      this.#log.error({ secret: toId(scope, name) }, 'a change of a secret is not yet with all sandboxes');
  }
}

/** Names have no slash, and tenants cannot begin with one: no two pairs have one id. */
function toId(scope: string, name: string): string {
  return `${encodeURIComponent(scope)}/${name}`;
}

function nameOf(id: string): string {
  return id.slice(id.indexOf('/') + 1);
}
