// What a build is for: this machine, or the other architecture (SANDBOXD_TARGET=arm64), with Debian's cross compilers.
import { join } from 'node:path';
import { ARCHITECTURES, type Architecture } from '@sandboxd/proto';

type Target = {
  readonly architecture: Architecture;
  /** What is built does not run here. */
  readonly isForeign: boolean;
  /** Where the build goes. */
  readonly dist: string;
  /** Directory of the npm packages that the build copies. */
  readonly modules: string;
  /** Before the names of compilers and their tools. */
  readonly toolPrefix: string;
  /** Options that find the target's static libraries. */
  readonly libraryOptions: readonly string[];
};

export function resolveTarget(name = process.env.SANDBOXD_TARGET || process.arch): Target {
  if (name === process.arch) {
    const architecture = ARCHITECTURES[name as keyof typeof ARCHITECTURES];
    return {
      ...{ architecture, isForeign: false, dist: 'dist', modules: 'node_modules' },
      ...{ toolPrefix: '', libraryOptions: [] },
    };
  }
  if (name !== 'arm64')
    throw new Error(`SANDBOXD_TARGET=${name}: only arm64 can be built on another architecture`);
  const dist = 'dist/arm64';
  const root = join(dist, 'sysroot/usr');
  return {
    ...{ architecture: ARCHITECTURES.arm64, isForeign: true, dist, modules: join(dist, 'npm/node_modules') },
    toolPrefix: 'aarch64-linux-gnu-',
    libraryOptions: ['-isystem', join(root, 'include'), '-L', join(root, 'lib/aarch64-linux-gnu')],
  };
}
