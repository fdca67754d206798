// `sandbox tree`: which snapshots and sandboxes came from each other.
import type { SnapshotTreeNode } from '../../contract.ts';
import { formatAge } from '../terminal.ts';
import type { Verb } from '../verb.ts';

export const tree: Verb = {
  name: 'tree',
  operands: '<snapshot|sandbox>',
  completes: ['id'],
  summary: 'Show which snapshots and sandboxes came from each other',
  flags: {},
  example: 'sandbox tree $ID',
  async run({ operands: [id = ''] }, { client, terminal, signal, isJson }) {
    const info = id.startsWith('snap_') ? undefined : await client.sandboxes.get(id).info({ signal });
    const snapshot = info === undefined ? id : info.parent_snapshot_id;
    const nodes =
      snapshot === undefined
        ? [{ kind: 'sandbox' as const, ...info, id, created_at: info?.created_at ?? '' }]
        : await client.snapshots.get(snapshot).tree({ signal });
    if (isJson) terminal.printJson({ nodes });
    else for (const line of drawTree(nodes, id)) terminal.print(line);
    return 0;
  },
};

/** One line for each node; `marked` is the one that was asked for. A tree may be deeper than the stack. */
export function drawTree(
  nodes: readonly Pick<SnapshotTreeNode, 'id' | 'created_at' | 'parent_id' | 'name' | 'state' | 'deleted'>[],
  marked: string,
): string[] {
  const ids = new Set(nodes.map(({ id }) => id));
  const children = Map.groupBy(nodes, ({ parent_id = '' }) => (ids.has(parent_id) ? parent_id : ''));
  const lines: string[] = [];
  const seen = new Set<string>();
  const toWaiting = (parent: string, indent: string) =>
    (children.get(parent) ?? [])
      .map((node, at, { length }) => ({ node, indent, isTop: parent === '', isLast: at === length - 1 }))
      .reverse();
  const waiting = toWaiting('', '');
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { node, indent, isTop, isLast } = next;
    if (seen.has(node.id)) continue;
    seen.add(node.id);
    const branch = isTop ? '' : isLast ? '└─ ' : '├─ ';
    const facts = [node.name, node.state, node.deleted ? 'deleted' : formatAge(node.created_at)];
    const mark = node.id === marked ? ' *' : '';
    lines.push(`${indent}${branch}${node.id}${mark}  ${facts.filter(Boolean).join('  ')}`);
    waiting.push(...toWaiting(node.id, isTop ? indent : `${indent}${isLast ? '   ' : '│  '}`));
  }
  return lines;
}
