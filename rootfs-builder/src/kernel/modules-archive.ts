// All modules of the kernel for programs in the guest, with their indexes, as an archive that becomes part of the agent's image.
import { chmod, copyFile, mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { runCommand } from '../lib/command.ts';

/** Loads modules for the kernel in guests whose root has no program for that. */
export const LOADER_PACKAGE = 'busybox-static';

/** `modprobe` by its name. */
const LOADER = 'bin/busybox';

export type ModulesArchiveInput = {
  /** `<somewhere>/lib/modules/<release>`; it is moved away. */
  readonly modulesDir: string;
  /** Path of LOADER_PACKAGE's file. */
  readonly loaderDeb: string;
  /** Not there yet. */
  readonly workDirectory: string;
  readonly archivePath: string;
};

/** The archive has `modules/<release>/` and `modprobe`. */
export async function makeModulesArchive(input: ModulesArchiveInput): Promise<void> {
  const { modulesDir, loaderDeb, workDirectory, archivePath } = input;
  const release = basename(modulesDir);
  const base = dirname(dirname(dirname(modulesDir)));
  // Of the package, as its scripts would do it on installing; not by the settings of this host.
  await runCommand('depmod', ['-C', '/dev/null', '-b', base, release]);
  const tree = join(workDirectory, 'tree');
  const loader = join(workDirectory, 'loader');
  await mkdir(join(tree, 'modules'), { recursive: true });
  await rename(modulesDir, join(tree, 'modules', release));
  await runCommand('dpkg-deb', ['-x', loaderDeb, loader]);
  await copyFile(join(loader, LOADER), join(tree, 'modprobe'));
  await chmod(join(tree, 'modprobe'), 0o755);
  const owner = ['--owner=0', '--group=0', '--numeric-owner'];
  await runCommand('tar', ['-I', 'zstd -10 -T0', ...owner, '-cf', archivePath, '-C', tree, '.']);
}
