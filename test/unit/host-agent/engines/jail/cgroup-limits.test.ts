// Limits of real cgroups. A controller that this host lacks must be reported instead.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Cgroups, withoutDiskLimits } from '../../../../../host-agent/src/engines/jail/cgroups.ts';
import { BAKED_DATA_DIR } from '../../../../support/daemon.ts';
import { until } from '../../../../support/until.ts';

const MIB = 2 ** 20;
const IO_BYTES_PER_S = 4 * MIB;
const LIMITS = { vcpus: 1, memoryMib: 16, threads: 5 };
/** The limit of a group for this guest, with the VMM's overhead. */
const MEMORY_MIB = LIMITS.memoryMib + 256;

// On the disk with the limit.
await mkdir(BAKED_DATA_DIR, { recursive: true });
const dir = await mkdtemp(join(BAKED_DATA_DIR, 'cgroup-limits-'));
t.teardown(() => rm(dir, { recursive: true, force: true }));
const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0.25, ioBytesPerS: IO_BYTES_PER_S, dir });
const mount = (await readFile('/proc/self/mounts', 'latin1'))
  .split('\n')
  .map((line) => line.split(' '))
  .find(([, , type]) => type === 'cgroup2')?.[1];
const controllers = await readFile(join(mount ?? '/absent', 'cgroup.controllers'), 'latin1').then(
  (text) => text.trim().split(' '),
  (): string[] => [],
);

/** Exit code of a shell command that runs in the group. */
async function run(group: string, command: string): Promise<number | null> {
  const script = `echo $$ > ${group}/cgroup.procs || exit 99; ${command}`;
  const [code] = await once(spawn('sh', ['-c', script], { stdio: 'ignore', cwd: dir }), 'exit');
  return code as number | null;
}

/** A value of a file with a name and a number per line. */
async function readCount(group: string, file: string, name: string): Promise<number> {
  const text = await readFile(join(group, file), 'latin1');
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

/** `attempt` runs on hosts with the controller. */
function limit(controller: string, attempt: (t: Test, group: string) => Promise<void>): void {
  t.test(`a limit of ${controller} holds, or is known to be missing`, async (t) => {
    const isNamed = cgroups.missing.some(
      (what) => what.startsWith(`cgroup controller ${controller} `) || what.startsWith('cgroup version 2'),
    );
    t.equal(isNamed, !controllers.includes(controller));
    if (isNamed) return;
    const group = await cgroups.make('limits-test', LIMITS);
    t.teardown(() => cgroups.remove('limits-test'));
    await attempt(t, group ?? '');
  });
}

limit('memory', async (t, group) => {
  t.equal(await run(group, `head -c ${MEMORY_MIB / 2}M /dev/zero | tail`), 0);
  t.equal(await readCount(group, 'memory.events', 'oom_kill'), 0);
  t.not(await run(group, `head -c ${MEMORY_MIB * 2}M /dev/zero | tail`), 0);
  t.ok((await readCount(group, 'memory.events', 'oom_kill')) > 0);
  t.equal((await readFile(join(group, 'memory.swap.max'), 'latin1')).trim(), '0');
});

limit('pids', async (t, group) => {
  const start = async (count: number): Promise<number | null> => {
    const code = await run(group, `${'sleep 600 & '.repeat(count)} true`);
    await writeFile(join(group, 'cgroup.kill'), '1');
    await until(() => readFileSync(join(group, 'pids.current'), 'latin1') === '0\n');
    return code;
  };
  // The shell is one more process.
  t.equal(await start(LIMITS.threads - 1), 0);
  t.equal(await readCount(group, 'pids.events', 'max'), 0);
  t.not(await start(LIMITS.threads), 0);
  t.equal(await readCount(group, 'pids.events', 'max'), 1);
});

limit('cpu', async (t, group) => {
  const startedAt = performance.now();
  await run(group, 'exec timeout 4 sh -c "while :; do :; done"');
  const share = (await readCount(group, 'cpu.stat', 'usage_usec')) / 1000 / (performance.now() - startedAt);
  t.ok(share < 0.35, `it had ${share} of a CPU`);
  t.ok((await readCount(group, 'cpu.stat', 'nr_throttled')) > 10);
});

limit('io', async (t, group) => {
  const startedAt = performance.now();
  t.equal(await run(group, 'dd if=/dev/zero of=written bs=1M count=16 oflag=direct'), 0);
  const bytesPerS = (16 * MIB) / ((performance.now() - startedAt) / 1000);
  t.ok(bytesPerS < IO_BYTES_PER_S * 1.5, `${bytesPerS} bytes a second`);
  const read = () => readFile(join(group, 'io.max'), 'latin1');
  const limit = await read();
  t.match(limit, / wbps=\d+ /);
  await withoutDiskLimits(group, async () => t.equal(await read(), ''));
  t.equal(await read(), limit);
  // A daemon was killed while the limits were lifted.
  await withoutDiskLimits(group, async () => {
    await cgroups.limitDisk(group);
    t.equal(await read(), limit);
  });
});
