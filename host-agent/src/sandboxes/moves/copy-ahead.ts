// The first of the two uploads of a sandbox that leaves: it is saved and sent while it runs. Once it is paused, only
// what has changed since is to be sent: by whole chunks, or by pages if the files of the copy are kept until then. No
// manifest names these chunks, so none has to be removed.
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Vm } from '../../engines/engine.ts';
import { firstLine } from '../../lib/errors.ts';
import { type FileBase, STORE_FORMAT, type StoreManifest } from '../../snapshot-store/index.ts';
import type { ResourceContext } from '../resources/resource.ts';
import type { Sandbox } from '../sandbox.ts';
import { ChunkChecksums } from '../saved/chunk-checksums.ts';
import type { EarlierCopy } from '../saved/earlier-copy.ts';
import { flush } from '../saved/save.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import { partsOf } from '../stored/description.ts';
import type { SharedOptions } from '../stored/shared.ts';
import { describeParked, parkedId } from './parked.ts';
import type { RightOfWay } from './right-of-way.ts';

export type CopyDeps = {
  readonly context: Pick<ResourceContext, 'faults'>;
  readonly store: SharedOptions['store'];
  /** Under a hidden name; it runs on. */
  readonly save: (sandbox: Sandbox, signal: AbortSignal) => Promise<SavedGuest>;
  /** What is sent of one that runs waits for those that are paused. */
  readonly rightOfWay: RightOfWay;
  /** A stopping daemon waits for it, and aborts the signal. */
  readonly track: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly log: Logger;
};

/** `isNamed`: another host is to find what was sent. */
type Copying = CopyDeps & { readonly isNamed: boolean };

/** The files that were sent, of a copy that another host is to find; disposed, they are removed. */
export type KeptCopy = AsyncDisposable & {
  readonly bases: ReadonlyMap<string, FileBase>;
  /** For the pause. */
  readonly since: EarlierCopy | undefined;
};

/** Undefined: all is sent later, or no other host is to find it. Rejects only when aborted; nothing is left then. */
export async function copyAhead(
  sandbox: Sandbox,
  departure: string,
  deps: Copying,
  signal: AbortSignal,
): Promise<KeptCopy | undefined> {
  const { context, log, track } = deps;
  try {
    const kept = await track((stop) => copy(sandbox, departure, deps, AbortSignal.any([signal, stop])));
    await using unless = new AsyncDisposableStack();
    if (kept !== undefined) unless.use(kept);
    context.faults.reach('move.copied');
    unless.move();
    return kept;
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ sandbox: sandbox.id, reason: firstLine(error) }, 'a sandbox is sent only when it is paused');
    return undefined;
  }
}

async function copy(
  sandbox: Sandbox,
  departure: string,
  { context, log, save, store, rightOfWay, isNamed }: Copying,
  signal: AbortSignal,
): Promise<KeptCopy | undefined> {
  const { id, record } = sandbox;
  const startedAt = performance.now();
  const vm = sandbox.running?.vm;
  const saved = await save(sandbox, signal);
  await using files = new AsyncDisposableStack();
  // The next daemon removes what is left.
  files.defer(() =>
    saved.remove().catch((err) => log.warn({ err, sandbox: id }, 'cannot remove the copy of a sandbox')),
  );
  context.faults.reach('move.saved');
  const parts = partsOf(saved);
  const tenant = record.owner?.tenant;
  // Of a sandbox that was paused or rolled back meanwhile, this may be another guest's memory.
  const isSame = vm !== undefined && sandbox.running?.vm === vm;
  const { sentBytes, described } = await store.sendChunks(
    { tenant, files: parts, giveWay: (stop) => rightOfWay.give(stop) },
    signal,
  );
  let since: EarlierCopy | undefined;
  if (isNamed) {
    const [memory, state, disk] = parts.map(({ path }) => path);
    if (memory === undefined || state === undefined || disk === undefined)
      throw new Error('a part is missing');
    const { needsResync } = saved.manifest;
    const files = { memory, state, disk };
    const description = await describeParked(id, record, files, { needsResync, wasRunning: true });
    const sent: StoreManifest = {
      ...{ formatVersion: STORE_FORMAT, id: parkedId(id, departure), description, files: described },
      ...(tenant !== undefined && { tenant }),
    };
    if (isSame) since = await describeMemory(saved, vm, signal);
    await store.ahead.put(sent, signal);
  }
  const durationMs = Math.round(performance.now() - startedAt);
  log.info({ sandbox: id, sentBytes, durationMs }, 'a sandbox that is to leave was sent while it ran');
  if (!isNamed) return undefined;
  const bases = new Map<string, FileBase>();
  for (const stored of described) {
    const path = parts.find(({ part }) => part === stored.part)?.path;
    if (path !== undefined) bases.set(stored.part, { path, stored });
  }
  const kept = files.move();
  return { bases, since, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** While the guest runs: its pause is the shorter. */
async function describeMemory(saved: SavedGuest, vm: Vm, signal: AbortSignal): Promise<EarlierCopy> {
  const { memoryPath } = saved.vm;
  const checksumsPath = join(saved.dir, 'checksums');
  await (await ChunkChecksums.of(memoryPath, signal)).store(checksumsPath);
  for (const path of [memoryPath, checksumsPath]) await flush(path);
  return { vm, memoryPath, checksumsPath };
}
