// Everything that a daemon could leave behind on its host: processes, open and deleted files, sockets, mounts, loop
// devices, cgroups, directories, records, unfinished logs.
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { open } from 'lmdb';
import { LOCK_NAME } from '../../host-agent/src/lib/instance-lock.ts';
import { MAX_TABLES } from '../../host-agent/src/store/store.ts';
import { settled } from './settled.ts';

export const DAEMON_PROGRAM = join(resolve(import.meta.dirname, '../..'), 'dist/sandboxd');

/** The daemon from its sources, with fault injection. */
export const FAULTY_DAEMON = join(import.meta.dirname, 'faulty-daemon.ts');

export type Directories = { readonly dataDir: string; readonly runDir: string };

type LeftoversOptions = { readonly isRunning?: boolean; readonly ignore?: readonly string[] };

/** Files of a daemon, its tests and its bakery in a data directory. */
const KNOWN_NAMES: readonly string[] = [
  ...['profiles', 'kernels', 'layers', 'engines', 'agents', 'templates', 'snapshots', 'sandboxes', 'logs'],
  ...['state.lmdb', 'state.lmdb-lock', 'secrets-key', 'audit', 'egress', 'images', 'faults', LOCK_NAME],
];

/** Files of a snapshot. */
const SAVED_NAMES: readonly string[] = [
  'memory',
  'state',
  'disk',
  'manifest.json',
  'rootfs.ext4',
  'agent.ext4',
];

/** Directories of the run directory with a file of each sandbox. */
const SHARED = ['idle', 'used'];

/**
 * Lists what a daemon must not leave after a graceful stop without sandboxes. While it runs, `isRunning` excludes the
 * daemon itself, and `ignore` excludes sandboxes that are kept. Snapshots, templates and images are meant to stay.
 */
export function leftovers(directories: Directories, options: LeftoversOptions = {}): Promise<string[]> {
  const find = () => findLeftovers(directories, options);
  return options.isRunning === true ? settled(find) : find();
}

async function findLeftovers(
  directories: Directories,
  { isRunning = false, ignore = [] }: LeftoversOptions,
): Promise<string[]> {
  const { dataDir, runDir } = directories;
  const found = [
    ...(await findProcesses(directories, isRunning)),
    ...(await findSockets(directories)),
    ...(await findMounts(directories)),
    ...(await findLoopDevices(directories)),
    ...(await findControlGroups(directories)),
    ...(await findUnknownFiles(directories)),
    ...(await findOpenLogs(dataDir)),
    ...(await readRecordIds(dataDir, KEPT)).map((key) => `record ${key}`),
    ...(await findManyTables(dataDir)),
  ];
  for (const dir of [runDir, join(dataDir, 'sandboxes')])
    found.push(...(await names(dir)).filter((name) => name !== LOCK_NAME).map((name) => join(dir, name)));
  // Their entries are those of other sandboxes, too.
  for (const shared of SHARED.map((name) => join(runDir, name))) {
    const entries = await names(shared);
    if (!found.includes(shared) || entries.length === 0) continue;
    found.splice(found.indexOf(shared), 1, ...entries.map((name) => join(shared, name)));
  }
  return found.filter((line) => !ignore.some((kept) => line.includes(kept)));
}

/** Unix sockets bound below the directories; a killed VMM's sockets must disappear with its directory. */
export async function findSockets({ dataDir, runDir }: Directories): Promise<string[]> {
  const lines = (await readFile('/proc/net/unix', 'utf8')).split('\n');
  const paths = lines.flatMap((line) => / (\/\S+)$/.exec(line)?.[1] ?? []);
  const ours = paths.filter((path) => path.startsWith(`${runDir}/`) || path.startsWith(`${dataDir}/`));
  return [...new Set(ours)].map((path) => `socket ${path}`);
}

export async function findMounts({ dataDir, runDir }: Directories): Promise<string[]> {
  const points = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[4]);
  return points
    .filter((point) => point?.startsWith(`${dataDir}/`) || point?.startsWith(runDir))
    .map((point) => `mount ${point}`);
}

/** Tables whose records stay after all sandboxes are deleted. */
const KEPT = [
  'snapshots',
  'stored_snapshots',
  'images',
  'audit',
  'events',
  'events_meta',
  'e2b_secrets',
  'fleet_host',
];

/** A daemon that opens as many as there may be does not start: none comes near to that. */
export async function findManyTables(dataDir: string, most = MAX_TABLES / 2): Promise<string[]> {
  const path = join(dataDir, 'state.lmdb');
  if (!existsSync(path)) return [];
  await using root = asyncClosing(open({ path, noSubdir: true, readOnly: true, maxDbs: MAX_TABLES }));
  const { length } = [...root.db.getKeys()];
  return length > most ? [`${length} tables in its registry, where ${MAX_TABLES} may be`] : [];
}

