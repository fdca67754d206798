// What a daemon has acknowledged survives power cuts. A mixed load runs on a disk that records its writes and flushes;
// then the state of that disk after a cut at many moments, among them every fault point, is made, and a daemon started
// on each. Needs root, FUSE and loop devices.
// usage: node test/power/run.ts [--cuts 20] [--seconds 60] [--seed n]
import { execFile } from 'node:child_process';
import { createReadStream, openSync, writeSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { FAULT_POINTS } from '../../host-agent/src/lib/faults.ts';
import { BAKED_DATA_DIR, type Daemon, type Directories, leftovers, spawnDaemon } from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { World } from '../unit/host-agent/images/world.ts';
import { inspect } from './aftermath.ts';
import { DiskThread, randomOf } from './disk-thread.ts';
import { LOAD_KEY, Load } from './load.ts';
import { MountedDisk } from './mounted-disk.ts';
import { Promises } from './promises.ts';

const WORKERS = 3;
const DISK_BYTES = '16G';
const IMAGES = 3;
/** Deleting all sandboxes and snapshots leaves these. */
const KEPT = [
  'keys-required',
  'record keys/',
  'record key_uses/',
  'record secrets/',
  'record seal_key_mark/',
];

const { values } = parseArgs({
  options: {
    cuts: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const seed = Number(values.seed);
const random = randomOf(seed);
const run = promisify(execFile);

const work = await mkdtemp(join(tmpdir(), 'power-'));
const ends: (() => Promise<unknown>)[] = [() => rm(work, { recursive: true, force: true })];
const thread = new DiskThread(seed);
ends.push(() => thread.close());
try {
  process.exitCode = await main();
} finally {
  for (const end of ends.toReversed()) await end();
}

async function main(): Promise<number> {
  console.log(`power: seed ${seed}`);
  const image = join(work, 'image');
  await run('truncate', ['-s', DISK_BYTES, image]);
  await run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0,lazy_journal_init=0', '-i', '65536', image]);
  await thread.record(image, join(work, 'recorded'));
  const { load, promises, first, marks } = await recordLoad();
  const last = thread.position;
  console.log(`power: ${last} writes and flushes; ${JSON.stringify(load.done)}`);
  const missing = FAULT_POINTS.filter((point) => !marks.has(point));
  console.log(`power: fault points that were not reached: ${missing.join(', ') || 'none'}`);
  for (const text of load.refused) console.log(`power: refused: ${text}`);
  let failed = load.refused.length;
  let passed = 0;
  for (const { position, where } of chooseCuts(marks, first, last)) {
    const broken = await cutAt(position, where, load, promises);
    for (const text of broken) console.log(`power: FAILED ${where} at ${position}: ${text}`);
    if (broken.length === 0) passed++;
    else failed++;
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

async function recordLoad() {
  const position = (): number => thread.position;
  const mounted = await MountedDisk.mount(join(work, 'disk'), join(work, 'recorded'));
  const directories = await makeDirectories(mounted.path);
  const world = new World({ teardown: (end) => void ends.push(async () => end()) });
  const registry = await world.startRegistry();
  const refs = Array.from({ length: IMAGES }, (_, n) => `${registry}/power/image${n}:latest`);
  for (const ref of refs)
    world.push(ref, { layers: [[{ name: 'file', content: Buffer.alloc(300_000, ref) }]] });
  await authorize(directories.dataDir);

  const pipe = join(work, 'marks');
  await run('mkfifo', [pipe]);
  const marks = new Map<string, number[]>();
  // Opened for writing as well, so that it does not end with the daemon.
  const fd = openSync(pipe, 'r+');
  const reader = createReadStream('', { fd });
  reader.on('data', (chunk) => {
    for (const point of chunk.toString().trim().split('\n'))
      marks.set(point, [...(marks.get(point) ?? []), thread.position]);
  });
  const daemon = await spawnDaemon(directories, {
    onExit: 'destroy',
    faultsPath: join(work, 'faults'),
    env: { TEST_FAULT_MARKS: pipe },
  });
  const first = thread.position;
  const promises = new Promises(position);
  const load = new Load(daemon, promises, position, refs);
  const stop = new AbortController();
  const following = load.readEvents(stop.signal);
  const working = new AbortController();
  const workers = Array.from({ length: WORKERS }, () => load.work(working.signal));
  await sleep(Number(values.seconds) * 1000);
  working.abort();
  await Promise.all(workers);
  await thread.stopRecording();
  stop.abort();
  await following;
  await daemon.end();
  reader.destroy();
  // Its last read waits in a thread, and would keep this process.
  writeSync(fd, '\n');
  await rm(directories.runDir, { recursive: true, force: true });
  await mounted.unmount();
  return { load, promises, first, marks };
}

/** A cut at each fault point, and at moments of the whole load. */
function chooseCuts(marks: ReadonlyMap<string, readonly number[]>, first: number, last: number) {
  const count = Number(values.cuts);
  const any = () => ({ position: first + Math.floor(random() * (last - first)), where: 'a moment' });
  const points = [...marks].map(([where, positions]) => ({
    position: positions[Math.floor(random() * positions.length)] ?? last,
    where,
  }));
  const some = points
    .toSorted(() => random() - 0.5)
    .slice(0, Math.max(count - points.length, Math.ceil(count / 2)));
  const cuts = [...some, ...Array.from({ length: count - some.length }, any)];
  return cuts.toSorted((a, b) => a.position - b.position);
}

async function cutAt(position: number, where: string, load: Load, promises: Promises): Promise<string[]> {
  const socketPath = join(work, `cut-${position}-${Math.floor(random() * 1e9)}`);
  const { unflushed, kept } = await thread.cut(position, socketPath);
  const mounted = await MountedDisk.mount(join(work, 'disk'), socketPath);
  const directories = await makeDirectories(mounted.path);
  let daemon: Daemon | undefined;
  try {
    const startedAt = performance.now();
    // LMDB takes what was committed and not flushed for safe until the host's boot id is another one, as after a cut.
    daemon = await spawnDaemon(directories, { env: { LMDB_RESTORE: 'safe' } });
    const startedMs = performance.now() - startedAt;
    const { broken, looked } = await inspect(daemon, load, promises, position, random);
    const code = await daemon.end();
    if (code !== 0) broken.push(`the daemon ended with ${code}`);
    broken.push(...(await leftovers(directories, { ignore: KEPT })));
    console.log(
      `power: cut at ${where} (${position}), ${kept} of ${unflushed} unflushed pieces kept; ` +
        `up after ${(startedMs / 1000).toFixed(1)} s; ${JSON.stringify(looked)}`,
    );
    return broken;
  } catch (error) {
    return [(error as Error).message];
  } finally {
    await daemon?.end('SIGKILL');
    await rm(directories.runDir, { recursive: true, force: true });
    await mounted.unmount();
  }
}

/** What was baked is not on the disk that is cut. */
async function makeDirectories(path: string): Promise<Directories> {
  const dataDir = join(path, 'data');
  await mkdir(dataDir, { recursive: true });
  const there = await readdir(dataDir);
  for (const name of ['profiles', 'kernels', 'layers', 'engines', 'agents'])
    if (!there.includes(name)) await symlink(join(BAKED_DATA_DIR, name), join(dataDir, name));
  return { dataDir, runDir: await mkdtemp(join(tmpdir(), 'sbxd-')) };
}

/** All requests have a key, as the load makes and revokes others. */
async function authorize(dataDir: string): Promise<void> {
  const { stdout } = await run(DAEMON_PROGRAM, ['keys', 'create', LOAD_KEY, '--json', '--data-dir', dataDir]);
  const { key } = JSON.parse(stdout) as { key: string };
  const plain = globalThis.fetch;
  globalThis.fetch = (input, init) =>
    plain(input, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization: `Bearer ${key}` },
    });
}
