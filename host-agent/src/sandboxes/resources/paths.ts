// Paths of a sandbox. Disks and logs are on the data directory's file system, where snapshots can be reflinked.
// Sockets are in the run directory, which has short paths and which a reboot empties.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { VmPaths } from '../../engines/engine.ts';
import { vmmRecordPath } from '../../engines/vmm-record.ts';

export type Directories = { readonly dataDir: string; readonly runDir: string };
export type SandboxPaths = VmPaths & { readonly layerPath: string };

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

export async function removeSandboxDirs(paths: SandboxPaths): Promise<void> {
  await rm(vmmRecordPath(paths), { force: true });
  await rm(paths.socketDir, { recursive: true, force: true });
  await rm(paths.dir, { recursive: true, force: true });
}
