// The directories of a sandbox, with its root filesystem pinned and its writable layer.
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
    // A template's is soon gone, and nobody's.
    const isReserved = context.reservesDisks && !(origin.kind === 'boot' && origin.memoryPath !== undefined);
    if (isReserved) await copyReserved(source, paths.layerPath, diskBytes);
    else await copySparse(source, paths.layerPath);
    faults.reach('start.disk');
  },

  async adopt({ paths, record }) {
    // One of a daemon that did not do so yet.
    await pinRootfs(paths.dir, record.options.rootfs.rootfsPath);
  },

  async sweep({ id, context, paths }) {
    await removeSandboxDirs(paths);
    // The record may name a run directory that this daemon does not have any more.
    await removeSandboxDirs(sandboxPaths(context.directories, id));
    context.faults.reach('delete.directories');
  },
};

/** Undefined: an empty one. */
function layerOf(origin: StartFrom): string | undefined {
  if (origin.kind === 'boot') return origin.layerPath;
  return origin.saved.isBare ? undefined : origin.saved.diskPath;
}
