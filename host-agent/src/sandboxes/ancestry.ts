// Which snapshot another came from. A deleted one stays as a stub, without files, while others came from it.
import type { Logger } from 'pino';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import { parentOf, type SandboxRecord } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import { noSnapshot, type SnapshotRecord } from './snapshot-record.ts';
import type { SnapshotInfo, TreeNode } from './types.ts';

type Linked = Pick<SnapshotRecord, 'parentId'>;

/** Those before it, nearest first, deleted ones included. */
export function* ancestorsOf(id: string, find: (id: string) => Linked | undefined): Generator<string> {
  const seen = new Set<string>([id]);
  for (let at = find(id)?.parentId; at !== undefined && !seen.has(at); at = find(at)?.parentId) {
    seen.add(at);
    yield at;
  }
}

/**
 * The stubs to keep, with their parents: those from which something that exists came directly, and those at which
 * lines of other stubs part. So there are fewer than twice as many as things that exist. `parents`: of those.
 */
export function compactStubs<T extends Linked>(
  stubs: ReadonlyMap<string, T>,
  parents: Iterable<string | undefined>,
): Map<string, T> {
  const find = (id: string) => stubs.get(id);
  const kept = new Set<string>();
  const children = new Map<string, Set<string>>();
  for (const parent of parents) {
    if (parent === undefined || !stubs.has(parent) || kept.has(parent)) continue;
    kept.add(parent);
    let child = parent;
    for (const id of ancestorsOf(parent, find)) {
      if (!stubs.has(id)) break;
      const known = children.get(id);
      children.set(id, (known ?? new Set()).add(child));
      if (known !== undefined) break;
      child = id;
    }
  }
  for (const [id, { size }] of children) if (size > 1) kept.add(id);
  const isShown = (id: string) => kept.has(id) || !stubs.has(id);
  return new Map(
    [...stubs].flatMap(([id, stub]) => {
      if (!kept.has(id)) return [];
      const parentId = ancestorsOf(id, find).find(isShown);
      const { parentId: before, ...rest } = stub;
      const changed = { ...rest, ...(parentId !== undefined && { parentId }) } as unknown as T;
      return [[id, parentId === before ? stub : changed] as const];
    }),
  );
}

type AncestryOptions = {
  readonly records: Table<SnapshotRecord>;
  readonly sandboxRecords: Table<SandboxRecord>;
  readonly log: Logger;
};

export class Ancestry {
  readonly #options: AncestryOptions;
  #stubs = new Map<string, SnapshotRecord>();

  constructor(options: AncestryOptions) {
    this.#options = options;
  }

  /** A stub of the registry. */
  add(id: string, stub: SnapshotRecord): void {
    this.#stubs.set(id, stub);
  }

  /** Nearest first, deleted ones included. */
  ancestorsOf(id: string): string[] {
    const { records } = this.#options;
    return [...ancestorsOf(id, (each) => this.#stubs.get(each) ?? records.get(each))];
  }

  /** All snapshots of its tree, deleted ones included. AppError not_found; what is not visible does not exist. */
  tree(id: string, isVisible: (owner: Owner | undefined) => boolean): TreeNode[] {
    const all = new Map(
      this.#options.records
        .all()
        .flatMap(({ id, record }) =>
          (record.isComplete || record.deletedAtMs !== undefined) && isVisible(record.owner)
            ? [[id, record] as const]
            : [],
        ),
    );
    if (!all.has(id)) throw noSnapshot(id);
    const children = Map.groupBy(all.keys(), (each) => all.get(each)?.parentId);
    const ancestors = [...ancestorsOf(id, (each) => all.get(each))];
    const family = new Set([ancestors.findLast((each) => all.has(each)) ?? id]);
    for (const each of family) for (const child of children.get(each) ?? []) family.add(child);
    return [...family].flatMap((each) => {
      const record = all.get(each);
      if (record === undefined) return [];
      const { parentId, createdAtMs, sourceId, about, deletedAtMs } = record;
      return {
        kind: 'snapshot',
        id: each,
        ...(parentId !== undefined && all.has(parentId) && { parentId }),
        createdAt: new Date(createdAtMs),
        sourceId,
        ...(about?.name !== undefined && { name: about.name }),
        ...(deletedAtMs !== undefined && { isDeleted: true as const }),
      };
    });
  }

  /** Removes the record of a snapshot, or leaves a stub if others came from it. */
  async forget(id: string, record: SnapshotRecord, persist?: () => void): Promise<void> {
    const { records } = this.#options;
    if (!this.#parents().includes(id)) return records.remove(id, persist);
    const { about: _, authority: _authority, ...rest } = record;
    const stub = { ...rest, isComplete: false, deletedAtMs: Date.now() };
    const isStored = await records.put(id, stub, persist).then(
      () => true,
      // A delete must also work on a full disk, because it frees space.
      () => false,
    );
    if (!isStored) return records.remove(id, persist);
    this.add(id, stub);
  }

  /** Forgets the stubs that are not needed any more. Never rejects. */
  async compact(): Promise<void> {
    const { records, log } = this.#options;
    const before = this.#stubs;
    if (before.size === 0) return;
    const stubs = compactStubs(before, this.#parents({ hasStubs: false }));
    this.#stubs = stubs;
    const changed = [...stubs].flatMap(([id, record]) => (before.get(id) === record ? [] : [{ id, record }]));
    const removed = [...before.keys()].filter((id) => !stubs.has(id));
    if (changed.length + removed.length === 0) return;
    await records
      .putAll(changed, () => {
        for (const id of removed) void records.remove(id);
      })
      .catch((err) => log.warn({ err }, 'cannot remove what is left of deleted snapshots'));
  }

  /** What snapshots and sandboxes came from. */
  #parents({ hasStubs = true } = {}): (string | undefined)[] {
    const { records, sandboxRecords } = this.#options;
    const snapshots = records.all().filter(({ record }) => hasStubs || record.deletedAtMs === undefined);
    return [
      ...snapshots.map(({ record }) => record.parentId),
      ...sandboxRecords.all().map(({ record }) => parentOf(record)),
    ];
  }
}

/** Records what a sandbox continues from, in the transaction of `write`. */
export async function moveTo(
  records: Table<SandboxRecord>,
  sandbox: Sandbox,
  parent: string | undefined,
  write: (also?: () => void) => Promise<void>,
): Promise<void> {
  await sandbox.changes.add(async () => {
    if (sandbox.state === 'deleting' || sandbox.state === 'deleted') return write();
    const { parentSnapshotId: _, ...rest } = sandbox.record;
    const record = { ...rest, ...(parent !== undefined && { parentSnapshotId: parent }) };
    await write(() => void records.put(sandbox.id, record));
    sandbox.record = record;
  });
}

/**
 * A sandbox may go back to its own snapshots, and to those that it comes from. `ancestorsOf`: of a snapshot that may be
 * deleted. AppError conflict.
 */
export function assertComesFrom(
  { id, record }: Pick<Sandbox, 'id' | 'record'>,
  snapshot: Pick<SnapshotInfo, 'id' | 'sourceId'>,
  ancestorsOf: (id: string) => readonly string[],
): void {
  if (snapshot.sourceId === id) return;
  for (const start of [record.parentSnapshotId, record.sourceSnapshotId])
    if (start === snapshot.id || (start !== undefined && ancestorsOf(start).includes(snapshot.id))) return;
  const message = `snapshot ${snapshot.id} is not of sandbox ${id}, which does not come from it, either`;
  throw new AppError('conflict', `${message}; fork the snapshot`);
}
