// The family of snapshots and sandboxes as trees: a sandbox below the snapshot that it continued from, a snapshot below
// the one that its sandbox had before.
import type { SandboxInfo, SnapshotInfo } from '@sandboxd/client';

export type Node =
  | {
      readonly kind: 'snapshot';
      readonly id: string;
      readonly snapshot: SnapshotInfo;
      readonly below: readonly Node[];
    }
  | {
      readonly kind: 'sandbox';
      readonly id: string;
      readonly sandbox: SandboxInfo;
      readonly below: readonly Node[];
    }
  /** A snapshot that was deleted, and that others came from. */
  | { readonly kind: 'deleted'; readonly id: string; readonly below: readonly Node[] };

/** The tops of the trees, newest first. Only sandboxes that have to do with a snapshot are in it. */
export function toForest(
  snapshots: readonly SnapshotInfo[],
  sandboxes: readonly SandboxInfo[],
): readonly Node[] {
  const byId = new Map(snapshots.map((each) => [each.id, each]));
  const below = new Map<string, (SnapshotInfo | SandboxInfo)[]>();
  const put = (parent: string, child: SnapshotInfo | SandboxInfo): void => {
    below.set(parent, [...(below.get(parent) ?? []), child]);
  };
  const tops: string[] = [];
  for (const snapshot of snapshots) {
    const parent = snapshot.parent_snapshot_id;
    if (parent === undefined) tops.push(snapshot.id);
    else put(parent, snapshot);
  }
  for (const sandbox of sandboxes) {
    const parent = sandbox.parent_snapshot_id ?? sandbox.source_snapshot_id;
    if (parent !== undefined) put(parent, sandbox);
  }
  for (const parent of below.keys()) if (!byId.has(parent)) tops.push(parent);
  const seen = new Set<string>();
  const build = (id: string): Node | undefined => {
    // A daemon has no cycles; a page must not hang even if it did.
    if (seen.has(id)) return undefined;
    seen.add(id);
    const children = (below.get(id) ?? []).flatMap((child): Node | Node[] => {
      if (isSandbox(child)) return { kind: 'sandbox', id: child.id, sandbox: child, below: [] };
      return build(child.id) ?? [];
    });
    const snapshot = byId.get(id);
    if (snapshot === undefined) return { kind: 'deleted', id, below: children };
    return { kind: 'snapshot', id, snapshot, below: children };
  };
  return tops.flatMap((id) => build(id) ?? []).reverse();
}

function isSandbox(item: SnapshotInfo | SandboxInfo): item is SandboxInfo {
  return 'state' in item;
}
