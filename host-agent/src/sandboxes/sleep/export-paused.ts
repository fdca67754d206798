// Exports a paused sandbox in the format of a snapshot. Its files are copied first, so that it may be resumed
// meanwhile.
import { onEnd, type PullStream } from '../../lib/byte-queue.ts';
import { newId } from '../../lib/ids.ts';
import type { ResourceContext } from '../resources/resource.ts';
import type { Sandbox } from '../sandbox.ts';
import { exportStream } from '../saved/archive/write-archive.ts';
import { removeSaved, snapshotsRoot, unfinishedDir } from '../saved/saved-guest.ts';
import type { Sleep } from './sleep.ts';

/** AppError as of `Sleep.copy`; nothing is left then, nor at the end of the stream. */
export async function exportPaused(
  sandbox: Sandbox,
  sleep: Pick<Sleep, 'copy'>,
  { directories }: Pick<ResourceContext, 'directories'>,
  signal: AbortSignal,
): Promise<PullStream> {
  const takenAtMs = sandbox.record.paused?.atMs ?? Date.now();
  // The next start removes what a killed daemon left.
  const dir = unfinishedDir(snapshotsRoot(directories.dataDir), newId('snap'));
  try {
    const saved = await sleep.copy(sandbox, dir, signal);
    const exported = { saved, sourceId: sandbox.id, takenAtMs, about: {} };
    return onEnd(exportStream(exported), () => void saved.remove().catch(() => undefined));
  } catch (error) {
    await removeSaved(dir);
    throw error;
  }
}
