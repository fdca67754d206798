// The files of a sandbox that goes back to a snapshot. Its own stay beside the snapshot's until the new guest has
// answered, so that every failure and every crash before that leads back to them.
//
//   prepareExchange ──▶ (the sandbox is paused, the registry says that it is rolling back) ──▶ exchange
//                                                          │ fails, or a crash           │ the registry says that it is
//                                                          ▼                             ▼ not rolling back any more
//                                                    undoExchange                  removeExchange
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { copyReserved, copySparse } from '@sandboxd/rootfs-builder';
import { errnoOf } from '../../lib/errors.ts';
import type { SandboxPaths } from '../resources/resource.ts';
import { pausedDir } from './paused.ts';
import { flush } from './save.ts';

type Paths = Pick<SandboxPaths, 'dir' | 'layerPath'>;

function placesOf({ dir }: Paths) {
  const root = join(dir, 'rollback');
  const old = join(root, 'old');
  return {
    root,
    old,
    newLayer: join(root, 'layer'),
    oldLayer: join(old, 'layer'),
    oldPaused: join(old, 'paused'),
  };
}

/** Copies the snapshot's disk; the sandbox runs on meanwhile. `reservedBytes`: the size, if it is allocated at once. */
export async function prepareExchange(paths: Paths, diskPath: string, reservedBytes?: number): Promise<void> {
  const { root, old, newLayer } = placesOf(paths);
  await rm(root, { recursive: true, force: true });
  await mkdir(old, { recursive: true, mode: 0o700 });
  await (reservedBytes === undefined
    ? copySparse(diskPath, newLayer)
    : copyReserved(diskPath, newLayer, reservedBytes));
}

/** Its VMM must have ended. */
export async function exchange(paths: Paths): Promise<void> {
  const { root, old, newLayer, oldLayer, oldPaused } = placesOf(paths);
  await rename(pausedDir(paths.dir), oldPaused).catch((error) => {
    if (errnoOf(error) !== 'ENOENT') throw error;
  });
  await rename(paths.layerPath, oldLayer);
  await rename(newLayer, paths.layerPath);
  for (const dir of [old, root, paths.dir]) await flush(dir);
}

/** Back to its own files, wherever the exchange was interrupted. To be repeated after a failure or a crash. */
export async function undoExchange(paths: Paths): Promise<void> {
  const { root, old, oldLayer, oldPaused } = placesOf(paths);
  if (await exists(oldLayer)) await rename(oldLayer, paths.layerPath);
  if (await exists(oldPaused)) {
    await rm(pausedDir(paths.dir), { recursive: true, force: true });
    await rename(oldPaused, pausedDir(paths.dir));
  }
  if (await exists(old)) await flush(old);
  await flush(paths.dir);
  await rm(root, { recursive: true, force: true });
}

/** What is left of an exchange that is over, or that has not begun. */
export async function removeExchange(paths: Paths): Promise<void> {
  await rm(placesOf(paths).root, { recursive: true, force: true });
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
