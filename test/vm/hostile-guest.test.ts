// Guests that mean harm: they fail alone. The daemon stays small and quick, and other sandboxes notice nothing.
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import {
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { makeTar, push } from '../support/files.ts';
import { buildGuestProgram, compileGuestProgram } from '../support/guest-program.ts';
import { settled } from '../support/settled.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

const MIB = 2 ** 20;
/** The least that a sandbox may have. */
const MEMORY_MIB = 128;

t.setTimeout(scaled(600_000));
const hostile = await buildGuestProgram('hostile');
t.teardown(() => hostile[Symbol.asyncDispose]());
const directories = await makeDirectories();
// Runs after the end of the daemons, which come behind it.
t.teardown(async () => {
  const left = await leftovers(directories);
  await removeDirectories(directories);
  if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
});
const initrd = ['--initrd', hostile.initramfsPath];
// On a busy host the first guest takes its time to boot; those that mean harm never answer.
const patient = await spawnDaemon(directories, { onExit: 'keep', flags: initrd });
t.teardown(() => patient.end());
// Templates that are made behind its answer would be taken for what a failed create has left.
const bystander = await patient.api.create({ boot_args: 'cold=1' });
await patient.end();
const daemon = await startDaemon(t, {
  directories,
  flags: ['--boot-timeout-s', String(scaled(15)), ...initrd],
});
const { api } = daemon;

async function daemonRssMib(): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

const rssBefore = await daemonRssMib();
for (const mode of ['silent', 'garbage', 'zeros', 'lengths', 'pongs', 'mute', 'console']) {
  t.test(`a guest of mode ${mode} fails alone`, async (t) => {
    const creating = api.create({ boot_args: `${hostile.bootArgs} hostile=${mode}` });
    let slowestMs = 0;
    let isOver = false;
    const watch = (async () => {
      while (!isOver) {
        const startedAt = performance.now();
        t.equal((await api.fetch('/healthz')).status, 200);
        slowestMs = Math.max(slowestMs, performance.now() - startedAt);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })();
    await t.rejects(creating, { status: /500|502/, message: /cannot create the sandbox \(stage agent\)/ });
    isOver = true;
    await watch;
    t.comment(
      `slowest health check ${Math.round(slowestMs)} ms, daemon ${Math.round(await daemonRssMib())} MiB`,
    );
    t.equal(await api.sh(bystander.id, 'echo fine'), 'fine');
    const left = await leftovers(daemon.directories, { isRunning: true, ignore: [bystander.id] });
    t.same(left, []);
  });
}

t.test('none of them made the daemon grow', async (t) => {
  const rssMib = await daemonRssMib();
  t.ok(rssMib - rssBefore < 80, `from ${rssBefore} to ${rssMib} MiB`);
});

t.test('a console without end does not fill the disk', async (t) => {
  // One that is patient, and whose kernel has a template.
  const { api } = await startDaemon(t);
  const sandbox = await api.create({ memory_mib: MEMORY_MIB });
  await api.exec(sandbox.id, ['sh', '-c', 'timeout 6 yes "a line that nobody wants to read" > /dev/ttyS0']);
  // A VMM that writes on where it was leaves a hole before that: what counts is what the disk has of it.
  const size = async () => (await stat(join(sandbox.workdir, 'console.log'))).blocks * 512;
  const left = async () => ((await size()) <= MIB ? [] : [`${await size()} bytes`]);
  t.same(await settled(left), []);
  await api.delete(sandbox.id);
});

t.test(
  'a guest that has its VMM write to its log without end fills no disk, whether a daemon runs or not',
  async (t) => {
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    const first = await spawnDaemon(directories, { onExit: 'keep' });
    t.teardown(() => first.end());
    // A template of its disk's size would be made for nothing.
    const options = { memory_mib: MEMORY_MIB, disk_bytes: MEMORY_MIB * MIB, boot_args: 'cold=1' };
    const sandbox = await first.api.create(options);
    const [pid = 0] = await vmmPids(sandbox.id);
    const log = join(sandbox.workdir, 'vmm.log');
    const dir = await mkdtemp('/tmp/flood-');
    t.teardown(() => rm(dir, { recursive: true, force: true }));
    const content = await compileGuestProgram('flood', dir);
    const archive = await makeTar([{ name: 'flood', mode: 0o755, content }]);
    t.equal((await push(first.api, sandbox.id, '/root', archive)).status, 200);
    await first.api.sh(sandbox.id, 'setsid /root/flood > /root/flood.log 2>&1 &');
    const size = async (): Promise<number> => (await stat(log)).size;
    const hasGrown = async (bytes: number): Promise<void> => {
      let [last, grewAt] = [0, performance.now()];
      for (let now = await size(); now < bytes; now = await size()) {
        if (now > last) [last, grewAt] = [now, performance.now()];
        // How fast is the host's affair.
        if (performance.now() - grewAt > scaled(120_000)) throw new Error(`it has ${now} bytes`);
        await sleep(50);
      }
    };
    await hasGrown(2 * MIB);
    await t.test('with a daemon it is cut', async (t) => {
      // Another file, or a shorter one: what was there is cut within 2 s, and the flood goes on.
      while ((await size()) >= 2 * MIB) await sleep(50);
      t.ok((await stat(`${log}.1`)).size <= 64 * 1024);
    });
    t.equal(await first.end('SIGKILL'), null);
    await t.test('without one it grows to the size of the disk or memory, and no further', async (t) => {
      await hasGrown(MEMORY_MIB * MIB);
      await sleep(1000);
      t.equal(await size(), MEMORY_MIB * MIB);
      t.same(await vmmPids(sandbox.id), [pid], 'the VMM lives');
      t.notMatch(await readFile(`/proc/${pid}/stat`, 'latin1'), /\) Z /);
    });
    await t.test('the next daemon cuts it', async (t) => {
      const second = await spawnDaemon(directories);
      t.teardown(() => second.end());
      while ((await stat(log)).blocks * 512 > 16 * MIB) await sleep(50);
      await second.api.delete(sandbox.id);
    });
  },
);
