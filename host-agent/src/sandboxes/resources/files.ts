// The directories of a sandbox, with its pinned root file system and its writable layer.
import { copyReserved, copySparse, ensurePristineLayer } from '@sandboxd/rootfs-builder';
import { makeSandboxDirs, removeSandboxDirs, sandboxPaths } from './paths.ts';
import { pinAgent, pinRootfs } from './pin.ts';
import type { Resource, StartFrom } from './resource.ts';

export const files: Resource = {
  stage: () => 'disk',

  async acquire({ context, paths, record, origin }) {
    const { directories, faults } = context;
    await makeSandboxDirs(paths);
    const { rootfsPath, agentPath } = record.options.rootfs;
    await pinRootfs(paths.dir, rootfsPath);
    if (agentPath !== undefined) await pinAgent(paths.dir, agentPath);
    faults.reach('start.directories');
    const { diskBytes } = record.options;
    const source = layerOf(origin) ?? (await ensurePristineLayer(directories.dataDir, diskBytes));
    // The layer of a template's guest is temporary and belongs to no user.
    const isReserved = context.reservesDisks && !(origin.kind === 'boot' && origin.memoryPath !== undefined);
    if (isReserved) await copyReserved(source, paths.layerPath, diskBytes);
    else await copySparse(source, paths.layerPath);
    faults.reach('start.disk');
  },

  async adopt({ paths, record }) {
    // Sandboxes of older daemons may not be pinned.
    await pinRootfs(paths.dir, record.options.rootfs.rootfsPath);
  },

  async sweep({ id, context, paths }) {
    await removeSandboxDirs(paths);
    // The record may name a run directory of an earlier configuration.
    await removeSandboxDirs(sandboxPaths(context.directories, id));
    context.faults.reach('delete.directories');
  },
};

/** The layer to copy; undefined: an empty one. */
function layerOf(origin: StartFrom): string | undefined {
  if (origin.kind === 'boot') return origin.layerPath;
  return origin.saved.isGeneric ? undefined : origin.saved.diskPath;
}
