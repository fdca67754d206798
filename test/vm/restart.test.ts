// Sandboxes and services continue over restarts of the daemon; running commands end; a crash leaves nothing behind.
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { SCHEMA_VERSION } from '../../host-agent/src/store/store.ts';
import { ApiError } from '../support/api.ts';
import { COUNT, START_COUNTING } from '../support/counter.ts';
import {
  type Daemon,
  type DaemonOptions,
  type Directories,
  ENVIRONMENT,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import type { LogPageJson } from '../support/service.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(400_000));

/** Directories for a row of daemons, of which the last one must end with nothing left. */
async function ownDirectories(t: Test): Promise<Directories> {
  const directories = await makeDirectories();
  t.teardown(async () => {
    const left = await leftovers(directories);
    await removeDirectories(directories);
    if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
  });
  return directories;
}

async function endDestroying(t: Test, directories: Directories): Promise<void> {
  const last = await spawnDaemon(directories);
  t.equal(await last.end(), 0);
}

const KEEP: DaemonOptions = { onExit: 'keep' };

t.test('a sandbox does not notice that its daemon is replaced', async (t) => {
  const directories = await ownDirectories(t);
  let daemon = await spawnDaemon(directories, KEEP);
  const cold = await daemon.api.create({ boot_args: 'cold=1', memory_mib: 256 });
  const warm = await daemon.api.create({ memory_mib: 256, timeout_s: 3600 });
  const both = [cold, warm];
  const pids = await Promise.all(both.map(({ id }) => vmmPids(id)));
  for (const { id } of both) {
    await daemon.api.sh(
      id,
      `echo ${id} > /root/file
       ${START_COUNTING}`,
    );
  }
  const list = async () => (await daemon.api.list()).map((each) => ({ ...each, last_used_at: '' }));
  const before = await list();
  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
    const counts = await Promise.all(both.map(({ id }) => daemon.api.sh(id, COUNT).then(Number)));
    const running = daemon.api.exec(cold.id, ['sleep', '600']).catch(() => undefined);
    await sleep(300);
    // A command that runs on costs the time to drain, which is not what is tested.
    if (signal === 'SIGKILL') await daemon.end(signal);
    else t.equal(await endTwice(daemon), 0, `ends in order by ${signal}`);
    await running;
    daemon = await spawnDaemon(directories, KEEP);
    t.same(await list(), before, `the same list after ${signal}`);
    t.same(await Promise.all(both.map(({ id }) => vmmPids(id))), pids, 'the same VMMs');
    for (const [index, { id }] of both.entries()) {
      t.equal(await daemon.api.sh(id, 'cat /root/file; hostname'), `${id}\n${id.replace('_', '-')}`);
      let count = 0;
      for (let tries = 0; tries < scaled(100) && count <= counts[index]!; tries++)
        count = Number(await daemon.api.sh(id, COUNT));
      t.ok(count > counts[index]!, 'it counted on');
    }
    const abandoned = () => daemon.api.sh(cold.id, 'pgrep -xa sleep | grep -w 600 || true');
    for (let waitedMs = 0; waitedMs < scaled(10_000) && (await abandoned()) !== ''; waitedMs += 200)
      await sleep(200);
    t.equal(await abandoned(), '', 'a command without client is ended');
  }
  const snapshot = await daemon.api.call<{ id: string; dir: string }>(
    'POST',
    `/sandboxes/${warm.id}/snapshot`,
  );
  await daemon.end('SIGKILL');
  daemon = await spawnDaemon(directories, KEEP);
  const { sandboxes } = await daemon.api.call<{ sandboxes: { id: string }[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
  );
  t.equal(
    await daemon.api.sh(sandboxes[0]!.id, 'cat /root/file'),
    warm.id,
    'an adopted one can be saved and forked',
  );
  await Promise.all([...both, ...sandboxes].map(({ id }) => daemon.api.delete(id)));
  await daemon.api.call('DELETE', `/snapshots/${snapshot.id}`);
  t.same(await leftovers(directories, { isRunning: true }), []);
  await daemon.end();
});

async function isUnreachable(ask: () => Promise<unknown>): Promise<boolean> {
  return ask().then(
    () => true,
    (error) => !(error instanceof ApiError) || error.status !== 500,
  );
}

/** The second signal does not wait for requests. */
async function endTwice(daemon: Daemon): Promise<number | null> {
  const ended = daemon.end('SIGTERM');
  await sleep(200);
  process.kill(daemon.pid, 'SIGTERM');
  return ended;
}

t.test('a lifetime goes on, and ends while no daemon runs', async (t) => {
  const directories = await ownDirectories(t);
  const daemon = await spawnDaemon(directories, KEEP);
  const short = await daemon.api.create({ memory_mib: 128, timeout_s: 2 });
  const long = await daemon.api.create({ memory_mib: 128, timeout_s: 3600 });
  // Which Node would answer with a debugger, open to every user of the machine.
  const caught = /^SigCgt:\s+(\w+)/m.exec(await readFile(`/proc/${daemon.pid}/status`, 'utf8'))?.[1];
  t.equal(BigInt(`0x${caught}`) & (1n << BigInt(constants.signals.SIGUSR1 - 1)), 0n, 'SIGUSR1 is not caught');
  // As when its terminal is closed.
  t.equal(await daemon.end('SIGHUP'), 0);
  await sleep(2000);
  const next = await spawnDaemon(directories);
  for (let waitedMs = 0; waitedMs < scaled(10_000) && existsSync(short.workdir); waitedMs += 100)
    await sleep(100);
  t.same(
    (await next.api.list()).map(({ id }) => id),
    [long.id],
  );
  t.equal(await next.end(), 0);
});

t.test('a stop while a daemon starts waits for what the start does, and loses nothing', async (t) => {
  const directories = await ownDirectories(t);
  const daemon = await spawnDaemon(directories, KEEP);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  await daemon.end();
  // A guest that does not answer holds up the adoption.
  const [pid = 0] = await vmmPids(id);
  process.kill(pid, 'SIGSTOP');
  const flags = ['--listen', '127.0.0.1:0', '--log-format', 'json', '--on-exit', 'destroy'];
  const dirs = ['--data-dir', directories.dataDir, '--run-dir', directories.runDir];
  const next = spawn(DAEMON_PROGRAM, [...flags, ...dirs], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Of an engine that it has to find first it would in the lab know after minutes.
    env: ENVIRONMENT,
  });
  let said = '';
  for (const stream of [next.stdout, next.stderr]) stream.on('data', (chunk) => (said += chunk));
  const exited = new Promise<number | null>((resolve) => next.once('exit', resolve));
  while (!said.includes('engine chosen') && next.exitCode === null) await sleep(20);
  await sleep(1500);
  next.kill('SIGTERM');
  await exited;
  process.kill(pid, 'SIGCONT');
  t.match(said, /was stopped while it started/);
  t.notMatch(said, /could not stop|cannot undo|unexpected failure|is already closed/);
  const last = await spawnDaemon(directories);
  t.equal(await last.api.sh(id, 'echo well'), 'well');
  t.equal(await last.end(), 0);
});

