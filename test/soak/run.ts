// `make soak HOURS=8`: rounds of a mixed load with faults. After each round everything is deleted, and what the daemon
// uses of its host is sampled; what grows is a failure. HOURS and REPORT (a directory) are environment variables.
import '../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ChaosLoad } from '../support/chaos.ts';
import { BAKED_DATA_DIR, type Daemon, type Directories, leftovers, spawnDaemon } from '../support/daemon.ts';
import { openInternet } from '../support/internet/index.ts';
import { findViolations, listHoldings } from '../support/invariants.ts';
import { findNetworkViolations } from '../support/network/violations.ts';
import { findInvalid, measureShare, workersFor } from './cpu-share.ts';
import { FAULTS, type FaultName } from './faults.ts';
import { type Soak, writeReport } from './report.ts';
import { countFiles, takeSample } from './sample.ts';

const run = promisify(execFile);
const HOURS = Number(process.env.HOURS ?? 1);
const REPORT = process.env.REPORT ?? join(import.meta.dirname, '../../dist/soak');
const MAX_WORKERS = 4;
const DISK_BYTES = '8G';
/** A daemon closes connections that clients keep open. */
const IDLE_MS = 8000;
/** Exit code of a run whose machine had too little time for it. */
const NOT_VALID = 3;
const MIN_ROUND_S = 20;
const MAX_ROUND_S = 240;
/** As many rounds at least, so that a line has enough samples. */
const MIN_ROUNDS = 18;
/** Settings with which what is kept reaches its limit within a short run. */
const FLAGS = [
  ...['--events-keep-bytes', String(2 ** 17), '--audit-max-bytes', String(8 * 2 ** 20)],
  // 16 logs of deleted sandboxes: the first rounds have more.
  ...['--sandbox-log-retention-bytes', String(2 ** 17), '--memory-overcommit-percent', '1000'],
];
/** What deletes leave. */
const KEPT = ['record seal_key_mark/', 'record secrets/'];

if (!(HOURS > 0)) {
  console.error(`HOURS is ${process.env.HOURS}, not a number of hours above 0, such as 8 or 0.5`);
  process.exit(2);
}
const ends: (() => unknown)[] = [];
try {
  process.exitCode = await main();
} finally {
  for (const end of ends.toReversed()) await end();
}

