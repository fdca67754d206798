// Files of a sandbox: its directories, its pinned root file system, its writable layer, and its durable log. Disks and
// logs are on the data directory's file system, where snapshots can be reflinked. Sockets are in the run directory,
// which has short paths and which a reboot empties.
import { link, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { copyReserved, copySparse, ensurePristineLayer } from '@sandboxd/rootfs-builder';
import { vmmRecordPath } from '../../engines/vmm-process.ts';
import { errnoOf } from '../../lib/errors.ts';
import type { Directories, Resource, SandboxPaths, StartFrom } from './resource.ts';

export function sandboxesRoot(directories: Directories): string {
  return join(directories.dataDir, 'sandboxes');
}

export function sandboxPaths(directories: Directories, id: string): SandboxPaths {
  const dir = join(sandboxesRoot(directories), id);
  return { dir, socketDir: join(directories.runDir, id), layerPath: join(dir, 'layer.ext4') };
}

export async function makeSandboxDirs(paths: SandboxPaths): Promise<void> {
  await mkdir(paths.dir, { recursive: true, mode: 0o700 });
  await mkdir(paths.socketDir, { recursive: true, mode: 0o700 });
}

async function removeSandboxDirs(paths: SandboxPaths): Promise<void> {
  await rm(vmmRecordPath(paths), { force: true });
  await rm(paths.socketDir, { recursive: true, force: true });
  await rm(paths.dir, { recursive: true, force: true });
}

const ROOTFS = 'rootfs.ext4';
const AGENT = 'agent.ext4';
/** The link exists already; the bake was removed; the file is on another file system, where nothing is collected. */
const IGNORED_ERRORS: readonly (string | undefined)[] = ['EEXIST', 'ENOENT', 'EXDEV'];

/** `dir`: the directory of a sandbox or saved guest, with which the link is removed. */
export function pinRootfs(dir: string, rootfsPath: string): Promise<void> {
  return pin(rootfsPath, join(dir, ROOTFS));
}

/** The same for the agent image. */
export function pinAgent(dir: string, agentPath: string): Promise<void> {
  return pin(agentPath, join(dir, AGENT));
}

async function pin(path: string, name: string): Promise<void> {
  await link(path, name).catch((error) => {
    if (!IGNORED_ERRORS.includes(errnoOf(error))) throw error;
  });
}

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
    const ownBytes = origin.kind === 'boot' ? (origin.template?.diskBytes ?? diskBytes) : diskBytes;
    const source = layerOf(origin) ?? (await ensurePristineLayer(directories.dataDir, ownBytes));
    // The layer of a template's guest is temporary and belongs to no user.
    const isReserved =
      context.settings.reservesDisks && !(origin.kind === 'boot' && origin.memoryPath !== undefined);
    if (isReserved) await copyReserved(source, paths.layerPath, diskBytes);
    else await copySparse(source, paths.layerPath);
    faults.reach('start.disk');
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
  // A paused sandbox has its layer; its files are not acquired.
  if (origin.kind === 'paused') return undefined;
  return origin.saved.isGeneric ? undefined : origin.saved.diskPath;
}

export const log: Resource = {
  stage: () => 'log',

  async acquire({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  async adopt({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  // Until the sweep it is readable like the log of a live sandbox.
  async sweep({ id, context, wasVisible }) {
    if (wasVisible) await context.logs?.end(id);
    else await context.logs?.remove(id);
  },
};
