// Sends a paused sandbox to the snapshot store, whole or as changes of a copy that was sent before.
import type { SentChunks } from '../../snapshot-store/index.ts';
import type { Sandbox } from '../sandbox.ts';
import { PARTS } from '../saved/archive/format.ts';
import { memoryDigestOf, pausedDir } from '../saved/paused.ts';
import type { CopyDeps, KeptCopy } from './copy-ahead.ts';
import { describeParked, openParkedFiles, parkedId } from './parked.ts';

type ParkedUpload = {
  /** Its VMM has ended. */
  readonly sandbox: Sandbox;
  readonly departure: string;
  readonly wasRunning: boolean;
  /** Undefined: all chunks are named, as every version reads it. */
  readonly bases: KeptCopy['bases'] | undefined;
  /** In place of what is offered: a host that has settled has removed it for good. */
  readonly replaces?: boolean;
  /** All is there; what makes it exist follows. */
  readonly beforeManifest: () => Promise<void>;
};

/** AppError as of the store's `upload`. */
export async function uploadParked(
  { sandbox, departure, wasRunning, bases, replaces = false, beforeManifest }: ParkedUpload,
  { store, context }: Pick<CopyDeps, 'store' | 'context'>,
  signal: AbortSignal,
): Promise<SentChunks> {
  const { id, record } = sandbox;
  const { files, needsResync } = await openParkedFiles(sandbox, context.faults);
  // Without it, nothing would notice changes of another base.
  const digest = bases && (await memoryDigestOf(pausedDir(sandbox.paths.dir)).catch(() => undefined));
  const described = await describeParked(id, record, files, { needsResync, wasRunning });
  return await store.upload(
    {
      id: parkedId(id, departure),
      tenant: record.owner?.tenant,
      description: { ...described, ...(digest !== undefined && { memoryDigest: digest }) },
      files: PARTS.map((part) => {
        const base = digest === undefined ? undefined : bases?.get(part);
        return { part, path: files[part], base };
      }),
      replaces,
      beforeManifest,
    },
    signal,
  );
}