async function main(): Promise<number> {
  const internet = await openInternet({ teardown: (end) => void ends.push(end as () => unknown) });
  await internet.names.serve([`host-record=web.test,${internet.machines.web.address},60`]);
  const directories = await makeDisk();
  const work = await mkdtemp(join(tmpdir(), 'soak-'));
  ends.push(() => rm(work, { recursive: true, force: true }));
  const clockPath = join(work, 'clock');
  const start = (): Promise<Daemon> =>
    spawnDaemon(directories, {
      onExit: 'keep',
      faultsPath: join(work, 'faults'),
      env: { TEST_CLOCK: clockPath },
      flags: [...internet.daemonFlags, ...FLAGS],
    });
  let daemon = await start();
  ends.push(() => daemon.end('SIGKILL'));
  const ask = 'getent hosts web.test > /dev/null';
  const network = { enabled: true, allowlist: ['web.test'], ask } as const;
  const load = new ChaosLoad(daemon, { network, sleeps: true });

  const startedAt = performance.now();
  const totalMs = HOURS * 3_600_000;
  const roundS = Math.min(MAX_ROUND_S, Math.max(MIN_ROUND_S, totalMs / 1000 / MIN_ROUNDS / 1.5));
  const soak = { shares: [], samples: [], lastLife: 0, kills: [], faults: {}, failures: [] } as {
    -readonly [K in keyof Omit<Soak, 'done'>]: Soak[K] extends readonly (infer T)[] ? T[] : Soak[K];
  };
  const faults: Record<string, number> = {};
  const names = Object.keys(FAULTS) as FaultName[];
  const fail = (round: number, found: readonly string[]): void => {
    for (const text of found) console.log(`soak: FAILED in round ${round}: ${text}`);
    soak.failures.push(...found.map((text) => `round ${round}: ${text}`));
  };
  const ids = new Set<string>();
  let isStopping = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      console.log('soak: stops after this round');
      isStopping = true;
    });
  for (let round = 0; !isStopping && performance.now() - startedAt < totalMs; round++) {
    const stop = new AbortController();
    const share = await measureShare();
    soak.shares.push(share);
    const workerCount = workersFor(share, MAX_WORKERS);
    const workers = Array.from({ length: workerCount }, () => load.work(stop.signal));
    await sleep((roundS * 1000) / 3);
    // In the first third of the time, the daemon is killed in every second round.
    const isKilled = round % 2 === 1 && performance.now() - startedAt < totalMs / 3;
    const name = names[round % names.length] ?? 'vmm';
    fail(
      round,
      await FAULTS[name]({ daemon, load, clockPath }).catch((error: Error) => [`${name}: ${error.message}`]),
    );
    faults[name] = (faults[name] ?? 0) + 1;
    await sleep((roundS * 1000) / 3);
    if (isKilled) {
      await daemon.end('SIGKILL');
      faults.daemon = (faults.daemon ?? 0) + 1;
      soak.kills.push(soak.samples.length);
      soak.lastLife = soak.samples.length;
    } else await sleep((roundS * 1000) / 3);
    stop.abort();
    await Promise.all(workers);
    if (isKilled) daemon = await start();
    fail(round, await load.resume(daemon));
    fail(round, await findViolations(daemon));
    fail(round, await findNetworkViolations(daemon, []));
    fail(round, load.faults.splice(0));
    for (const id of [...load.sandboxes.keys(), ...load.gone]) ids.add(id);
    await load.finish();
    fail(round, await findViolations(daemon));
    await sleep(IDLE_MS);
    const sample = await takeSample(daemon, ids);
    const minute = (performance.now() - startedAt) / 60_000;
    soak.samples.push({ minute, round, sample });
    const files = await countFiles(directories.dataDir);
    console.log(
      `soak: ${minute.toFixed(1)} min, ${name}${isKilled ? ', daemon' : ''}, ${Math.round(share * 100)} % of the CPU ` +
        `time, ${workerCount} clients: ${JSON.stringify({ ...sample, files })}`,
    );
  }
  const { sandboxes, snapshots } = await listHoldings(daemon);
  if (sandboxes.length + snapshots.length > 0) fail(-1, [`left: ${[...sandboxes, ...snapshots]}`]);
  const code = await daemon.end();
  if (code !== 0) fail(-1, [`the daemon ended with ${code}`]);
  fail(-1, await leftovers(directories, { ignore: KEPT }));
  const { page, picture, growing } = writeReport({ ...soak, faults, done: load.done });
  await mkdir(REPORT, { recursive: true });
  await writeFile(join(REPORT, 'soak.md'), page);
  await writeFile(join(REPORT, 'soak.svg'), picture);
  console.log(page);
  console.log(
    `soak: ${join(REPORT, 'soak.md')}; ${soak.failures.length} failures, growing: ${growing.join(', ') || 'nothing'}`,
  );
  const invalid = findInvalid(soak.shares);
  if (invalid !== undefined) {
    console.log(`soak: not valid: ${invalid}`);
    return NOT_VALID;
  }
  return soak.failures.length + growing.length === 0 ? 0 : 1;
}

/** A data directory on a disk of its own. */
async function makeDisk(): Promise<Directories> {
  const dir = await mkdtemp(join(tmpdir(), 'soak-disk-'));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  const [image, mount] = [join(dir, 'image'), join(dir, 'mnt')];
  await mkdir(mount);
  await run('truncate', ['-s', DISK_BYTES, image]);
  await run('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  await run('mount', ['-o', 'loop,noatime', image, mount]);
  ends.push(() => run('umount', [mount]));
  const dataDir = join(mount, 'data');
  await mkdir(dataDir, { mode: 0o700 });
  for (const name of ['profiles', 'kernels', 'layers', 'engines', 'agents'])
    await symlink(join(BAKED_DATA_DIR, name), join(dataDir, name));
  const runDir = await mkdtemp(join(tmpdir(), 'sbxd-'));
  ends.push(() => rm(runDir, { recursive: true, force: true }));
  return { dataDir, runDir };
}
