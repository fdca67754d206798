// The snapshots that users made: taken, listed, opened for forks, deleted.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Engines } from '../engines/choice.ts';
import type { Owner } from '../keys/index.ts';
import { AppError, toError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import { newId } from '../lib/ids.ts';
import type { Table } from '../store/store.ts';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import { pinRootfs } from './resources/pin.ts';
import type { Sandbox } from './sandbox.ts';
import type { Exported } from './saved/archive/write-archive.ts';
import { Checksums } from './saved/checksums.ts';
import { snapshotsRoot, sweepSaved, unfinished } from './saved/layout.ts';
import { flush, saveGuest } from './saved/save.ts';
import { publishSaved, removeSaved, SavedGuest } from './saved/saved-guest.ts';
import type { SnapshotInfo } from './types.ts';

export type SnapshotRecord = {
  readonly createdAtMs: number;
  readonly sourceId: string;
  readonly owner?: Owner;
  /** False until every file is on disk, and again while it is deleted. */
  readonly isComplete: boolean;
};

export type SnapshotsOptions = {
  readonly dataDir: string;
  readonly engines: Pick<Engines, 'current'>;
  readonly records: Table<SnapshotRecord>;
  readonly faults: Faults;
  readonly events: LifecycleEvents;
  readonly log: Logger;
};

type Entry = {
  readonly record: SnapshotRecord;
  readonly saved: SavedGuest;
  /** Under way. */
  deletion?: Promise<void> | undefined;
};

export class Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #checksums: Checksums;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#checksums = new Checksums(options.log);
  }

  /**
   * Reads what is there; removes what a crash left half made or half removed. A complete one that cannot be read now is
   * somebody's data all the same: it is left alone.
   */
  async start(): Promise<void> {
    const { dataDir, records, events, log } = this.#options;
    const all = new Map(records.all().map(({ id, record }) => [id, record]));
    const kept = await sweepSaved(snapshotsRoot(dataDir), (name) => all.get(name)?.isComplete === true);
    for (const [id, record] of all) {
      if (!kept.includes(id)) {
        const gone = events.prepare({ kind: 'snapshot-deleted', snapshot: id }, record.owner);
        await (record.isComplete ? records.remove(id, gone.persist) : records.remove(id));
        if (record.isComplete) gone.publish();
        const reason = record.isComplete ? 'its files are gone' : 'it was never completed, or half removed';
        log.warn({ snapshot: id, reason }, 'forgot a snapshot');
        continue;
      }
      try {
        const saved = await SavedGuest.open(this.#dir(id));
        await pinRootfs(saved.dir, saved.manifest.options.rootfs.rootfsPath);
        this.#entries.set(id, { record, saved });
        this.#checksums.add(saved);
      } catch (error) {
        const reason = toError(error).message;
        log.error({ snapshot: id, reason }, 'a snapshot cannot be read and is not listed; its files stay');
      }
    }
  }

  /** Nothing of them is read or written behind it. */
  stop(): Promise<void> {
    return this.#checksums.stop();
  }

  /** Saves a running sandbox, which goes on. AppError with everything undone; the signal's reason when cancelled. */
  create(sandbox: Sandbox, signal: AbortSignal, owner?: Owner): Promise<SnapshotInfo> {
    const { faults } = this.#options;
    const { options, compatibility, kernelDigest } = sandbox.record;
    return this.#make(sandbox.id, signal, owner, async (dir, snapshot) => {
      const { saved, pausedMs, totalMs } = await saveGuest({
        dir,
        vm: sandbox.vm,
        guest: sandbox.guest,
        layerPath: sandbox.paths.layerPath,
        manifest: { compatibility, kernelDigest, options },
        onPaused: () => faults.reach('snapshot.paused'),
        signal,
      });
      faults.reach('snapshot.saved');
      sandbox.assertAlive();
      const times = { pausedMs: Math.round(pausedMs), totalMs: Math.round(totalMs) };
      return { saved, event: { kind: 'snapshot-taken', snapshot, sandbox: sandbox.id, ...times } };
    });
  }

  /** One that `fill` makes of another host's in a directory of its own. AppError with everything undone; the signal's reason when cancelled. */
  import(
    sourceId: string,
    fill: (dir: string) => Promise<SavedGuest>,
    signal: AbortSignal,
    owner?: Owner,
  ): Promise<SnapshotInfo> {
    return this.#make(sourceId, signal, owner, async (dir, snapshot) => ({
      saved: await fill(dir),
      event: { kind: 'snapshot-imported', snapshot, sandbox: sourceId },
    }));
  }

  /** For a stream of all that it is. AppError not_found. */
  export(id: string): Exported {
    const { record, saved } = this.#find(id);
    return { saved, sourceId: record.sourceId, takenAtMs: record.createdAtMs };
  }

  /** `fill` writes all of it into a new directory, and says what happened then. */
  async #make(
    sourceId: string,
    signal: AbortSignal,
    owner: Owner | undefined,
    fill: (
      dir: string,
      id: string,
    ) => Promise<{ readonly saved: SavedGuest; readonly event: LifecycleEvent }>,
  ): Promise<SnapshotInfo> {
    const { dataDir, records, faults, events } = this.#options;
    const id = newId('snap');
    const root = snapshotsRoot(dataDir);
    const temporary = unfinished(root, id);
    const record = { createdAtMs: Date.now(), sourceId, ...(owner && { owner }), isComplete: false };
    await using undo = new AsyncDisposableStack();
    const untaken = events.prepare({ kind: 'snapshot-deleted', snapshot: id }, owner);
    let isKnown = false;
    undo.defer(async () => {
      await (isKnown ? records.remove(id, untaken.persist) : records.remove(id));
      events.published();
    });
    await records.put(id, record);
    faults.reach('snapshot.recorded');
    undo.defer(() => removeSaved(temporary));
    await mkdir(root, { recursive: true, mode: 0o700 });
    signal.throwIfAborted();
    const { saved, event } = await fill(temporary, id);
    undo.defer(() => removeSaved(this.#dir(id)));
    await publishSaved(temporary, this.#dir(id));
    await flush(root);
    faults.reach('snapshot.published');
    const complete = { ...record, isComplete: true };
    const made = events.prepare(event, owner);
    await records.put(id, complete, made.persist);
    isKnown = true;
    await records.flush();
    faults.reach('snapshot.committed');
    signal.throwIfAborted();
    undo.move();
    const published = new SavedGuest(this.#dir(id), saved.manifest, true);
    this.#entries.set(id, { record: complete, saved: published });
    this.#checksums.add(published);
    made.publish();
    return this.get(id);
  }

  /** Of each that exists. */
  get owners(): (Owner | undefined)[] {
    return [...this.#entries.values()].map(({ record }) => record.owner);
  }

  /** Oldest first. */
  list(isVisible: (owner: Owner | undefined) => boolean): SnapshotInfo[] {
    return [...this.#entries]
      .flatMap(([id, { record }]) => (isVisible(record.owner) ? [this.get(id)] : []))
      .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  /** AppError not_found. */
  ownerOf(id: string): Owner | undefined {
    return this.#find(id).record.owner;
  }

  /** AppError not_found. */
  get(id: string): SnapshotInfo {
    const { record, saved } = this.#find(id);
    return {
      id,
      createdAt: new Date(record.createdAtMs),
      sourceId: record.sourceId,
      dir: saved.dir,
      memoryPath: saved.vm.memoryPath,
      rootfsPath: saved.diskPath,
      statePath: saved.vm.statePath,
      memoryMib: saved.manifest.options.memoryMib,
      vcpus: saved.manifest.options.vcpus,
    };
  }

  /** The saved guest, for forks. AppError not_found, conflict when this engine cannot restore it. */
  open(id: string): SavedGuest {
    const { saved } = this.#find(id);
    const why = saved.incompatibility(this.#options.engines.current.compatibility());
    if (why === undefined) return saved;
    throw new AppError('conflict', `snapshot ${id} does not fit the engine any more: ${why}; take a new one`);
  }

  /** Resolves when nothing of it is left; waits for forks that are just starting from it. AppError not_found. */
  async delete(id: string): Promise<void> {
    const entry = this.#find(id);
    // Whoever deletes it at the same time waits for the same: it is told once.
    entry.deletion ??= this.#delete(id, entry).finally(() => {
      entry.deletion = undefined;
    });
    await entry.deletion;
  }

  async #delete(id: string, { saved, record }: Entry): Promise<void> {
    const { records, faults, events } = this.#options;
    const event = events.prepare({ kind: 'snapshot-deleted', snapshot: id }, record.owner);
    const known = records.get(id);
    // One whose delete failed is marked already, and so told.
    if (known !== undefined)
      await this.#markDeleting(id, record, known.isComplete ? event.persist : undefined);
    const isTold = records.get(id)?.isComplete !== true;
    faults.reach('snapshot-delete.marked');
    await saved.remove();
    faults.reach('snapshot-delete.files');
    await (isTold ? records.remove(id) : records.remove(id, event.persist).catch(() => records.remove(id)));
    faults.reach('snapshot-delete.forgotten');
    this.#entries.delete(id);
    event.publish();
  }

  /** From here on the next start would finish it. */
  async #markDeleting(id: string, record: SnapshotRecord, keep?: () => void): Promise<void> {
    const { records, log } = this.#options;
    try {
      await records.put(id, { ...record, isComplete: false }, keep);
    } catch (err) {
      // A delete must work on a full disk, too: it is what makes room.
      log.warn({ err, snapshot: id }, 'the delete of a snapshot cannot be written down beforehand');
    }
  }

  #find(id: string): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw noSnapshot(id);
    return entry;
  }

  #dir(id: string): string {
    return join(snapshotsRoot(this.#options.dataDir), id);
  }
}

export function noSnapshot(id: string): AppError {
  return new AppError('not_found', `snapshot ${id} does not exist`);
}