/** `<table>/<id>` of every record except the registry's own. */
export async function readRecordIds(
  dataDir: string,
  except: readonly string[] = [],
  isMeant: (record: unknown) => boolean = () => true,
): Promise<string[]> {
  const path = join(dataDir, 'state.lmdb');
  if (!existsSync(path)) return [];
  await using root = asyncClosing(open({ path, noSubdir: true, readOnly: true, maxDbs: MAX_TABLES }));
  const tables = [...root.db.getKeys()]
    .map(String)
    .filter((name) => name !== 'meta' && !except.includes(name));
  return tables.flatMap((name) => {
    const table = root.db.openDB<unknown, string>({ name, encoding: 'json' });
    return [...table.getRange()].flatMap(({ key, value }) => (isMeant(value) ? [`${name}/${key}`] : []));
  });
}

/** Logs of deleted sandboxes without an end marker, or with files that only a writer needs. */
export async function findOpenLogs(dataDir: string): Promise<string[]> {
  const logs = join(dataDir, 'logs');
  const alive = await names(join(dataDir, 'sandboxes'));
  const gone = (await names(logs)).filter((id) => !alive.includes(id));
  const open: string[] = [];
  for (const id of gone) {
    const files = await names(join(logs, id));
    if (!files.includes('ended') || files.includes('reserve')) open.push(`log ${id} is not ended`);
  }
  return open;
}

/** Found by their arguments or open files: a helper of a killed daemon has no such argument. */
async function findProcesses({ dataDir, runDir }: Directories, isRunning: boolean): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const isDaemon = isRunning && isDaemonProgram(args);
    const shown = `process ${pid} ${args.replaceAll('\0', ' ')}`;
    if (!isDaemon && (args.includes(runDir) || args.includes(`${dataDir}/sandboxes`))) found.push(shown);
    for (const file of await openFiles(pid)) {
      if (!file.startsWith(`${dataDir}/`) && !file.startsWith(`${runDir}/`)) continue;
      const isGone = file.endsWith(' (deleted)');
      if (!isDaemon || isGone) found.push(`${shown} has ${file} open`);
    }
    if (isRunning && (await isZombieOfDaemon(pid))) found.push(`zombie ${pid} of the daemon`);
  }
  return found;
}

function isDaemonProgram(args: string): boolean {
  return args.startsWith(DAEMON_PROGRAM) || args.split('\0')[1] === FAULTY_DAEMON;
}

async function openFiles(pid: string): Promise<string[]> {
  const fds = await names(`/proc/${pid}/fd`);
  return Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
}

async function isZombieOfDaemon(pid: string): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  if (!/^State:\s+Z/m.test(status)) return false;
  const parent = /^PPid:\s+(\d+)/m.exec(status)?.[1];
  const args = await readFile(`/proc/${parent}/cmdline`, 'utf8').catch(() => '');
  return isDaemonProgram(args);
}

async function findLoopDevices({ dataDir }: Directories): Promise<string[]> {
  const found: string[] = [];
  for (const name of (await names('/sys/block')).filter((device) => device.startsWith('loop'))) {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(() => '');
    if (file.startsWith(`${dataDir}/`)) found.push(`loop device ${name} of ${file.trim()}`);
  }
  return found;
}

/** Named after a sandbox of this data directory, known from its logs. */
async function findControlGroups({ dataDir }: Directories): Promise<string[]> {
  const ids = await names(join(dataDir, 'logs'));
  const groups = await readdir('/sys/fs/cgroup', { recursive: true }).catch((): string[] => []);
  return groups
    .filter((group) => group.includes('sbx') && ids.some((id) => group.includes(id)))
    .map((group) => `control group ${group}`);
}

async function findUnknownFiles({ dataDir }: Directories): Promise<string[]> {
  const found = (await names(dataDir)).filter((name) => !KNOWN_NAMES.includes(name));
  for (const folder of ['templates', 'snapshots']) {
    for (const name of await names(join(dataDir, folder))) {
      if (name.startsWith('.')) found.push(`half-made ${join(folder, name)}`);
      for (const file of await names(join(dataDir, folder, name)))
        if (!SAVED_NAMES.includes(file)) found.push(join(folder, name, file));
    }
  }
  return found;
}

function names(dir: string): Promise<string[]> {
  return readdir(dir).catch((): string[] => []);
}

function asyncClosing<T extends { close(): Promise<unknown> }>(db: T): { readonly db: T } & AsyncDisposable {
  return { db, [Symbol.asyncDispose]: async () => void (await db.close()) };
}
