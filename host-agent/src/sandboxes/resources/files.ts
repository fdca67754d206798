// The directories of a sandbox, with its root filesystem pinned and its writable layer.
import { copySparse, createWritableLayer } from '@sandboxd/rootfs-builder';
import { makeSandboxDirs, removeSandboxDirs, sandboxPaths } from './paths.ts';
import { pinRootfs } from './pin.ts';
import type { Resource } from './resource.ts';

export const files: Resource = {
  stage: () => 'disk',

  async acquire({ context, paths, record, origin }) {
    const { directories, faults } = context;
    await makeSandboxDirs(paths);
    await pinRootfs(paths.dir, record.options.rootfs.rootfsPath);
    faults.reach('start.directories');
    if (origin.kind === 'saved') await copySparse(origin.saved.diskPath, paths.layerPath);
    else await createWritableLayer(directories.dataDir, paths.layerPath, record.options.diskBytes);
    faults.reach('start.disk');
  },

  async adopt({ paths, record, held }) {
    // One of a daemon that did not do so yet.
    if (held.vm?.exit === undefined) await pinRootfs(paths.dir, record.options.rootfs.rootfsPath);
  },

  async release({ id, context, paths }) {
    await removeSandboxDirs(paths);
    // The record may name a run directory that this daemon does not have any more.
    await removeSandboxDirs(sandboxPaths(context.directories, id));
    context.faults.reach('delete.directories');
  },
};
