// The files that differ between two snapshots.
import type { FileDifference, SnapshotInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';
import { toVisible } from '../parts/format.ts';
import { Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { useClient } from '../session/use-session.ts';

const MAX_FILES = 1000;
const TONES: Readonly<Record<string, string>> = { added: 'good', removed: 'bad' };

type Props = {
  readonly snapshot: SnapshotInfo;
  readonly all: readonly SnapshotInfo[];
  readonly onClose: () => void;
};

export function DiffDialog({ snapshot, all, onClose }: Props) {
  const others = all.filter(({ id }) => id !== snapshot.id);
  // Its parent may have been deleted.
  const parent = others.find(({ id }) => id === snapshot.parent_snapshot_id);
  const [other, setOther] = useState((parent ?? others.at(-1))?.id ?? '');
  return (
    <Dialog title="Files that differ" isWide onClose={onClose}>
      {others.length === 0 ? (
        <p class="dialog-text">There is no other snapshot to compare with.</p>
      ) : (
        <>
          <label class="field">
            <span>Changes since</span>
            <select value={other} onChange={({ currentTarget }) => setOther(currentTarget.value)}>
              {others.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name === undefined ? id : `${toVisible(name)} (${id})`}
                </option>
              ))}
            </select>
          </label>
          <Differences from={other} to={snapshot.id} />
        </>
      )}
    </Dialog>
  );
}

function Differences({ from, to }: { readonly from: string; readonly to: string }) {
  const client = useClient();
  const { value, error } = useLoaded(`diff ${from} ${to}`, async (signal) => {
    const files: FileDifference[] = [];
    for await (const file of client.snapshots.get(from).diff(to, { signal })) {
      files.push(file);
      if (files.length === MAX_FILES) break;
    }
    return files;
  });
  if (error !== undefined) return <Problem error={error} />;
  if (value === undefined) return <Loading what="the differences" />;
  if (value.length === 0) return <p class="dialog-text">Their files are the same.</p>;
  return (
    <ul class="lines differences" tabIndex={0} aria-label="Files">
      {value.map(({ path, change }) => (
        <li key={path}>
          <span class={`tag tag-${TONES[change] ?? 'busy'}`}>{change}</span>
          <code>
            <bdi>{toVisible(path)}</bdi>
          </code>
        </li>
      ))}
    </ul>
  );
}
