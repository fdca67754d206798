// What a daemon has acknowledged survives power cuts. A mixed load runs on a disk that records its writes and flushes;
// then the state of that disk after a cut at many moments, among them every fault point, is made, and a daemon started
// on each. Two more hosts on it move sandboxes over a bucket, and lose their power at the same moments. Needs root, FUSE
// and loop devices.
// usage: node test/power/run.ts [--cuts 20] [--seconds 60] [--seed n] [--at move.,arrival.]
import { execFile } from 'node:child_process';
import { createReadStream, openSync, writeSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { FAULT_POINTS } from '../../host-agent/src/lib/faults.ts';
import {
  BAKED_DATA_DIR,
  type Daemon,
  type DaemonOptions,
  type Directories,
  leftovers,
  spawnDaemon,
} from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings } from '../support/s3/store.ts';
import { World } from '../unit/host-agent/images/world.ts';
import { inspect } from './aftermath.ts';
import { JournaledObjects } from './bucket.ts';
import { DiskThread, randomOf } from './disk-thread.ts';
import { LOAD_KEY, Load } from './load.ts';
import { MountedDisk } from './mounted-disk.ts';
import { inspectMoves, MovesLoad } from './moves.ts';
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
    /** Cuts are at fault points that begin with one of these, or behind them. */
    at: { type: 'string' },
  },
});
const seed = Number(values.seed);
const random = randomOf(seed);
const run = promisify(execFile);

const work = await mkdtemp(join(tmpdir(), 'power-'));
const ends: (() => Promise<unknown>)[] = [() => rm(work, { recursive: true, force: true })];
const thread = new DiskThread(seed);
ends.push(() => thread.close());
const teardown = { teardown: (end: () => unknown) => void ends.push(async () => end()) };
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    console.log('power: stops after this step');
    stopping.abort();
  });
const objects = new JournaledObjects(() => thread.position);
const storeEnvironment = await startBucket();
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
  const recorded = await recordLoad();
  const { load, moves, first, marks } = recorded;
  const last = thread.position;
  console.log(`power: ${last} writes and flushes; ${JSON.stringify({ ...load.done, ...moves.done })}`);
  const missing = FAULT_POINTS.filter((point) => !marks.has(point));
  console.log(`power: fault points that were not reached: ${missing.join(', ') || 'none'}`);
  const refused = [...load.refused, ...moves.refused];
  for (const text of refused) console.log(`power: refused: ${text}`);
  let failed = refused.length;
  let passed = 0;
  const cuts = chooseCuts(marks, first, last);
  for (const { position, where } of cuts) {
    if (stopping.signal.aborted) break;
    const broken = await cutAt(position, where, recorded);
    for (const text of broken) console.log(`power: FAILED ${where} at ${position}: ${text}`);
    if (broken.length === 0) passed++;
    else failed++;
  }
  console.log(`${passed} passed, ${failed} failed`);
  const isStopped = stopping.signal.aborted;
  if (isStopped) console.log(`power: stopped by a signal, of ${cuts.length} cuts`);
  return failed === 0 && !isStopped ? 0 : 1;
}

/** The settings of a snapshot store, as variables. */
async function startBucket(): Promise<Record<string, string>> {
  const { url } = await startS3(teardown, { objects });
  const { bucket, prefix, endpoint, keyFile = '', credentialsFile = '' } = makeStoreSettings(teardown, url);
  return {
    SANDBOXD_SNAPSHOT_STORE: `s3://${bucket}/${prefix}`,
    SANDBOXD_SNAPSHOT_STORE_ENDPOINT: endpoint.origin,
    SANDBOXD_SNAPSHOT_STORE_KEY_FILE: keyFile,
    SANDBOXD_SNAPSHOT_STORE_CREDENTIALS_FILE: credentialsFile,
  };
}

type Hosts = { readonly main: Daemon; readonly pair: readonly [Daemon, Daemon] };

/** What is in `started` runs also if this rejects. */
async function startHosts(path: string, started: Daemon[], options: DaemonOptions = {}): Promise<Hosts> {
  const start = async (name: string, env?: Record<string, string>): Promise<Daemon> => {
    const directories = await makeDirectories(path, name);
    const daemon = await spawnDaemon(directories, { ...options, env: { ...options.env, ...env } });
    started.push(daemon);
    return daemon;
  };
  const all = [start('data'), start('left', storeEnvironment), start('right', storeEnvironment)] as const;
  await Promise.allSettled(all);
  const [main, ...pair] = await Promise.all(all);
  return { main, pair };
}