t.test(
  'sandboxes that died while no daemon ran are listed with their cause; unknown VMs are removed, others stay',
  async (t) => {
    const directories = await ownDirectories(t);
    const daemon = await spawnDaemon(directories, KEEP);
    const [killed, panicked, alive] = await Promise.all(
      [1, 2, 3].map(() => daemon.api.create({ memory_mib: 128 })),
    );
    // It panics once the daemon is gone.
    await daemon.api.sh(
      panicked!.id,
      "echo 1 > /proc/sys/kernel/sysrq; (setsid sh -c 'sleep 2; echo c > /proc/sysrq-trigger' > /dev/null 2>&1 &)",
    );
    await daemon.end('SIGKILL');
    for (const pid of await vmmPids(killed!.id)) process.kill(pid, 'SIGKILL');
    for (
      let waitedMs = 0;
      waitedMs < scaled(20_000) && (await vmmPids(panicked!.id)).length > 0;
      waitedMs += 100
    )
      await sleep(100);
    const ghost = 'sbx_0000000000000';
    for (const dir of [join(directories.dataDir, 'sandboxes', ghost), join(directories.runDir, ghost)])
      await mkdir(dir, { recursive: true });
    await mkdir(join(directories.dataDir, 'snapshots', 'snap_0000000000000'), { recursive: true });
    await writeFile(join(directories.runDir, 'note'), 'of somebody else');
    // Somebody looks into a log; the name of our directory does not make it ours.
    const reader = spawn('tail', ['-f', join(alive!.workdir, 'console.log')], { stdio: 'ignore' });

    for (const round of ['the next daemon', 'the one after it']) {
      const next = await spawnDaemon(directories, KEEP);
      t.same(
        (await next.api.list()).map(({ id }) => id).sort(),
        [killed, panicked, alive].map((sandbox) => sandbox!.id).sort(),
        round,
      );
      await t.rejects(next.api.exec(killed!.id, ['true']), {
        status: 500,
        message: /is dead: the VMM ended/,
      });
      await t.rejects(next.api.exec(panicked!.id, ['true']), {
        status: 500,
        message: /is dead: the guest panicked/,
      });
      t.equal(await next.api.sh(alive!.id, 'echo well'), 'well');
      await next.end('SIGKILL');
    }
    t.equal(reader.exitCode ?? reader.signalCode, null, 'a process of somebody else goes on');
    reader.kill();
    const last = await spawnDaemon(directories);
    for (const pid of await vmmPids(alive!.id)) process.kill(pid, 'SIGKILL');
    const ask = () => last.api.exec(alive!.id, ['true']);
    // The end of a process that is not the daemon's child is seen a little later.
    for (let waitedMs = 0; waitedMs < scaled(10_000) && (await isUnreachable(ask)); waitedMs += 100)
      await sleep(100);
    await t.rejects(ask(), {
      status: 500,
      message: /is dead: the VMM was killed/,
    });
    for (const sandbox of [killed, panicked, alive]) await last.api.delete(sandbox!.id);
    t.equal(await last.end(), 0);
    t.same(await readdir(directories.runDir), ['note', 'sandboxd.lock']);
    await rm(join(directories.runDir, 'note'));
    t.same(await readdir(join(directories.dataDir, 'snapshots')), []);
  },
);

