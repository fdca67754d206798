// Imports a snapshot whose memory this host cannot restore: its disk is cold-booted here, and that guest is saved.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { enqueue } from '../lib/enqueue.ts';
import { newId } from '../lib/ids.ts';
import type { ResourceContext } from './resources/resource.ts';
import { saveAndDestroy } from './save-and-destroy.ts';
import type { ImportInput } from './saved/archive/import-guest.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { startSandbox } from './start.ts';

export type BootShared = { readonly startQueue: PQueue; readonly log: Logger };

/**
 * The service is not started, and the original kernel arguments are dropped. AppError as of the archive and of a
 * start.
 */
export async function bootImported(
  context: ResourceContext,
  { startQueue, log }: BootShared,
  { dir, archive, manifest, options: imported, signal }: ImportInput,
): Promise<SavedGuest> {
  const options = { ...imported, bootArgs: '' };
  const from = join(dir, 'imported');
  await mkdir(from, { recursive: true, mode: 0o700 });
  await archive.readParts(from, manifest, ['disk']);
  const id = newId('sbx');
  const memoryPath = join(dir, 'memory');
  const layerPath = join(from, manifest.parts.disk.name);
  // No client sees this guest, so it has no durable log.
  const hidden = { ...context, logs: undefined };
  const boot = async () => {
    await rm(memoryPath, { force: true });
    const origin = { kind: 'boot', memoryPath, layerPath } as const;
    return startSandbox(hidden, { id, options, origin, log: log.child({ sandbox: id }), signal });
  };
  const { engines } = context;
  const start = () => enqueue(startQueue, () => engines.bootOrReplaceEngine(boot, signal), signal);
  const sandbox = await engines.withReplacement(start);
  await using undo = new AsyncDisposableStack();
  undo.defer(() => sandbox.remove());
  await rm(from, { recursive: true });
  const { saved } = await saveAndDestroy(context, sandbox, { dir, options, signal });
  return saved;
}
