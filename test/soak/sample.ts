// What a daemon without sandboxes uses of its host. The test is in a network namespace and the data directory on a file
// system of its own, so that nothing of another program counts.
import { execFile } from 'node:child_process';
import { readdir, readFile, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Daemon } from '../support/daemon.ts';
import { findMounts } from '../support/leftovers.ts';
import { pidsNaming } from '../support/vmms.ts';

const run = promisify(execFile);
const MIB = 2 ** 20;
const PAGE_BYTES = 4096;

/** `allowed`: growth that is no leak. `isOfDaemon`: it begins again with each daemon. */
export const LINES = {
  descriptors: { unit: '', allowed: 4, isOfDaemon: true },
  memory: { unit: 'MiB', allowed: 32, isOfDaemon: true },
  processes: { unit: '', allowed: 0.5, isOfDaemon: true },
  'unix sockets': { unit: '', allowed: 2, isOfDaemon: false },
  'files (inodes)': { unit: '', allowed: 60, isOfDaemon: false },
  disk: { unit: 'MiB', allowed: 64, isOfDaemon: false },
  cgroups: { unit: '', allowed: 0.5, isOfDaemon: false },
  mounts: { unit: '', allowed: 0.5, isOfDaemon: false },
  'network namespaces': { unit: '', allowed: 0.5, isOfDaemon: false },
  links: { unit: '', allowed: 0.5, isOfDaemon: false },
  'nftables lines': { unit: '', allowed: 2, isOfDaemon: false },
  'registry (LMDB)': { unit: 'pages', allowed: 512, isOfDaemon: false },
  'sandbox logs': { unit: 'MiB', allowed: 8, isOfDaemon: false },
  'audit and egress logs': { unit: 'MiB', allowed: 8, isOfDaemon: false },
} as const;

export type LineName = keyof typeof LINES;
export type Sample = Readonly<Record<LineName, number>>;

/** `ids`: of all sandboxes that there were, after which cgroups are named. */
export async function takeSample(daemon: Daemon, ids: ReadonlySet<string>): Promise<Sample> {
  const { dataDir, runDir } = daemon.directories;
  const pids = await findProcesses(daemon);
  const disk = await statfs(dataDir);
  const mounts = await findMounts(daemon.directories);
  const [descriptors, anonymous] = await Promise.all([
    sumOf(pids, async (pid) => (await readdir(`/proc/${pid}/fd`)).length),
    sumOf(pids, readAnonymousBytes),
  ]);
  const { stdout: rules } = await run('nft', ['list', 'ruleset']);
  return {
    descriptors,
    memory: anonymous / MIB,
    processes: pids.length,
    'unix sockets': await countLines('/proc/net/unix'),
    'files (inodes)': disk.files - disk.ffree,
    disk: ((disk.blocks - disk.bfree) * disk.bsize) / MIB,
    cgroups: await countGroups(ids),
    mounts: mounts.length,
    'network namespaces': mounts.filter((mount) => mount.includes(`${runDir}/net/`)).length,
    links: await countLines('/proc/net/dev'),
    'nftables lines': rules.split('\n').length,
    'registry (LMDB)': (await stat(join(dataDir, 'state.lmdb'))).size / PAGE_BYTES,
    'sandbox logs': (await sizeOf(join(dataDir, 'logs'))) / MIB,
    'audit and egress logs':
      ((await sizeOf(join(dataDir, 'audit'))) + (await sizeOf(join(dataDir, 'egress')))) / MIB,
  };
}

/** Files and directories in each entry of the data directory: what a line of inodes consists of. */
export async function countFiles(dataDir: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const entry of await readdir(dataDir, { withFileTypes: true }))
    if (entry.isDirectory())
      counts[entry.name] = (await readdir(join(dataDir, entry.name), { recursive: true })).length;
  return counts;
}

/** The daemon, what it started, and what names its directories. */
async function findProcesses({ pid, directories }: Daemon): Promise<number[]> {
  const found = new Set([
    pid,
    ...(await pidsNaming(directories.runDir)),
    ...(await pidsNaming(directories.dataDir)),
  ]);
  for (const parent of found)
    for (const task of await readdir(`/proc/${parent}/task`).catch(() => []))
      for (const child of (await readText(`/proc/${parent}/task/${task}/children`)).trim().split(' '))
        if (child !== '') found.add(Number(child));
  return [...found];
}

async function sumOf(pids: readonly number[], read: (pid: number) => Promise<number>): Promise<number> {
  // One that has just ended has nothing.
  const values = await Promise.all(pids.map((pid) => read(pid).catch(() => 0)));
  return values.reduce((total, value) => total + value, 0);
}

async function readAnonymousBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Anonymous:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
}

async function countGroups(ids: ReadonlySet<string>): Promise<number> {
  const groups = await readdir('/sys/fs/cgroup', { recursive: true }).catch((): string[] => []);
  return groups.filter((group) => ids.has(/sbx_[a-z0-9]+/.exec(group)?.[0] ?? '')).length;
}

async function countLines(path: string): Promise<number> {
  return (await readText(path)).split('\n').length;
}

async function sizeOf(dir: string): Promise<number> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(({ parentPath, name }) =>
      stat(join(parentPath, name)).then(
        ({ blocks }) => blocks * 512,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((total, size) => total + size, 0);
}

function readText(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