async function recordLoad() {
  const position = (): number => thread.position;
  const mounted = await MountedDisk.mount(join(work, 'disk'), join(work, 'recorded'));
  ends.push(() => mounted.unmount());
  const world = new World(teardown);
  const registry = await world.startRegistry();
  const refs = Array.from({ length: IMAGES }, (_, n) => `${registry}/power/image${n}:latest`);
  for (const ref of refs)
    world.push(ref, { layers: [[{ name: 'file', content: Buffer.alloc(300_000, ref) }]] });
  await authorize((await makeDirectories(mounted.path, 'data')).dataDir);

  const pipe = join(work, 'marks');
  await run('mkfifo', [pipe]);
  const marks = new Map<string, number[]>();
  // Opened for writing as well, so that it does not end with the daemons.
  const fd = openSync(pipe, 'r+');
  const reader = createReadStream('', { fd });
  reader.on('data', (chunk) => {
    for (const point of chunk.toString().trim().split('\n'))
      marks.set(point, [...(marks.get(point) ?? []), thread.position]);
  });
  const started: Daemon[] = [];
  ends.push(() => Promise.all(started.map((daemon) => daemon.end('SIGKILL'))));
  const { main, pair } = await startHosts(mounted.path, started, {
    onExit: 'destroy',
    faultsPath: join(work, 'faults'),
    env: { TEST_FAULT_MARKS: pipe },
  });
  const first = thread.position;
  const promises = new Promises(position);
  const load = new Load(main, promises, position, refs);
  const movePromises = new Promises(position);
  const moves = new MovesLoad(pair, movePromises, storeEnvironment, random);
  const stop = new AbortController();
  const following = load.readEvents(stop.signal);
  const working = new AbortController();
  const workers = Array.from({ length: WORKERS }, () => load.work(working.signal));
  workers.push(moves.work(working.signal));
  await sleep(Number(values.seconds) * 1000, undefined, { signal: stopping.signal }).catch(() => undefined);
  working.abort();
  await Promise.all(workers);
  await thread.stopRecording();
  objects.stopRecording();
  stop.abort();
  await following;
  for (const daemon of started) {
    await daemon.end();
    await rm(daemon.directories.runDir, { recursive: true, force: true });
  }
  reader.destroy();
  // Its last read waits in a thread, and would keep this process.
  writeSync(fd, '\n');
  await mounted.unmount();
  return { load, promises, moves, movePromises, first, marks };
}

/** A cut at each fault point, and at moments of the whole load. */
function chooseCuts(marks: ReadonlyMap<string, readonly number[]>, first: number, last: number) {
  const count = Number(values.cuts);
  const any = () => ({ position: first + Math.floor(random() * (last - first)), where: 'a moment' });
  const prefixes = values.at?.split(',');
  const wanted = [...marks].filter(([where]) => prefixes?.some((prefix) => where.startsWith(prefix)));
  if (prefixes !== undefined) {
    // Each point as often as others, at several of its moments; every second time between it and the next point.
    const all = [...marks.values()].flat().toSorted((a, b) => a - b);
    const cuts = wanted.flatMap(([where, positions]) => {
      const some = positions.toSorted(() => random() - 0.5).slice(0, Math.ceil(count / wanted.length / 2));
      return some.flatMap((position) => {
        const gap = (all.find((each) => each > position) ?? last) - position;
        const behind = position + Math.ceil(random() * gap);
        return [
          { position, where },
          { position: behind, where: `${behind - position} behind ${where}` },
        ];
      });
    });
    return cuts.toSorted((a, b) => a.position - b.position);
  }
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

async function cutAt(
  position: number,
  where: string,
  { load, promises, moves, movePromises }: Awaited<ReturnType<typeof recordLoad>>,
): Promise<string[]> {
  const socketPath = join(work, `cut-${position}-${Math.floor(random() * 1e9)}`);
  const { unflushed, kept } = await thread.cut(position, socketPath);
  objects.rewind(position);
  const mounted = await MountedDisk.mount(join(work, 'disk'), socketPath);
  const started: Daemon[] = [];
  try {
    const startedAt = performance.now();
    // LMDB takes what was committed and not flushed for safe until the host's boot id is another one, as after a cut.
    const { main, pair } = await startHosts(mounted.path, started, { env: { LMDB_RESTORE: 'safe' } });
    const startedMs = performance.now() - startedAt;
    const { broken, looked } = await inspect(main, load, promises, position, random);
    const context = { hosts: pair, load: moves, promises: movePromises, storeEnvironment, objects, random };
    broken.push(...(await inspectMoves(context, position)));
    for (const daemon of started) {
      const code = await daemon.end();
      if (code !== 0) broken.push(`a daemon ended with ${code}`);
      broken.push(...(await leftovers(daemon.directories, { ignore: KEPT })));
    }
    console.log(
      `power: cut at ${where} (${position}), ${kept} of ${unflushed} unflushed pieces kept; ` +
        `up after ${(startedMs / 1000).toFixed(1)} s; ${JSON.stringify(looked)}`,
    );
    return broken;
  } catch (error) {
    return [(error as Error).message];
  } finally {
    for (const daemon of started) {
      await daemon.end('SIGKILL');
      await rm(daemon.directories.runDir, { recursive: true, force: true });
    }
    await mounted.unmount();
  }
}

/** What was baked is not on the disk that is cut. */
async function makeDirectories(path: string, name: string): Promise<Directories> {
  const dataDir = join(path, name);
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
