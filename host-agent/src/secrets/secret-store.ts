// The secrets that tenants store: their values are sealed in the registry, or read from a source of the operator.
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { MAX_STORED_SECRET_BYTES, MAX_STORED_SECRETS, type SecretSource } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import type { Sealer } from '../lib/seal.ts';
import type { Store, Table } from '../store/store.ts';
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

export type SecretInfo = Omit<StoredSecret, 'sealed' | 'valueBytes'> & { readonly name: string };

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
export class SecretStore {
  readonly #table: Table<StoredSecret>;
  readonly #sealer: Sealer;
  readonly #sources: SourceValues;
  readonly #log: Logger;
  readonly #listeners = new Set<Listener>();

  constructor({
    store,
    sealer,
    sources,
    log,
  }: {
    readonly store: Store;
    readonly sealer: Sealer;
    readonly sources: SecretSources;
    readonly log: Logger;
  }) {
    this.#table = store.table('secrets');
    this.#sealer = sealer;
    this.#sources = new SourceValues(sources);
    this.#log = log;
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
    return this.#all(scope).map(({ id, record }) => toInfo(nameOf(id), record));
  }

  /** AppError not_found. */
  get(scope: string, name: string): SecretInfo {
    return toInfo(name, this.#find(scope, name));
  }

  has(scope: string, name: string): boolean {
    return this.#table.get(toId(scope, name)) !== undefined;
  }

  hostsOf(scope: string, name: string): readonly string[] | undefined {
    return this.#table.get(toId(scope, name))?.hosts;
  }

  /** Of its value; none for one that is read elsewhere. */
  bytesOf(scope: string, name: string): number {
    return this.#table.get(toId(scope, name))?.valueBytes ?? 0;
  }

  /**
   * Makes or changes one. AppError forbidden for a source that the operator has not named, conflict for too many,
   * internal for a source that cannot be read.
   */
  async put(scope: string, name: string, wanted: SecretToStore): Promise<SecretInfo & { isNew: boolean }> {
    const { value, source, hosts } = wanted;
    const id = toId(scope, name);
    if (source !== undefined) await this.#sources.check(scope, source);
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
      return next;
    });
    await this.#table.flush();
    await this.#changed(scope, name);
    return { ...toInfo(name, record), isNew };
  }

  /** Sandboxes that use it cannot any more. AppError not_found. */
  async remove(scope: string, name: string): Promise<void> {
    this.#find(scope, name);
    const id = toId(scope, name);
    await this.#table.remove(id);
    await this.#table.flush();
    await this.#changed(scope, name);
  }

  /** The caller wipes the value. Undefined for one that does not exist; without a value where it cannot be read now. */
  async content(scope: string, name: string): Promise<SecretContent | undefined> {
    const id = toId(scope, name);
    const record = this.#table.get(id);
    if (record === undefined) return undefined;
    const { hosts, sealed, source } = record;
    try {
      if (sealed !== undefined) return { hosts, value: this.#sealer.open(id, sealed) };
      if (source === undefined) return { hosts, value: null };
      const value = await this.#sources.get(scope, source);
      if (isDeepStrictEqual(this.#table.get(id), record)) return { hosts, value };
      // It changed meanwhile.
      value.fill(0);
      return await this.content(scope, name);
    } catch (err) {
      this.#log.error({ err, secret: id }, 'the value of a secret cannot be used');
      return { hosts, value: null };
    }
  }

  /** Whether its value may change without a call of `put`. */
  isRead(scope: string, name: string): boolean {
    return this.#table.get(toId(scope, name))?.source !== undefined;
  }

  close(): void {
    this.#sources.close();
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
    return this.#table.range({ from: prefix }).filter(({ id }) => id.startsWith(prefix));
  }

  #find(scope: string, name: string): StoredSecret {
    const record = this.#table.get(toId(scope, name));
    if (record === undefined) throw new AppError('not_found', `secret ${name} does not exist`);
    return record;
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

function toInfo(name: string, { sealed: _, valueBytes: _bytes, ...shown }: StoredSecret): SecretInfo {
  return { name, ...shown };
}
