// An archive of all kernel modules with their indexes, for programs in the guest; it becomes part of the agent's image.
import { chmod, copyFile, mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { runCommand } from '../lib/command.ts';

/** Package of the module loader, for guests whose root has no modprobe. */
export const LOADER_PACKAGE = 'busybox-static';

/** Acts as `modprobe` when called by that name. */
const LOADER = 'bin/busybox';

type ModulesArchiveInput = {
  /** `<directory>/lib/modules/<release>`; it is moved away. */
  readonly modulesDir: string;
  /** Path of LOADER_PACKAGE's .deb file. */
  readonly loaderDeb: string;
  /** Must not exist yet. */
  readonly workDirectory: string;
  readonly archivePath: string;
};

/** Creates an archive with `modules/<release>/` and `modprobe`. */
export async function makeModulesArchive(input: ModulesArchiveInput): Promise<void> {
  const { modulesDir, loaderDeb, workDirectory, archivePath } = input;
  const release = basename(modulesDir);
  const base = dirname(dirname(dirname(modulesDir)));
  // As the package's scripts do on installation, but independent of this host's settings.
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
