// A data directory whose disk is full: what is new is refused, what runs stands still until there is room and goes on
// then, or is told so by its disk where its engine cannot do that, and what is deleted makes room.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, statfs, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { ApiError } from '../support/api.ts';
import {
  type Daemon,
  type DaemonOptions,
  type Directories,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { clockSkewS, NOW } from '../support/guest-clock.ts';
import { scaled } from '../support/time-scale.ts';
import { pidsNaming } from '../support/vmms.ts';

t.setTimeout(scaled(400_000));
const run = promisify(execFile);
const MIB = 2 ** 20;
/** Without templates: what fills the disk is only what the test writes. */
const OPTIONS: DaemonOptions = {
  onExit: 'keep',
  flags: ['--template-disk-bytes', '0', '--watchdog-timeout-s', '2'],
};

/** A data directory on a file system of its own. */
async function smallDisk(t: Test, sizeMib: number): Promise<Directories> {
  const roomy = await makeDirectories();
  const dataDir = await mkdtemp(join(tmpdir(), 'sbxd-full-'));
  await run('mount', ['-t', 'tmpfs', '-o', `size=${sizeMib}m,mode=700`, 'tmpfs', dataDir]);
  t.teardown(async () => {
    // What a test that failed left running would hold the mount.
    for (const pid of await pidsNaming(dataDir)) process.kill(pid, 'SIGKILL');
    await sleep(500);
    await run('umount', [dataDir]);
    await rm(dataDir, { recursive: true });
    await removeDirectories(roomy);
  });
  for (const name of ['profiles', 'kernels', 'layers', 'agents'])
    await symlink(join(roomy.dataDir, name), join(dataDir, name));
  return { dataDir, runDir: roomy.runDir };
}

/** Leaves so much of it free; the function gives the rest back. */
async function fill({ dataDir }: Directories, leftBytes: number): Promise<() => Promise<void>> {
  const path = join(dataDir, 'faults');
  // What runs there may take some of it in between.
  for (let tries = 1; ; tries++) {
    const { bavail, bsize } = await statfs(dataDir);
    const refusal = await run('fallocate', ['-l', String(bavail * bsize - leftBytes), path]).catch(
      (error: Error) => error,
    );
    if (!(refusal instanceof Error)) return () => rm(path);
    if (tries === 10) throw refusal;
  }
}

async function endDestroying(t: Test, daemon: Daemon): Promise<void> {
  for (const { id } of await daemon.api.list()) await daemon.api.delete(id);
  t.same(await leftovers(daemon.directories, { isRunning: true }), []);
  t.equal(await daemon.end(), 0);
}

t.test('a full disk fails the create and nothing else', async (t) => {
  const small = await spawnDaemon(await smallDisk(t, 300), OPTIONS);
  const sandbox = await small.api.create();
  t.equal(await small.api.sh(sandbox.id, 'head -c 80000000 /dev/zero > /root/big; sync; echo ok'), 'ok');
  await t.rejects(small.api.create(), { status: 503, message: /disk space/ });
  await t.rejects(small.api.call('POST', `/sandboxes/${sandbox.id}/snapshot`), {
    status: 503,
    message: /disk space/,
  });
  t.equal(await small.api.sh(sandbox.id, 'echo still here'), 'still here');
  await small.api.delete(sandbox.id);
  t.same(await leftovers(small.directories, { isRunning: true }), []);
  t.equal((await small.api.create()).profile, 'base', 'room again');
  await endDestroying(t, small);
});

/** Asks until the guest is said to be reachable. */
async function answer<T>(ask: () => Promise<T>): Promise<T | undefined> {
  let found: T | undefined;
  for (let tries = 0; tries < scaled(60) && found === undefined; tries++) {
    found = await ask().catch((error) => {
      if (!(error instanceof ApiError) || error.status !== 502) throw error;
      return sleep(500, undefined);
    });
  }
  return found;
}

async function standsStill(t: Test, directories: Directories, first: Daemon): Promise<void> {
  let daemon = first;
  const writer = await daemon.api.create({ memory_mib: 256 });
  const reader = await daemon.api.create({ memory_mib: 128 });
  // What its kernel has yet to write from its start would find the disk full, too, and it would stand still as well.
  await daemon.api.sh(reader.id, 'sync');
  const isStanding = () =>
    daemon.log.some(
      ({ msg, sandbox }) =>
        msg === "guest paused: the host's disk rejects its writes" && sandbox === writer.id,
    );
  const standstills = () =>
    daemon.log.filter(({ msg }) => msg === "guest paused: the host's disk rejects its writes").length;
  const until = async (condition: () => boolean, what: string) => {
    for (let tries = 0; tries < scaled(600) && !condition(); tries++) await sleep(100);
    t.ok(condition(), what);
  };
  const write = (name: string) =>
    daemon.api.exec(writer.id, [
      'sh',
      '-c',
      `head -c ${60 * MIB} /dev/zero | tr '\\0' x > /root/${name} && sync && md5sum < /root/${name}`,
    ]);

  let giveBack = await fill(directories, 20 * MIB);
  const writing = write('first');
  await until(isStanding, 'it stands still');
  t.equal(await daemon.api.sh(reader.id, 'echo well'), 'well', 'the other one does not notice');
  await until(() => daemon.log.some(({ msg }) => msg === 'a sandbox hangs'), 'the watchdog says so');
  await t.rejects(daemon.api.exec(writer.id, ['true']), {
    status: 502,
    message: /hangs: the host's disk does not take the guest's writes/,
  });
  await sleep(3000);
  await giveBack();
  const { stdout, result } = await writing;
  t.equal(result.exit_code, 0, 'its command went on as if nothing had been');
  const { stdout: expected } = await run('sh', ['-c', `head -c ${60 * MIB} /dev/zero | tr '\\0' x | md5sum`]);
  t.equal(stdout, expected, 'and nothing of it is lost');
  // It is said to stand still until it has run for a while, and its clock was stepped.
  const skewS = await answer(() => clockSkewS(() => daemon.api.sh(writer.id, NOW)));
  t.ok(skewS !== undefined && skewS < 1, `its clock was stepped: ${skewS} s off`);

  giveBack = await fill(directories, 20 * MIB);
  const before = standstills();
  const abandoned = write('second').catch(() => undefined);
  await until(() => standstills() > before, 'again');
  await daemon.end('SIGKILL');
  await abandoned;
  daemon = await spawnDaemon(directories, OPTIONS);
  await until(isStanding, 'the next daemon finds it standing');
  await giveBack();
  await until(() => daemon.log.some(({ msg }) => /paused guest/.test(msg ?? '')), 'and lets it go on');
  // The connection to its agent is made again.
  const found = await answer(() => daemon.api.sh(writer.id, 'md5sum < /root/first'));
  t.equal(found, expected.trim());
  await endDestroying(t, daemon);
}

/** What an engine does that hands the failed write to the guest, as an error of its disk. */
async function isTold(t: Test, directories: Directories, first: Daemon): Promise<void> {
  let daemon = first;
  const writer = await daemon.api.create({ memory_mib: 256 });
  const reader = await daemon.api.create({ memory_mib: 128 });
  const ids = [writer.id, reader.id];
  const giveBack = await fill(directories, 20 * MIB);
  // More than the guest's kernel keeps unwritten: once its journal has ended, a write must fail and not wait for others.
  const write = `head -c ${60 * MIB} /dev/zero | tr '\\0' x`;
  const writes = `${write} > /root/one & ${write} > /root/two & ${write} > /root/three & wait; sync /root/one`;
  const { stderr, result } = await daemon.api.exec(writer.id, ['sh', '-c', writes]);
  t.not(result.exit_code, 0, 'who waits for the disk learns of it');
  t.match(stderr, /Input\/output error|Read-only file system|No space/);
  const areWell = async (when: string) => {
    t.same(
      (await daemon.api.list()).map(({ id }) => id),
      ids,
      when,
    );
    t.equal(await daemon.api.sh(reader.id, 'cat /etc/hostname > /dev/null; echo well'), 'well', when);
    t.equal(await daemon.api.sh(writer.id, 'echo reachable'), 'reachable', when);
  };
  await areWell('the other one does not notice');
  await t.rejects(daemon.api.create(), { status: 503, message: /disk space/ });
  await daemon.end('SIGKILL');
  daemon = await spawnDaemon(directories, OPTIONS);
  await areWell('the next daemon adopts both');
  await giveBack();
  await areWell('and when there is room again');
  const touched = 'touch /root/later && echo writable || echo read-only';
  t.comment(`the writer's file system is ${await daemon.api.sh(writer.id, touched)} then`);
  const next = await daemon.api.create({ memory_mib: 128 });
  t.equal(await daemon.api.sh(next.id, 'echo new > /root/file && sync /root/file && echo ok'), 'ok');
  await endDestroying(t, daemon);
}

t.test('a guest whose writes the disk does not take', async (t) => {
  const directories = await smallDisk(t, 400);
  const daemon = await spawnDaemon(directories, OPTIONS);
  const engine = daemon.log.find(({ msg }) => msg === 'engine chosen')?.engine;
  if (engine === 'cloud-hypervisor') await isTold(t, directories, daemon);
  else await standsStill(t, directories, daemon);
});

t.test('on a disk without one free byte a daemon starts, and what there is can be deleted', async (t) => {
  const directories = await smallDisk(t, 700);
  let daemon = await spawnDaemon(directories, OPTIONS);
  const [one, other] = [
    await daemon.api.create({ memory_mib: 128 }),
    await daemon.api.create({ memory_mib: 128 }),
  ];
  const taken = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${one.id}/snapshot`);
  await fill(directories, 0);
  await daemon.api.call('DELETE', `/snapshots/${taken.id}`);
  t.same(await daemon.api.call('GET', '/snapshots'), { snapshots: [] });
  await rm(join(directories.dataDir, 'faults'));
  await fill(directories, 0);
  await daemon.api.delete(one.id);
  t.same(
    (await daemon.api.list()).map(({ id }) => id),
    [other.id],
  );
  await rm(join(directories.dataDir, 'faults'));
  await fill(directories, 0);
  await daemon.end('SIGKILL');
  daemon = await spawnDaemon(directories, OPTIONS);
  t.same(
    (await daemon.api.list()).map(({ id }) => id),
    [other.id],
    'it is adopted, though it may stand still',
  );
  await daemon.api.delete(other.id);
  await rm(join(directories.dataDir, 'faults'));
  await endDestroying(t, daemon);
});
