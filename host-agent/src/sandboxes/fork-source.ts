// What forks of a snapshot start from: the files of this host, or those that the snapshot store has.
import type { StoredBinding } from '../secrets/index.ts';
import type { CopySource } from './create.ts';
import type { SavedManifest } from './saved/manifest.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import type { Snapshots } from './snapshots.ts';

export type ForkSource = {
  readonly options: SavedManifest['options'];
  /** With their values, which the options do not have. */
  readonly secrets: readonly StoredBinding[];
  readonly of: CopySource;
  readonly open: () => Promise<SavedGuest>;
};

/**
 * One that is only in the snapshot store is checked now, and fetched by `open`. AppError as of `Snapshots.open` and
 * `StoredSnapshots.fetch`.
 */
export async function findForkSource(
  snapshots: Pick<Snapshots, 'open' | 'authorityOf' | 'secretsOf' | 'stored'>,
  id: string,
  signal: AbortSignal,
): Promise<ForkSource> {
  const { stored } = snapshots;
  if (stored?.findRemote(id)) {
    const { secrets, ...options } = await stored.resolve(id, signal);
    const open = async () => {
      await stored.fetch(id, signal);
      return snapshots.open(id);
    };
    return { options, secrets, of: { sourceSnapshotId: id }, open };
  }
  const saved = snapshots.open(id);
  const of = { sourceSnapshotId: id, ...snapshots.authorityOf(id) };
  const secrets = snapshots.secretsOf(id);
  return { options: saved.manifest.options, secrets, of, open: async () => saved };
}
