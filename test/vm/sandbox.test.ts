// A sandbox from create to delete, on a real guest.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ApiError, type SandboxJson } from '../support/api.ts';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { clockSkewS, NOW } from '../support/guest-clock.ts';
import { scaled } from '../support/time-scale.ts';
import { pidsNaming, vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(240_000));
/** No sandbox may have more than its host has. */
const CPUS = Math.min(2, cpus().length);
const daemon = await startDaemon(t);
const { api } = daemon;

async function statusOf(work: Promise<unknown>): Promise<number> {
  return work.then(
    () => 200,
    (error) => (error instanceof ApiError ? error.status : Number.NaN),
  );
}

t.test('an empty body gives a sandbox with the defaults', async (t) => {
  const sandbox = await api.call<SandboxJson>('POST', '/sandboxes');
  t.match(sandbox, { id: /^sbx_[0-9a-v]{13}$/, vcpus: 1, memory_mib: 512, profile: 'base' });
  t.match(sandbox.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  t.ok(existsSync(sandbox.workdir), 'workdir is a directory on the host');
  t.same(await api.call('GET', `/sandboxes/${sandbox.id}`), sandbox);
  t.same(await api.list(), [sandbox]);

  await t.test('the guest is this sandbox', async (t) => {
    t.equal(await api.sh(sandbox.id, 'hostname'), sandbox.id.replace('_', '-'));
    t.equal(await api.sh(sandbox.id, 'cat /run/sandbox/id'), sandbox.id);
    t.match(await api.sh(sandbox.id, 'cat /etc/machine-id'), /^[0-9a-f]{32}$/);
    const skewS = await clockSkewS(() => api.sh(sandbox.id, NOW));
    t.ok(skewS < 5, `the clock is ${skewS} s off`);
  });

  await t.test('the root is writable, local and complete', async (t) => {
    t.equal(await api.sh(sandbox.id, 'echo kept > /root/file && cat /root/file'), 'kept');
    t.match(await api.sh(sandbox.id, 'cat /proc/mounts'), /overlay \/ overlay rw/);
    t.equal(await api.sh(sandbox.id, 'cat /proc/1/comm'), 'sandbox-agent');
    t.equal(await api.sh(sandbox.id, 'cat /proc/1/oom_score_adj'), '-1000');
    t.equal(await api.sh(sandbox.id, 'cat /proc/self/oom_score_adj'), '0');
    t.match(await api.sh(sandbox.id, 'cat /etc/os-release'), /bookworm/);
    t.equal(await api.sh(sandbox.id, 'ls /sys/class/net'), 'lo', 'no network was asked for');
    t.equal(
      await api.sh(sandbox.id, 'cat /sys/class/net/lo/operstate /sys/class/net/lo/flags'),
      'unknown\n0x9',
    );
    const sizeMib = Number(await api.sh(sandbox.id, "df -m / | awk 'NR==2 {print $2}'"));
    t.ok(sizeMib > 3700 && sizeMib <= 4096, `the layer has ${sizeMib} MiB`);
  });

  await t.test('its VMM is scheduled as any program, the daemon before it and in batches', async (t) => {
    const threads = (pid: number): number[] => readdirSync(`/proc/${pid}/task`).map(Number);
    const scheduling = (tid: number): { niceness: number; policy: number } => {
      const stat = readFileSync(`/proc/${tid}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return { niceness: Number(fields[16]), policy: Number(fields[38]) };
    };
    const [NORMAL, BATCH] = [0, 3];
    t.same(scheduling(daemon.pid), { niceness: -5, policy: BATCH });
    const [vmm = 0] = await vmmPids(sandbox.id);
    // It is set right after the start, which the create does not wait for.
    const patience = AbortSignal.timeout(scaled(5000));
    while (scheduling(vmm).policy !== NORMAL && !patience.aborted) await sleep(20);
    t.same(scheduling(vmm), { niceness: 0, policy: NORMAL });
    t.ok(
      threads(vmm).every((tid) => scheduling(tid).niceness === 0),
      'none of its threads has the priority that it was started with',
    );
  });

  await t.test('after the delete nothing is left of it', async (t) => {
    await api.delete(sandbox.id);
    t.equal(await statusOf(api.call('GET', `/sandboxes/${sandbox.id}`)), 404);
    t.equal(await statusOf(api.delete(sandbox.id)), 404);
    t.equal(await statusOf(api.exec(sandbox.id, ['true'])), 404);
    t.same(await api.list(), []);
    t.same(await leftovers(daemon.directories, { isRunning: true }), []);
    t.notOk(existsSync(sandbox.workdir));
  });
});

t.test('a sandbox has the sizes that were asked for', async (t) => {
  const sandbox = await api.create({
    vcpus: CPUS,
    memory_mib: 300,
    disk_bytes: 200 * 2 ** 20 + 1,
    boot_args: 'mine=1 secret="of mine, only"',
  });
  t.match(sandbox, { vcpus: CPUS, memory_mib: 300 });
  t.equal(await api.sh(sandbox.id, 'nproc'), String(CPUS));
  const memoryMib = Number(await api.sh(sandbox.id, "awk '/MemTotal/ {print int($2/1024)}' /proc/meminfo"));
  t.ok(memoryMib > 220 && memoryMib <= 300, `${memoryMib} MiB`);
  t.equal(await api.sh(sandbox.id, 'cat /sys/block/vdb/size'), String((201 * 2 ** 20) / 512));
  t.match(await api.sh(sandbox.id, 'cat /proc/cmdline'), / mine=1 secret="of mine, only"$/);
  t.same(await pidsNaming('of mine, only'), [], 'which no other user of the host reads');
  await api.delete(sandbox.id);
});

t.test('two sandboxes made at once are two', async (t) => {
  const both = await Promise.all([api.create(), api.create()]);
  const [a, b] = both.map(({ id }) => id) as [string, string];
  await api.sh(a, 'echo a > /root/who');
  t.equal(await api.sh(b, 'test -e /root/who || echo none'), 'none');
  const [machineA, machineB] = await Promise.all([a, b].map((id) => api.sh(id, 'cat /etc/machine-id')));
  t.not(machineA, machineB);
  t.same(
    (await api.list()).map(({ id }) => id),
    both.sort((x, y) => x.created_at.localeCompare(y.created_at)).map(({ id }) => id),
    'lists are oldest first',
  );
  t.same(await Promise.all([a, b].map((id) => api.delete(id))), [undefined, undefined]);
});

t.test('a lifetime ends a sandbox as a delete does', async (t) => {
  const sandbox = await api.create({ timeout_s: 10 });
  t.equal(await statusOf(api.exec(sandbox.id, ['true'])), 200);
  for (let waitedMs = 0; waitedMs < scaled(60_000) && existsSync(sandbox.workdir); waitedMs += 100)
    await sleep(100);
  await sleep(100);
  t.notOk(existsSync(sandbox.workdir));
  t.equal(await statusOf(api.call('GET', `/sandboxes/${sandbox.id}`)), 404);
});

t.test('clients of a sandbox that ends get the reason, when it is not listed any more', async (t) => {
  const deleted = await api.create();
  const expiring = await api.create({ timeout_s: scaled(10) });
  for (const [{ id }, error] of [
    [expiring, /: its timeout_s has passed$/],
    [deleted, /was deleted$/],
  ] as const) {
    const running = api.exec(id, ['sleep', '60']);
    // Only of one that runs is its client told so.
    while ((await api.ask('listCommands', { params: { id } })).commands.every(({ pid }) => pid === undefined))
      await sleep(50);
    const deleting = id === deleted.id ? api.delete(id) : undefined;
    const { result } = await running;
    t.equal(await statusOf(api.call('GET', `/sandboxes/${id}`)), 404);
    t.notOk((await api.list()).some((listed) => listed.id === id));
    t.match(result, { exit_code: -1, error });
    await deleting;
  }
});

t.test('a client that leaves takes its create with it', async (t) => {
  for (const [afterMs, options] of [
    [5, {}],
    [20, {}],
    [100, { boot_args: 'boot=1' }],
    [700, { boot_args: 'boot=1' }],
  ] as const) {
    await t.rejects(api.create(options, AbortSignal.timeout(afterMs)), { name: /TimeoutError|AbortError/ });
  }
  // The daemon notices and rolls back in its own time.
  let left: string[] = ['unknown'];
  for (let waitedMs = 0; waitedMs < scaled(30_000) && left.length > 0; waitedMs += 200) {
    await sleep(200);
    left = await leftovers(daemon.directories, { isRunning: true });
  }
  t.same(left, []);
  t.same(await api.list(), []);
});

t.test('wrong requests are answered, not tried', async (t) => {
  for (const [body, pattern] of [
    [{ profile: 'nope' }, /unknown profile "nope"; known are .*base/],
    [{ vcpus: -1 }, /vcpus/],
    [{ vcpus: cpus().length + 1 }, /vcpus/],
    [{ memory_mib: 127 }, /memory_mib/],
    [{ memory_mib: 'much' }, /memory_mib/],
    [{ disk_bytes: 1024 }, /disk_bytes/],
    [{ timeout_s: -1 }, /timeout_s/],
    [{ boot_args: 'a\nb' }, /boot_args/],
  ] as const) {
    await t.rejects(api.create(body), { status: 400, message: pattern }, JSON.stringify(body));
  }
  t.same(await api.list(), []);
});
