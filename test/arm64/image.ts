// The disks of the emulated arm64 host: a Debian tree with the packages that the daemon runs, the job, and a data
// directory with a kernel. Its packages are unpacked but not configured: their scripts cannot run here.
import { chmod, copyFile, mkdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { ARCHITECTURES } from '@sandboxd/proto';
import { ensureKernel, makeRootImage, type Progress, type ResolvedKernel } from '@sandboxd/rootfs-builder';
import { readHostAptSettings } from '../../rootfs-builder/src/debian/apt-settings.ts';
import { readHostSources, toSourceLine } from '../../rootfs-builder/src/debian/sources.ts';
import { createWorkDirectory } from '../../rootfs-builder/src/lib/atomic.ts';
import { mirrorEnvironment, runCommand } from '../../rootfs-builder/src/lib/command.ts';
import { digestFile, digestValue, shortDigest } from '../../rootfs-builder/src/lib/digest.ts';
import { runStep } from '../../rootfs-builder/src/lib/progress.ts';
import { foreignApt } from '../../scripts/fetch-arm64.ts';

const ROOT = resolve(import.meta.dirname, '../..');
export const DIST = join(ROOT, 'dist/arm64');
const INIT = join(ROOT, 'test/lab/init.sh');
const SUITE = 'bookworm';
/** The daemon's, without those that only bake, and what a Debian host has anyway. */
const PACKAGES = [
  'qemu-system-arm e2fsprogs zstd xz-utils lz4 kmod nftables iproute2 libnftables1 skopeo',
  'golang-github-containers-common bubblewrap ca-certificates procps curl mount libatomic1',
].flatMap((line) => line.split(' '));
/** Raise when the same packages, kernel and init.sh would give another image. */
const IMAGE_FORMAT = 1;
const GUEST_PROGRAMS = ['sh', 'true', 'uname', 'cat', 'echo', 'ls', 'id', 'sleep'];

/** The kernel of arm64 guests, which the host runs too. */
export async function ensureArm64Kernel(dataDir: string, progress: Progress): Promise<ResolvedKernel> {
  Object.assign(process.env, await foreignApt(join(DIST, 'apt')));
  try {
    const architecture = ARCHITECTURES.arm64;
    return await ensureKernel({ dataDir, initPath: join(DIST, 'guest-init'), architecture, progress });
  } finally {
    delete process.env.APT_CONFIG;
  }
}

/** Path of the host's root image. */
export async function ensureHostImage(
  kernel: ResolvedKernel,
  dir: string,
  progress: Progress,
): Promise<string> {
  const inputs = {
    format: IMAGE_FORMAT,
    packages: PACKAGES,
    kernel: kernel.digest,
    init: await digestFile(INIT),
  };
  const image = join(dir, `${shortDigest(digestValue(inputs))}.ext4`);
  if ((await stat(image).catch(() => undefined)) !== undefined) return image;
  await mkdir(dir, { recursive: true });
  const work = await createWorkDirectory(dir);
  try {
    const tree = join(work, 'tree');
    await runStep(progress, 'packages of an arm64 host (mmdebstrap)', () => unpackPackages(tree));
    await runStep(progress, 'root image of the arm64 host', async () => {
      await completeTree(tree, kernel);
      await makeRootImage(tree, join(work, 'image'));
    });
    await rename(join(work, 'image'), image);
    return image;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function unpackPackages(tree: string): Promise<void> {
  const settings = await readHostAptSettings();
  const sources = await readHostSources(SUITE);
  const args = [
    ...[
      '--mode=root',
      '--variant=extract',
      '--architectures=arm64',
      '--skip=check/qemu',
      '--format=directory',
    ],
    '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr',
    '--include=?essential',
    `--include=${PACKAGES.join(',')}`,
    ...settings.map((setting) => `--aptopt=${setting}`),
    ...['path-exclude=/usr/share/doc/*', 'path-exclude=/usr/share/man/*'].map(
      (option) => `--dpkgopt=${option}`,
    ),
    ...[SUITE, tree, ...sources.map(toSourceLine)],
  ];
  await runCommand('mmdebstrap', args, { env: mirrorEnvironment() });
}

/** What scripts of packages would have made, as far as the daemon needs it. */
async function completeTree(tree: string, kernel: ResolvedKernel): Promise<void> {
  const master = join(tree, 'usr/share/base-passwd');
  await copyFile(join(master, 'passwd.master'), join(tree, 'etc/passwd'));
  await copyFile(join(master, 'group.master'), join(tree, 'etc/group'));
  await writeFile(join(tree, 'etc/machine-id'), '0123456789abcdef0123456789abcdef\n');
  await runCommand('rm', ['-rf', join(tree, 'etc/mtab'), join(tree, 'usr/sbin/ip6tables')]);
  await runCommand('sh', ['-c', `[ -e "$1/usr/bin/awk" ] || ln -s mawk "$1/usr/bin/awk"`, 'sh', tree]);
  if (kernel.modulesPath === undefined) throw new Error('the kernel has no modules');
  await mkdir(join(tree, 'usr/lib'), { recursive: true });
  await runCommand('tar', [
    '--zstd',
    '--no-same-owner',
    '-xf',
    kernel.modulesPath,
    '-C',
    join(tree, 'usr/lib'),
    './modules',
  ]);
  for (const path of ['data', 'lab/job', 'lab/checkout', 'proc', 'sys', 'dev', 'run', 'tmp'])
    await mkdir(join(tree, path), { recursive: true });
  await copyFile(INIT, join(tree, 'lab/init'));
  await chmod(join(tree, 'lab/init'), 0o755);
}

/** The read-only disk with the build and the command. */
export async function makeJobDisk(path: string, script: string): Promise<void> {
  const tree = `${path}.tree`;
  const checkout = join(tree, 'checkout');
  await mkdir(join(checkout, 'dist'), { recursive: true });
  try {
    const built = [
      'sandboxd',
      'sandbox',
      'addons',
      'agent',
      'guest-init',
      'node_modules',
      'convert-image.mjs',
      'gateway.cjs',
    ];
    const helpers = ['claim', 'diffdisks', 'egressd', 'jail', 'memfd', 'netd', 'peers', 'portd'];
    for (const name of [...built, ...helpers])
      await runCommand('cp', ['-a', join(DIST, name), join(checkout, 'dist', name)]);
    await copyFile(script, join(tree, 'command'));
    await writeFile(join(tree, 'times'), '');
    await makeRootImage(tree, path);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

/** The writable disk: the kernel, and a root file system for guests with one program. */
export async function makeDataDisk(path: string, dataDir: string, sizeKib: number): Promise<void> {
  const tree = `${path}.tree`;
  for (const name of ['guests', 'sandboxd']) await mkdir(join(tree, name), { recursive: true });
  try {
    await runCommand('cp', ['-a', join(dataDir, 'kernels'), join(tree, 'sandboxd/kernels')]);
    await makeGuestRoot(dataDir, join(tree, 'guests/busybox.ext4'), `${path}.guest`);
    const features = ['-m', '0', '-O', '^has_journal'];
    await runCommand('mke2fs', ['-q', '-F', '-t', 'ext4', ...features, '-d', tree, path, `${sizeKib}k`]);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

export async function makeGuestRoot(dataDir: string, image: string, work: string): Promise<void> {
  const found = await runCommand('sh', [
    '-c',
    'ls "$1"/busybox-static_*.deb',
    'sh',
    join(dataDir, 'kernels/.packages'),
  ]);
  const root = join(work, 'root');
  try {
    await mkdir(join(root, 'bin'), { recursive: true });
    for (const name of ['etc', 'tmp', 'root', 'proc', 'sys', 'dev', 'run']) await mkdir(join(root, name));
    await runCommand('dpkg-deb', ['-x', found.trim().split('\n')[0] ?? '', join(work, 'deb')]);
    await copyFile(join(work, 'deb/bin/busybox'), join(root, 'bin/busybox'));
    await chmod(join(root, 'bin/busybox'), 0o755);
    for (const name of GUEST_PROGRAMS) await symlink(basename('/bin/busybox'), join(root, 'bin', name));
    await writeFile(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    await makeRootImage(root, image);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
