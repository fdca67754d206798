// Keys and quotas in the registry. Commands change them while a daemon runs, which reads them at each request, so
// changes take effect at once.
import { isDeepStrictEqual } from 'node:util';
import type { Policy } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { randomSuffix } from '../lib/ids.ts';
import type { Store, Table } from '../store/store.ts';
import { KeyMark } from './mark.ts';
import type { KeyHolder, Owner } from './principal.ts';
import {
  areSameHash,
  hashKey,
  isKeyText,
  type KeyChange,
  type KeyForm,
  type KeyRecord,
  type KeyUse,
  mintKey,
  type Quota,
  toKeyId,
} from './record.ts';

/** The last use of a key is recorded at most this often. */
const USE_INTERVAL_MS = 60_000;
/** A host that joins its fleet hears of the keys within a second. */
const AWAIT_RETRY_S = 2;
/** Compared with the hash of an unknown key, so that the check takes as long as for a known one. */
const NO_HASH = hashKey('');

export type NewKey = {
  readonly name: string;
  readonly tenant?: string;
  readonly seesAllTenants?: true;
  readonly policy?: Policy;
  readonly expiresAtMs?: number;
};

export type ListedKey = KeyRecord & { readonly id: string; readonly lastUse?: KeyUse };

export type KeyState = 'valid' | 'expired' | 'revoked';

/** The result of looking up a presented key. */
export type Found =
  | { readonly state: 'valid'; readonly principal: KeyHolder }
  | { readonly state: 'expired'; readonly atMs: number }
  | { readonly state: 'revoked'; readonly atMs: number }
  | { readonly state: 'unknown' };

export type KeyRegistryOptions = {
  /** The host user who makes the changes. */
  readonly by?: string;
  /** Requires a key, even if no key ever existed. */
  readonly isRequired?: boolean;
};

export class KeyRegistry {
  readonly #store: Store;
  readonly #mark: KeyMark;
  #isRequired: boolean;
  /** The fleet may have keys that this host has not heard of. */
  #isAwaiting = false;
  readonly #keys: Table<KeyRecord>;
  readonly #uses: Table<KeyUse>;
  readonly #quotas: Table<Quota>;
  readonly #changes: Table<KeyChange>;
  readonly #by: string;
  readonly #usedAtMs = new Map<string, number>();
  /** By id, as the cluster has them: what ends there ends here, also while the registry cannot be written. */
  #shared: ReadonlyMap<string, KeyRecord> | undefined;
  #hasKeys = false;

  constructor(store: Store, { by = 'daemon', isRequired = false }: KeyRegistryOptions = {}) {
    this.#by = by;
    this.#isRequired = isRequired;
    this.#mark = new KeyMark(store.path);
    this.#changes = store.table('key_changes');
    this.#store = store;
    this.#keys = store.table('keys');
    this.#uses = store.table('key_uses');
    this.#quotas = store.table('quotas');
  }

  /**
   * Whether every client needs a key. True once a key existed: revoked and expired keys stay recorded, and if the
   * registry is lost, its mark remains. Also true while it is not known whether the fleet has keys.
   */
  get isClosed(): boolean {
    return this.#isAwaiting || this.#needsKey;
  }

