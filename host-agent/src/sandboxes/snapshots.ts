// User snapshots: taken, imported, listed, opened for forks, deleted.
import PQueue from 'p-queue';
import type { Owner } from '../keys/index.ts';
import { AppError, toError } from '../lib/errors.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { Ancestry } from './ancestry.ts';
import { ReservedNames } from './reserved-names.ts';
import { pinRootfs } from './resources/files.ts';
import type { Sandbox } from './sandbox.ts';
import type { Exported } from './saved/archive/write-archive.ts';
import {
  Checksums,
  type DiskUse,
  measureSaved,
  SavedGuest,
  savedBytes,
  snapshotsRoot,
  sweepSaved,
} from './saved/saved-guest.ts';
import { changeAbout, findChanges, type SnapshotPatch } from './snapshot-about.ts';
import { findReplaced, SnapshotExpiry, toExpiring } from './snapshot-expiry.ts';
import { fillFrom, makeSnapshot, prepareDeleted, snapshotDir } from './snapshot-making.ts';
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

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#ancestry = new Ancestry(options);
    this.#checksums = new Checksums(options.log);
    this.#expiry = new SnapshotExpiry({
      ...{ all: () => toExpiring(this.#entries), log: options.log },
      remove: (id) => this.delete(id, 'expires_s'),
    });
  }

  /**
   * Opens all snapshots; removes those that a crash left incomplete or half deleted. A complete snapshot that cannot
   * be read is user data: its files stay.
   */
  async start(): Promise<void> {
    const { dataDir, records, sandboxRecords, log } = this.#options;
    const all = new Map(records.all().map(({ id, record }) => [id, record]));
    const present = await sweepSaved(snapshotsRoot(dataDir), (name) => all.get(name)?.isComplete === true);
    for (const [id, record] of all) {
      if (record.deletedAtMs !== undefined) {
        this.#ancestry.add(id, record);
        continue;
      }
      if (!present.includes(id)) {
        const deleted = prepareDeleted(this.#options.events, id, record);
        await this.#ancestry.forget(id, record, record.isComplete ? deleted.persist : undefined);
        if (record.isComplete) deleted.publish();
        const reason = record.isComplete ? 'its files are missing' : 'it is incomplete or half deleted';
        log.warn({ snapshot: id, reason }, 'snapshot record removed');
        continue;
      }
      try {
        const saved = await SavedGuest.open(snapshotDir(dataDir, id));
        await pinRootfs(saved.dir, saved.manifest.options.rootfs.rootfsPath);
        this.#entries.set(id, { record, saved });
        this.#checksums.add(saved);
      } catch (error) {
        const reason = toError(error).message;
        log.error({ snapshot: id, reason }, 'a snapshot cannot be read and is not listed; its files stay');
      }
    }
    await this.forgetUnused();
    // A daemon that was killed before a sandbox was deleted leaves it as it was, and so what it came from.
    for (const [id, { record }] of [...this.#entries])
      if (sandboxRecords.get(record.sourceId) === undefined) await this.deleteOlder(id);
    this.#expiry.schedule();
  }

  /** Resolves when no snapshot file is read or written any more. */
  stop(): Promise<void> {
    this.#expiry.stop();
    return this.#checksums.stop();
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
    const { id, entry, event } = await makeSnapshot(this.#options, { sourceId, source, by, fill, signal });
    this.#entries.set(id, entry);
    this.#checksums.add(entry.saved);
    this.#expiry.schedule();
    event.publish();
    return this.get(id);
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
    return [...this.#entries.values()].map(({ record }) => record.owner);
  }

  /** Disk space of all; what files share is counted for each of them. */
  async diskBytes(): Promise<number> {
    let sum = 0;
    for (const entry of [...this.#entries.values()]) sum += entry.diskBytes ??= await savedBytes(entry.saved);
    return sum;
  }

  /** Oldest first. */
  list(isVisible: (owner: Owner | undefined) => boolean): SnapshotInfo[] {
    return [...this.#entries]
      .flatMap(([id, { record }]) => (isVisible(record.owner) ? [this.get(id)] : []))
      .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  /** AppError not_found. */
  authorityOf(id: string): Pick<SnapshotRecord, 'authority'> {
    const { authority } = this.#find(id).record;
    return authority === undefined ? {} : { authority };
  }

  /** AppError not_found. */
  ownerOf(id: string): Owner | undefined {
    return this.#find(id).record.owner;
  }

  /** What its forks inherit. AppError not_found. */
  secretsOf(id: string): readonly StoredBinding[] {
    return this.#find(id).record.secrets ?? [];
  }

  /** Undefined also for one that does not exist. */
  findOwner(id: string): Owner | undefined {
    return this.#entries.get(id)?.record.owner;
  }

  /** AppError not_found. */
  get(id: string): SnapshotInfo {
    return toInfo(id, this.#find(id));
  }

  measure(id: string): Promise<DiskUse> {
    return measureSaved(this.#find(id).saved);
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
    const entry = this.#find(id);
    // One whose delete has failed half-way has its mark in the registry alone.
    if (entry.deletion !== undefined || records.get(id)?.isComplete !== true) throw noSnapshot(id);
    const { owner, about = {} } = entry.record;
    const changed = changeAbout(about, patch);
    const fields = [...findChanges(about, changed), ...(patch.expiresS === undefined ? [] : ['expires_s'])];
    if (fields.length === 0) return toInfo(id, entry);
    using _name = this.#names.reserve(owner, changed.name === about.name ? undefined : changed.name);
    const record = { ...withExpiry(entry.record, patch.expiresS), about: changed };
    const event = events.prepare({ kind: 'snapshot-changed', snapshot: id, changed: fields }, owner, changed);
    // A delete that begins meanwhile writes its mark after this.
    await records.put(id, record, event.persist);
    entry.record = record;
    this.#expiry.schedule();
    event.publish();
    return toInfo(id, entry);
  }

  /** Whether no snapshot of this owner's tenant has the name. */
  isNameFree(owner: Owner | undefined, name: string): boolean {
    return this.#names.find(owner, name) === undefined && this.#names.pending(owner, name) === undefined;
  }

  *#named() {
    for (const [id, { record }] of this.#entries) yield { id, owner: record.owner, name: record.about?.name };
  }

  /** Resolves when its files are removed; waits for forks that are starting from it. AppError not_found. */
  async delete(id: string, reason?: 'expires_s' | 'keep_last'): Promise<void> {
    const entry = this.#find(id);
    // Concurrent deletes share one promise, so the event is published once.
    entry.deletion ??= this.#delete(id, entry, reason).finally(() => {
      entry.deletion = undefined;
    });
    await entry.deletion;
  }

  async #delete(id: string, { saved, record }: Entry, reason?: string): Promise<void> {
    const { records, faults } = this.#options;
    const event = prepareDeleted(this.#options.events, id, record, reason);
    const current = records.get(id);
    // If an earlier delete failed, the snapshot is already marked and the event persisted.
    if (current !== undefined)
      await this.#markDeleting(id, record, current.isComplete ? event.persist : undefined);
    const isPersisted = records.get(id)?.isComplete !== true;
    faults.reach('snapshot-delete.marked');
    await saved.remove();
    faults.reach('snapshot-delete.files');
    await this.#ancestry
      .forget(id, record, isPersisted ? undefined : event.persist)
      .catch(() => records.remove(id));
    faults.reach('snapshot-delete.forgotten');
    this.#entries.delete(id);
    event.publish();
    await this.forgetUnused();
  }

  /** Records the delete, so that the next daemon would finish it. */
  async #markDeleting(id: string, record: SnapshotRecord, persist?: () => void): Promise<void> {
    const { records, log } = this.#options;
    try {
      await records.put(id, { ...record, isComplete: false }, persist);
    } catch (err) {
      // A delete must also work on a full disk, because it frees space.
      log.warn(
        { err, snapshot: id },
        'cannot record the delete of a snapshot in advance; deleting it without',
      );
    }
  }

  #find(id: string): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw noSnapshot(id);
    return entry;
  }
}