t.test('after a restart of the host there are snapshots, and failed sandboxes', async (t) => {
  const directories = await ownDirectories(t);
  const daemon = await spawnDaemon(directories, KEEP);
  const sandbox = await daemon.api.create({ memory_mib: 128 });
  await daemon.api.sh(sandbox.id, 'echo kept > /root/file; echo said');
  const snapshot = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${sandbox.id}/snapshot`);
  await daemon.end('SIGKILL');
  for (const pid of await vmmPids(sandbox.id)) process.kill(pid, 'SIGKILL');
  await rm(directories.runDir, { recursive: true });
  const next = await spawnDaemon(directories, KEEP);
  t.match(await next.api.list(), [{ id: sandbox.id, state: 'failed' }]);
  await next.api.delete(sandbox.id);
  t.same(await leftovers(directories, { isRunning: true }), []);
  const page = await next.api.call<LogPageJson>('GET', `/sandboxes/${sandbox.id}/logs`);
  t.match(page.records.map(({ text }) => text).join(''), /said/, 'its log is there');
  const { profiles } = await next.api.call<{ profiles: string[] }>('GET', '/profiles');
  t.ok(profiles.includes('base'));
  const another = await next.api.create({ memory_mib: 128 });
  t.equal(await next.api.sh(another.id, 'echo new'), 'new');
  t.notOk(
    next.log.some(({ msg, isFirst }) => msg === 'template made' && isFirst === true),
    'the template is used again',
  );
  const { sandboxes } = await next.api.call<{ sandboxes: { id: string }[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
  );
  t.equal(await next.api.sh(sandboxes[0]!.id, 'cat /root/file'), 'kept');
  await next.end('SIGTERM');
  await endDestroying(t, directories);
});

t.test(
  'a second daemon on the same directories is refused, and the first one’s sandboxes stay',
  async (t) => {
    const directories = await ownDirectories(t);
    const daemon = await spawnDaemon(directories);
    const sandbox = await daemon.api.create({ memory_mib: 128 });
    await t.rejects(spawnDaemon(directories), { message: /in use by another sandboxd/ });
    // As in another container, which shares the directories but not the network.
    const elsewhere = ['--net', DAEMON_PROGRAM, '--listen', '127.0.0.1:0'];
    const flags = ['--data-dir', directories.dataDir, '--run-dir', directories.runDir];
    await t.rejects(promisify(execFile)('unshare', [...elsewhere, ...flags]), {
      code: 1,
      stderr: /in use by another sandboxd/,
    });
    t.equal(await daemon.api.sh(sandbox.id, 'echo here'), 'here');
    t.equal(await daemon.end(), 0);
  },
);

t.test('a registry that cannot be used refuses the start, and nothing that runs is touched', async (t) => {
  const directories = await ownDirectories(t);
  const registry = join(directories.dataDir, 'state.lmdb');
  const daemon = await spawnDaemon(directories, KEEP);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  const snapshot = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  await daemon.api.sh(id, 'echo kept > /root/file');
  await daemon.end('SIGKILL');
  const pids = await vmmPids(id);
  await copyFile(registry, `${registry}.good`);

  await writeFile(registry, 'not a database at all');
  await t.rejects(spawnDaemon(directories, KEEP), {
    message: /ended with 1:[\s\S]*cannot be used: .*restore it from a backup, or move it away/,
  });
  await copyFile(`${registry}.good`, registry);
  const root = open({ path: registry, noSubdir: true, maxDbs: 16 });
  const meta = root.openDB<number, string>({ name: 'meta' });
  await meta.put('schema_version', SCHEMA_VERSION + 1);
  await root.close();
  await t.rejects(spawnDaemon(directories, KEEP), {
    message:
      /ended with 1:[\s\S]*schema version \d+; this daemon reads version \d+; run the daemon that wrote it/,
  });
  t.same(await vmmPids(id), pids, 'the guest runs all the while');
  t.ok(existsSync(join(directories.dataDir, 'snapshots', snapshot.id, 'manifest.json')));

  await rename(`${registry}.good`, registry);
  const next = await spawnDaemon(directories);
  t.equal(await next.api.sh(id, 'cat /root/file'), 'kept', 'with the restored one it is adopted');
  await next.api.call('DELETE', `/snapshots/${snapshot.id}`);
  t.equal(await next.end(), 0);
});

t.test('a snapshot whose manifest cannot be read is kept and reported', async (t) => {
  const directories = await ownDirectories(t);
  const daemon = await spawnDaemon(directories);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  const { id: snapshot } = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  await daemon.end();
  const manifest = join(directories.dataDir, 'snapshots', snapshot, 'manifest.json');
  const good = await readFile(manifest, 'utf8');
  await writeFile(manifest, good.replace(/"formatVersion": \d+/, '"formatVersion": 99'));
  const next = await spawnDaemon(directories);
  t.same((await next.api.call<{ snapshots: object[] }>('GET', '/snapshots')).snapshots, []);
  t.match(
    next.log.filter((line) => line.snapshot === snapshot),
    [{ level: 'error', msg: /cannot be read and is not listed; its files stay/, reason: /formatVersion/ }],
  );
  await next.end();
  await writeFile(manifest, good);
  const last = await spawnDaemon(directories);
  const fork = `/snapshots/${snapshot}/fork`;
  const { sandboxes } = await last.api.call<{ sandboxes: { id: string }[] }>('POST', fork);
  t.equal(await last.api.sh(sandboxes[0]!.id, 'echo well'), 'well', 'and used again when it can be');
  await last.api.call('DELETE', `/snapshots/${snapshot}`);
  t.equal(await last.end(), 0);
});
