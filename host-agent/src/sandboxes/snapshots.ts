// User snapshots: taken, imported, listed, opened for forks, deleted.
import PQueue from 'p-queue';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { Ancestry } from './ancestry.ts';
import { ReservedNames } from './reserved-names.ts';
import type { Sandbox } from './sandbox.ts';
import type { Exported } from './saved/archive/write-archive.ts';
import { Checksums, type DiskUse, measureSaved, type SavedGuest, savedBytes } from './saved/saved-guest.ts';
import { changeAbout, findChanges, type SnapshotPatch } from './snapshot-about.ts';
import { deleteSnapshot } from './snapshot-deletion.ts';
import { findReplaced, SnapshotExpiry, toExpiring } from './snapshot-expiry.ts';
import { fillFrom, makeSnapshot } from './snapshot-making.ts';
import { openSnapshots } from './snapshot-opening.ts';
import {
  type Entry,
  type Fill,
  noSnapshot,
  type SnapshotFor,
  type SnapshotRecord,
  type SnapshotsOptions,
  toInfo,
  withExpiry,
} from './snapshot-record.ts';
import type { Description } from './stored/description.ts';
import { StoredSnapshots } from './stored/stored-snapshots.ts';
import type { SnapshotInfo, TreeNode } from './types.ts';

export type { SnapshotFor, SnapshotRecord } from './snapshot-record.ts';