  get #needsKey(): boolean {
    return this.#isRequired || this.#mark.exists || this.hasKeys;
  }

  /** Whether the fleet may have keys that this host has not heard of. */
  get isAwaiting(): boolean {
    return this.#isAwaiting;
  }

  /** Until the next `setShared`. */
  awaitShared(): void {
    this.#isAwaiting = true;
  }

  /** From now on every client needs a key, though none may be known here. */
  requireKeys(): void {
    this.#isRequired = true;
  }

  /**
   * Call it before a client is refused who sent no key, or one that is unknown here. AppError exhausted while the keys
   * of the fleet may admit it.
   */
  assertDecided(hasKey: boolean): void {
    if (!this.#isAwaiting || (this.#needsKey && !hasKey)) return;
    const message = 'this host does not know yet which keys its fleet has: it waits for the API server';
    throw new AppError('exhausted', message, { retryAfterS: AWAIT_RETRY_S });
  }

  /** Whether any key is recorded, valid or not. */
  get hasKeys(): boolean {
    this.#hasKeys ||= this.#keys.hasLatest();
    return this.#hasKeys;
  }

  /** Path of the mark when keys existed but are no longer recorded. */
  get lostMark(): string | undefined {
    return this.#mark.exists && !this.hasKeys ? this.#mark.path : undefined;
  }

  /** Creates the mark where it is missing, as after a restore of the registry alone. */
  async ensureMark(): Promise<void> {
    if (this.hasKeys) await this.#mark.ensure();
  }

  get hasValidKey(): boolean {
    return this.#keys.all().some(({ record }) => stateOf(record) === 'valid');
  }

  find(text: string): Found {
    if (!isKeyText(text)) return { state: 'unknown' };
    const hash = hashKey(text);
    const record = this.#latest(toKeyId(hash));
    if (!areSameHash(hash, record?.hash ?? NO_HASH) || record === undefined) return { state: 'unknown' };
    const state = stateOf(record);
    if (state === 'revoked') return { state, atMs: record.revokedAtMs ?? 0 };
    if (state === 'expired') return { state, atMs: record.expiresAtMs ?? 0 };
    return { state, principal: toPrincipal(record) };
  }

  #latest(id: string): KeyRecord | undefined {
    const record = this.#keys.latest(id);
    const isOpen = record?.isShared === true && record.revokedAtMs === undefined;
    return isOpen && this.#shared !== undefined ? this.#shared.get(id) : record;
  }

  /** Of a valid key, by its id. */
  holder(id: string): KeyHolder | undefined {
    const record = this.#latest(id);
    return record !== undefined && stateOf(record) === 'valid' ? toPrincipal(record) : undefined;
  }

  /** Whether a key that was found earlier is still valid. */
  isStillValid({ id }: KeyHolder): boolean {
    const record = this.#latest(id);
    return record !== undefined && stateOf(record) === 'valid';
  }

  /** Records a use of the key. Rejects when it cannot be written. */
  async noteUse({ id }: KeyHolder, address: string): Promise<void> {
    const atMs = Date.now();
    if (atMs - (this.#usedAtMs.get(id) ?? 0) < USE_INTERVAL_MS) return;
    this.#usedAtMs.set(id, atMs);
    await this.#uses.put(id, { atMs, address });
  }

  /** Resolves with the text of the key, which is not stored. AppError conflict when a valid key has the name. */
  async create(newKey: NewKey, form?: KeyForm): Promise<{ readonly text: string; readonly key: ListedKey }> {
    const text = mintKey(form);
    const hash = hashKey(text);
    const id = toKeyId(hash);
    const record = { ...newKey, hash, createdAtMs: Date.now() };
    // Written before the key: from the first key on, the daemon must not be open.
    await this.#mark.ensure();
    await this.#store.atomically(() => {
      if (this.#keys.get(id) !== undefined)
        throw new AppError('conflict', 'two keys came out alike; try again');
      const isTaken = ({ record: other }: { record: KeyRecord }): boolean =>
        other.name === newKey.name && stateOf(other) === 'valid';
      if (this.#keys.all().some(isTaken)) {
        const message = `there is a key ${JSON.stringify(newKey.name)} already; revoke it, or choose another name`;
        throw new AppError('conflict', message);
      }
      void this.#keys.put(id, record);
      this.#recordChange({
        change: 'created',
        key: newKey.name,
        keyId: id,
        ...optional('tenant', newKey.tenant),
      });
    });
    await this.#keys.flush();
    return { text, key: { ...record, id } };
  }

  /** Oldest first. */
  list(): ListedKey[] {
    const uses = new Map(this.#uses.all().map(({ id, record }) => [id, record]));
    return this.#keys
      .all()
      .map(({ id, record }) => ({ ...record, id, ...optional('lastUse', uses.get(id)) }))
      .sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** Revokes every key with that name or id that is not revoked. AppError not_found when there is none. */
  async revoke(nameOrId: string): Promise<readonly ListedKey[]> {
    const revoked = await this.#store.atomically(() => {
      const found = this.list().filter(
        (key) => (key.name === nameOrId || key.id === nameOrId) && stateOf(key) !== 'revoked',
      );
      if (found.length === 0) {
        throw new AppError(
          'not_found',
          `there is no key ${JSON.stringify(nameOrId)}; \`sandboxd keys list\` shows all`,
        );
      }
      for (const { id, lastUse: _, ...record } of found) {
        void this.#keys.put(id, { ...record, revokedAtMs: Date.now() });
        this.#recordChange({
          change: 'revoked',
          key: record.name,
          keyId: id,
          ...optional('tenant', record.tenant),
        });
      }
      return found;
    });
    await this.#keys.flush();
    return revoked;
  }

  /**
   * The keys of the fleet as the cluster has them. One that is not among them is unknown from now on; one that was
   * revoked, or whose name has a later key, is revoked for good.
   */
  async setShared(keys: readonly KeyRecord[]): Promise<void> {
    const wanted = new Map(keys.map((key) => [toKeyId(key.hash), { ...key, isShared: true } as const]));
    this.#shared = wanted;
    const newest = new Map(keys.map(({ name, createdAtMs }) => [name, createdAtMs]));
    // Written before the keys, as in `create`.
    if (keys.length > 0) await this.#mark.ensure();
    await this.#store.atomically(() => {
      for (const { id, record } of this.#keys.all()) {
        if (record.isShared !== true || record.revokedAtMs !== undefined || wanted.has(id)) continue;
        // A name gets another key only after the end of the one before, which was not heard of here.
        if ((newest.get(record.name) ?? 0) > record.createdAtMs)
          void this.#keys.put(id, { ...record, revokedAtMs: Date.now() });
        else void this.#keys.remove(id);
        this.#recordShared('revoked', id, record);
      }
      for (const [id, record] of wanted) {
        const known = this.#keys.get(id);
        const isKept = known !== undefined && (known.isShared !== true || known.revokedAtMs !== undefined);
        if (isKept || isDeepStrictEqual(known, record)) continue;
        void this.#keys.put(id, record);
        if (record.revokedAtMs !== undefined) this.#recordShared('revoked', id, record);
        else if (known === undefined) this.#recordShared('created', id, record);
      }
    });
    await this.#keys.flush();
    this.#isAwaiting = false;
  }

  #recordShared(change: 'created' | 'revoked', keyId: string, { name, tenant }: KeyRecord): void {
    this.#recordChange({ change, key: name, keyId, ...optional('tenant', tenant), by: 'fleet' });
  }

  /** Of the valid key that has the owner's name; of this host's own one where the fleet has one, too. */
  policyOfOwner({ key, tenant }: Owner): Policy | undefined {
    const found = this.#keys
      .all()
      .filter(({ record }) => record.name === key && record.tenant === tenant && stateOf(record) === 'valid');
    return (found.find(({ record }) => record.isShared !== true) ?? found[0])?.record.policy;
  }

  quotaOf(tenant: string): Quota | undefined {
    return this.#quotas.latest(tenant);
  }

  quotas(): { readonly tenant: string; readonly quota: Quota }[] {
    return this.#quotas.all().map(({ id, record }) => ({ tenant: id, quota: record }));
  }

  async setQuota(tenant: string, quota: Quota): Promise<void> {
    await this.#store.atomically(() => {
      void this.#quotas.put(tenant, quota);
      this.#recordChange({ change: 'quota set', tenant });
    });
    await this.#quotas.flush();
  }

  async removeQuota(tenant: string): Promise<void> {
    await this.#store.atomically(() => {
      void this.#quotas.remove(tenant);
      this.#recordChange({ change: 'quota removed', tenant });
    });
    await this.#quotas.flush();
  }

  /** Passes the stored changes to `record`, oldest first, and then removes them. */
  async takeChanges(record: (change: KeyChange) => void): Promise<void> {
    if (!this.#changes.hasLatest()) return;
    const changes = this.#changes.all();
    for (const { record: change } of changes.toSorted((a, b) => a.record.atMs - b.record.atMs))
      record(change);
    for (const { id } of changes) await this.#changes.remove(id);
  }

  #recordChange(change: Omit<KeyChange, 'atMs' | 'by'> & Partial<Pick<KeyChange, 'by'>>): void {
    void this.#changes.put(randomSuffix(), { by: this.#by, ...change, atMs: Date.now() });
  }
}

export function stateOf({ revokedAtMs, expiresAtMs }: KeyRecord): KeyState {
  if (revokedAtMs !== undefined) return 'revoked';
  return expiresAtMs !== undefined && expiresAtMs <= Date.now() ? 'expired' : 'valid';
}

function toPrincipal({ name, hash, tenant, policy, expiresAtMs }: KeyRecord): KeyHolder {
  return {
    kind: 'key',
    id: toKeyId(hash),
    key: name,
    ...optional('tenant', tenant),
    ...optional('policy', policy),
    ...optional('expiresAtMs', expiresAtMs),
  };
}

function optional<K extends string, T>(key: K, value: T | undefined): { readonly [P in K]?: T } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]: T });
}
