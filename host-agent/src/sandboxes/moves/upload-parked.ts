// Sends a paused sandbox to the snapshot store, whole or as changes of a copy that was sent before.
import { stat } from 'node:fs/promises';
import { readPageLog } from '../../engines/page-log.ts';
import type { FileBase, SentChunks } from '../../snapshot-store/index.ts';
import type { Sandbox } from '../sandbox.ts';
import { PARTS } from '../saved/archive/format.ts';
import { memoryDigestOf, openChanges, pausedDir } from '../saved/paused.ts';
import type { CopyDeps, KeptCopy } from './copy-ahead.ts';
import { describeParked, openParkedFiles, type ParkedFiles, parkedId } from './parked.ts';

export type ParkedUpload = {
  readonly sandbox: Sandbox;
  readonly departure: string;
  readonly wasRunning: boolean;
  /** Undefined: all chunks are named, as every version reads it. */
  readonly bases: KeptCopy['bases'] | undefined;
  /** Resolves when its VMM has ended. */
  readonly ended: Promise<void>;
  /** In place of what is offered: a host that has settled has removed it for good. */
  readonly replaces?: boolean;
  /** All is there; what makes it exist follows. */
  readonly beforeManifest: () => Promise<void>;
};

type Sent = {
  readonly files: ParkedFiles;
  readonly needsResync: boolean;
  /** Of the memory; undefined: nothing would notice changes of another base. */
  readonly digest: number | undefined;
  readonly bases: ReadonlyMap<string, FileBase> | undefined;
};

/** AppError as of the store's `upload`. */
export async function uploadParked(
  { sandbox, departure, wasRunning, bases, ended, replaces = false, beforeManifest }: ParkedUpload,
  { store, context }: Pick<CopyDeps, 'store' | 'context'>,
  signal: AbortSignal,
): Promise<SentChunks> {
  const { id, record } = sandbox;
  const { files, needsResync, ...sent } =
    (bases && (await findLogged(sandbox, bases))) ??
    (await settle(sandbox, { bases, ended }, context.faults));
  const { digest } = sent;
  const described = await describeParked(id, record, files, { needsResync, wasRunning });
  return await store.upload(
    {
      id: parkedId(id, departure),
      tenant: record.owner?.tenant,
      description: { ...described, ...(digest !== undefined && { memoryDigest: digest }) },
      files: PARTS.map((part) => {
        const base = digest === undefined ? undefined : sent.bases?.get(part);
        return { part, path: files[part], base };
      }),
      replaces,
      beforeManifest,
    },
    signal,
  );
}

/** What the pause has written since the copy that was sent: nothing of the memory is compared. */
async function findLogged({ paths, record }: Sandbox, bases: KeptCopy['bases']): Promise<Sent | undefined> {
  const base = bases.get('memory');
  if (record.paused?.hasMemory !== true || base === undefined) return undefined;
  const found = await openChanges(pausedDir(paths.dir), paths.layerPath);
  if (found === undefined || !(await isSameFile(found.vm.memoryPath, base.path))) return undefined;
  const { vm, manifest, changesPath, checksums } = found;
  const { sizeBytes } = manifest.memory;
  await checksums.overlay(vm.memoryPath, readPageLog(changesPath, sizeBytes));
  const changes = () => readPageLog(changesPath, sizeBytes);
  return {
    files: { memory: vm.memoryPath, state: vm.statePath, disk: paths.layerPath },
    needsResync: manifest.needsResync,
    digest: checksums.digest,
    bases: new Map(bases).set('memory', { ...base, changes }),
  };
}

/** Its memory becomes one file, which its VMM must not map any more. */
async function settle(
  sandbox: Sandbox,
  { bases, ended }: Pick<ParkedUpload, 'bases' | 'ended'>,
  faults: CopyDeps['context']['faults'],
): Promise<Sent> {
  await ended;
  const { files, needsResync } = await openParkedFiles(sandbox, faults);
  const digest = bases && (await memoryDigestOf(pausedDir(sandbox.paths.dir)).catch(() => undefined));
  return { files, needsResync, digest, bases };
}

/** One file under two names. */
async function isSameFile(path: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([stat(path), stat(other).catch(() => undefined)]);
  return a.ino === b?.ino && a.dev === b.dev;
}