export class Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #ancestry: Ancestry;
  readonly #checksums: Checksums;
  readonly #expiry: SnapshotExpiry;
  readonly #names = new ReservedNames({
    all: () => this.#named(),
    noun: 'snapshot',
    change: 'taken or renamed',
    advice: () => 'use another name, rename that one or delete it',
  });
  /** Changes are made one at a time. */
  readonly #changes = new PQueue({ concurrency: 1 });
  /** Undefined without a snapshot store. */
  readonly stored: StoredSnapshots | undefined;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#ancestry = new Ancestry(options);
    this.#checksums = new Checksums(options.log);
    this.#expiry = new SnapshotExpiry({
      ...{ all: () => toExpiring(this.#entries), log: options.log },
      remove: (id) => this.#expire(id),
    });
    const local = {
      find: (id: string) => this.#entries.get(id),
      ids: () => this.#entries.keys(),
      add: (id: string, record: SnapshotRecord, fill: Fill) => this.#addExisting(id, record, fill),
      remove: (id: string) => this.delete(id, 'store'),
    };
    this.stored = options.shared && new StoredSnapshots({ ...options, ...options.shared, local });
  }

  /**
   * Opens all snapshots; removes those that a crash left incomplete or half deleted. A complete snapshot that cannot
   * be read is user data: its files stay.
   */
  async start(): Promise<void> {
    for (const [id, entry] of await openSnapshots(this.#options, this.#ancestry)) {
      this.#entries.set(id, entry);
      this.#checksums.add(entry.saved);
    }
    await this.forgetUnused();
    // A daemon that was killed before a sandbox was deleted leaves it as it was, and so what it came from.
    for (const [id, { record }] of [...this.#entries])
      if (this.#options.sandboxRecords.get(record.sourceId) === undefined) await this.deleteOlder(id);
    this.#expiry.schedule();
    this.stored?.start();
  }

  /** Resolves when no snapshot file is read or written any more. */
  async stop(): Promise<void> {
    this.#expiry.stop();
    await Promise.all([this.stored?.stop(), this.#checksums.stop()]);
  }

  /**
   * Saves a running sandbox, which keeps running. AppError with everything undone; the signal's reason when
   * cancelled.
   */
  create(sandbox: Sandbox, signal: AbortSignal, by?: SnapshotFor): Promise<SnapshotInfo> {
    const fill = fillFrom(sandbox, this.#options.faults, signal);
    return this.#make(sandbox.id, signal, by, fill, sandbox);
  }

  /**
   * A snapshot of another host, which `fill` writes to a new directory. AppError with everything undone; the signal's
   * reason when cancelled.
   */
  import(
    sourceId: string,
    fill: (dir: string) => Promise<SavedGuest>,
    signal: AbortSignal,
    by?: SnapshotFor,
  ): Promise<SnapshotInfo> {
    const fillIn: Fill = async (dir, snapshot) => ({
      saved: await fill(dir),
      event: { kind: 'snapshot-imported', snapshot, sandbox: sourceId },
    });
    return this.#make(sourceId, signal, by, fillIn);
  }

  /** The input for an export stream. AppError not_found. */
  export(id: string): Exported {
    const { record, saved } = this.#find(id);
    return { saved, sourceId: record.sourceId, takenAtMs: record.createdAtMs, about: record.about ?? {} };
  }

  /** `source`: a sandbox of this host, which continues from the new snapshot. */
  async #make(
    sourceId: string,
    signal: AbortSignal,
    by: SnapshotFor = { owner: undefined },
    fill: Fill,
    source?: Sandbox,
  ): Promise<SnapshotInfo> {
    using _name = this.#names.reserve(by.owner, by.about?.name);
    const { commit } = by;
    const withStorage = commit && {
      persist: (info: SnapshotInfo) => commit.persist(this.stored ? { ...info, storage: 'local' } : info),
      retract: () => commit.retract(),
    };
    const made = { sourceId, source, by: { ...by, commit: withStorage }, fill, signal };
    const { id, entry, event } = await makeSnapshot(this.#options, made);
    this.#add(id, entry);
    event.publish();
    void this.stored?.changed(id);
    return this.get(id);
  }

  /** One of another host; it has its name already. */
  async #addExisting(id: string, record: SnapshotRecord, fill: Fill): Promise<void> {
    const { signal } = new AbortController();
    const by = { owner: record.owner };
    const existing = { id, record };
    const made = { sourceId: record.sourceId, source: undefined, by, fill, signal, existing };
    const { entry, event } = await makeSnapshot(this.#options, made);
    this.#add(id, entry);
    event.publish();
  }

  #add(id: string, entry: Entry): void {
    this.#entries.set(id, entry);
    this.#checksums.add(entry.saved);
    this.#expiry.schedule();
  }

  /**
   * The existing snapshots that this one came from, nearest first. `id` may be of a deleted one, which a sandbox or
   * another snapshot came from.
   */
  ancestorsOf(id: string): string[] {
    return this.#ancestry.ancestorsOf(id).filter((each) => this.#entries.has(each));
  }

  /** All snapshots of its tree. AppError not_found. */
  tree(id: string, isVisible: (owner: Owner | undefined) => boolean): TreeNode[] {
    if (this.stored?.findRemote(id)) return [{ kind: 'snapshot', ...this.get(id) }];
    return this.#ancestry.tree(id, isVisible);
  }

  /** Deletes those that an automatic one replaces. Never rejects. */
  async deleteOlder(id: string): Promise<void> {
    if (this.#entries.get(id)?.record.automatic?.keepLast === undefined) return;
    for (const each of findReplaced(id, this.ancestorsOf(id), this.#entries))
      await this.delete(each, 'keep_last').catch((err) =>
        this.#options.log.warn({ err, snapshot: each }, 'cannot delete an older automatic snapshot'),
      );
  }

  /** Forgets deleted snapshots from which nothing came that still exists, and unused authorities. Never rejects. */
  async forgetUnused(): Promise<void> {
    await this.#ancestry.compact();
    const { authorities, records, sandboxRecords, log } = this.#options;
    const users = () => [...records.all(), ...sandboxRecords.all()].map(({ record }) => record);
    await authorities
      .collect(users)
      .catch((err) => log.warn({ err }, 'cannot remove unused certificate authorities; trying again'));
  }

  /** The owner of each existing snapshot. */
  get owners(): (Owner | undefined)[] {
    const local = [...this.#entries.values()].map(({ record }) => record.owner);
    return [...local, ...this.#remote().map(([, { owner }]) => owner)];
  }

  /** Disk space of all; what files share is counted for each of them. */
  async diskBytes(): Promise<number> {
    let sum = 0;
    for (const entry of [...this.#entries.values()]) sum += entry.diskBytes ??= await savedBytes(entry.saved);
    return sum;
  }

  /** Oldest first. */
  list(isVisible: (owner: Owner | undefined) => boolean): SnapshotInfo[] {
    const owned = [...this.#entries].map(([id, { record }]) => [id, record.owner] as const);
    const remote = this.#remote().map(([id, { owner }]) => [id, owner] as const);
    return [...owned, ...remote]
      .flatMap(([id, owner]) => (isVisible(owner) ? [this.get(id)] : []))
      .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  /** AppError not_found. */
  authorityOf(id: string): Pick<SnapshotRecord, 'authority'> {
    const { authority } = this.#find(id).record;
    return authority === undefined ? {} : { authority };
  }

  /** AppError not_found. */
  ownerOf(id: string): Owner | undefined {
    return (this.stored?.findRemote(id) ?? this.#find(id).record).owner;
  }

  /** What its forks inherit. AppError not_found. */
  secretsOf(id: string): readonly StoredBinding[] {
    return this.#find(id).record.secrets ?? [];
  }

  /** Undefined also for one that does not exist. */
  findOwner(id: string): Owner | undefined {
    return (this.stored?.findRemote(id) ?? this.#entries.get(id)?.record)?.owner;
  }

  /** AppError not_found. */
  get(id: string): SnapshotInfo {
    const remote = this.stored?.findRemote(id);
    if (remote) return this.stored?.toInfo(id, remote) as SnapshotInfo;
    return { ...toInfo(id, this.#find(id)), ...this.stored?.storageOf(id) };
  }

  /** Of its files on this host. */
  async measure(id: string): Promise<DiskUse> {
    if (this.stored?.findRemote(id)) return { diskBytes: 0, uniqueBytes: 0 };
    return await measureSaved(this.#find(id).saved);
  }

  /** Ensures that its files are on this host. AppError as of StoredSnapshots. */
  async fetch(id: string, signal: AbortSignal): Promise<void> {
    if (this.stored?.findRemote(id)) await this.stored.fetch(id, signal);
  }

  /** The saved guest, for forks. AppError not_found, conflict when this engine cannot restore it. */
  open(id: string): SavedGuest {
    const { saved } = this.#find(id);
    const reason = saved.incompatibility(this.#options.engines.current.compatibility());
    if (reason === undefined) return saved;
    throw new AppError(
      'conflict',
      `snapshot ${id} does not fit the engine any more: ${reason}; take a new one`,
    );
  }

  /** AppError not_found, conflict, invalid_argument; nothing is changed then. */
  change(id: string, patch: SnapshotPatch): Promise<SnapshotInfo> {
    return this.#changes.add(() => this.#change(id, patch));
  }

  async #change(id: string, patch: SnapshotPatch): Promise<SnapshotInfo> {
    const { records, events } = this.#options;
    await this.fetch(id, new AbortController().signal);
    const entry = this.#find(id);
    // One whose delete has failed half-way has its mark in the registry alone.
    if (entry.deletion !== undefined || records.get(id)?.isComplete !== true) throw noSnapshot(id);
    const { owner, about = {} } = entry.record;
    const changed = changeAbout(about, patch);
    const fields = [...findChanges(about, changed), ...(patch.expiresS === undefined ? [] : ['expires_s'])];
    if (fields.length === 0) return this.get(id);
    using _name = this.#names.reserve(owner, changed.name === about.name ? undefined : changed.name);
    const record = { ...withExpiry(entry.record, patch.expiresS), about: changed };
    const event = events.prepare({ kind: 'snapshot-changed', snapshot: id, changed: fields }, owner, changed);
    // A delete that begins meanwhile writes its mark after this.
    await records.put(id, record, event.persist);
    entry.record = record;
    this.#expiry.schedule();
    event.publish();
    await this.stored?.changed(id);
    return this.get(id);
  }

  /** Whether no snapshot of this owner's tenant has the name. */
  isNameFree(owner: Owner | undefined, name: string): boolean {
    return this.#names.find(owner, name) === undefined && this.#names.pending(owner, name) === undefined;
  }

  *#named() {
    for (const [id, { record }] of this.#entries) yield { id, owner: record.owner, name: record.about?.name };
    for (const [id, { owner, archive }] of this.#remote())
      yield { id, owner, name: archive.options.about?.name };
  }

  /** Resolves when its files are removed; waits for forks that are starting from it. AppError not_found. */
  async delete(id: string, reason?: 'expires_s' | 'keep_last' | 'store'): Promise<void> {
    const remote = this.stored?.findRemote(id);
    if (remote) return this.stored?.deleteRemote(id, remote, reason);
    const entry = this.#find(id);
    // Concurrent deletes share one promise, so the event is published once.
    entry.deletion ??= this.#delete(id, entry, reason).finally(() => {
      entry.deletion = undefined;
    });
    await entry.deletion;
  }

  async #delete(id: string, entry: Entry, reason?: string): Promise<void> {
    const { log } = this.#options;
    // A delete must also work on a full disk, because it frees space.
    const isExpiry = reason === 'expires_s';
    const begun = isExpiry ? this.stored?.expiring(id, entry.record) : this.stored?.deleting(id);
    await begun?.catch((err) => log.warn({ err, snapshot: id }, 'cannot record a delete'));
    const event = await deleteSnapshot(this.#options, this.#ancestry, id, entry, reason);
    this.#entries.delete(id);
    event.publish();
    await (isExpiry ? this.stored?.expired(id) : this.stored?.deleted(id));
    await this.forgetUnused();
  }

  async #expire(id: string): Promise<void> {
    const [entry, { record }] = [this.#find(id), this.#find(id)];
    const later = await this.stored?.findLater(id, record);
    // A client may change or delete it meanwhile.
    const isSame = () => entry.record === record && entry.deletion === undefined;
    if (later === undefined) return isSame() ? this.delete(id, 'expires_s') : undefined;
    await this.#changes.add(async () => {
      if (!isSame()) return;
      await this.#options.records.put(id, later);
      entry.record = later;
    });
  }

  #remote(): (readonly [string, Description])[] {
    return this.stored === undefined ? [] : [...this.stored.remote()];
  }

  #find(id: string): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw noSnapshot(id);
    return entry;
  }
}
