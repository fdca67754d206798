// Room on the host is given out before it is used, and guests that hang are named.
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { TCG_BOOTED_OVERHEAD_MIB } from '../../host-agent/src/engines/qemu/args.ts';
import { VMM_OVERHEAD_MIB } from '../../host-agent/src/sandboxes/admission.ts';
import { ApiError } from '../support/api.ts';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { vmmSandboxes } from '../support/invariants.ts';
import { untilOwnTemplate } from '../support/templates.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(300_000));
const MIB = 2 ** 20;

t.test('beyond the memory that may be promised a create waits for another time', async (t) => {
  // Of any machine's memory, one percent and all but 1 GiB of it: nothing fits, whatever is running.
  const { api, directories } = await startDaemon(t, {
    flags: ['--memory-overcommit-percent', '1', '--memory-reserve-bytes', '0', '--template-disk-bytes', '0'],
  });
  const response = await api.fetch('/sandboxes', { method: 'POST', body: '{"memory_mib": 65536}' });
  t.equal(response.status, 503);
  t.match(response.headers.get('retry-after'), /^\d+$/);
  t.match(await response.json(), { error: /no memory: sandboxes may be promised \d+ MiB .*delete some/ });
  t.same(await leftovers(directories, { isRunning: true }), []);
});

t.test('of many creates only a few boot at the same time', async (t) => {
  /** Two more than may. */
  const CREATES = 6;
  const { api, directories } = await startDaemon(t, { flags: ['--template-disk-bytes', '0'] });
  const creating = Promise.all(Array.from({ length: CREATES }, () => api.create({ memory_mib: 128 })));
  let isOver = false;
  void creating.finally(() => {
    isOver = true;
  });
  let most = 0;
  while (!isOver) {
    // In this order: one that got ready in between is not taken for one that boots.
    const running = (await vmmSandboxes(directories.runDir)).length;
    most = Math.max(most, running - (await api.list()).length);
    await sleep(50);
  }
  t.equal((await creating).length, CREATES);
  t.ok(most >= 2 && most <= 4, `at most ${most} booted at once`);
});

t.test('guests that use all their memory at once do not end each other', async (t) => {
  const memoryMib = 128;
  const promisedMib = memoryMib + VMM_OVERHEAD_MIB;
  // The smallest budget, in whole percent of this machine, that holds three of them and the memory that they share.
  const totalMib = totalmem() / MIB;
  const percent = Math.ceil((100 * (3 * promisedMib + memoryMib)) / totalMib);
  const most = Math.floor((totalMib * percent) / 100 / promisedMib);
  const { api } = await startDaemon(t, {
    flags: ['--memory-overcommit-percent', String(percent), '--memory-reserve-bytes', '0'],
  });
  // The first one is booted, and its emulator has translated more code than those of the copies.
  await api.delete((await api.create({ memory_mib: memoryMib })).id);
  const sandboxes: { readonly id: string }[] = [];
  const create = async () => sandboxes.push(await api.create({ memory_mib: memoryMib }));
  while (sandboxes.length < 3) await create();
  const fill = async () => {
    while (sandboxes.length <= most) await create();
  };
  await t.rejects(fill(), { status: 503, message: /may be promised/ });
  // Each takes its memory within one system call: programs that have to run meanwhile fetch their own code from the disk
  // again and again, for minutes.
  const hog = 'for n in 1 2 3; do dd if=/dev/zero of=/dev/null bs=70M count=3 & done; wait';
  const hogs = await Promise.all(sandboxes.map(({ id }) => api.exec(id, ['sh', '-c', hog])));
  for (const [index, { id }] of sandboxes.entries()) {
    t.match(hogs[index]?.result, { oom_killed: true }, 'it had all there was');
    t.equal(await api.sh(id, 'echo well'), 'well', 'and its guest goes on');
    const [pid] = await vmmPids(id);
    const residentMib =
      Number(/^Rss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024;
    t.comment(`a VMM of a guest with ${memoryMib} MiB has ${residentMib.toFixed(0)} MiB`);
    t.ok(residentMib <= promisedMib, 'a VMM takes no more than it was promised');
    const score = readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim();
    t.equal(score, '300', 'and would go before the daemon, were there no memory left');
  }
});

t.test('the VMM of a booted guest takes no more than its engine says', async (t) => {
  const memoryMib = 128;
  const daemon = await startDaemon(t);
  const { api } = daemon;
  const { id } = await api.create({ memory_mib: memoryMib, boot_args: 'booted=1' });
  await api.exec(id, ['sh', '-c', 'dd if=/dev/zero of=/dev/null bs=100M count=3']);
  const [pid] = await vmmPids(id);
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const residentMib = Number(/^Rss:\s+(\d+)/m.exec(text)?.[1]) / 1024;
  const isEmulated = daemon.log.some(
    ({ msg, accelerator }) => msg === 'engine chosen' && accelerator === 'tcg',
  );
  const overheadMib = isEmulated ? TCG_BOOTED_OVERHEAD_MIB : VMM_OVERHEAD_MIB;
  t.ok(residentMib <= memoryMib + overheadMib, `${residentMib.toFixed(0)} MiB`);
});

t.test('memory that others use counts', async (t) => {
  const { api } = await startDaemon(t, { flags: ['--memory-reserve-bytes', '16TiB'] });
  await t.rejects(api.create({ memory_mib: 128 }), { status: 503, message: /no memory/ });
});

t.test('of many creates at once only those that fit are begun', async (t) => {
  const daemon = await startDaemon(t, { flags: ['--max-sandboxes', '3'] });
  const { api, directories } = daemon;
  // Templates in the making would be taken for leftovers.
  await untilOwnTemplate(daemon, { memory_mib: 128 });
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => api.create({ memory_mib: 128 })));
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 3);
  for (const result of results)
    if (result.status === 'rejected') t.match(String(result.reason), /503: .*takes 3 sandboxes/);
  const [first, ...others] = await api.list();
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${first!.id}/snapshot`);
  await t.rejects(api.call('POST', `/snapshots/${snapshot.id}/fork?count=2`), {
    status: 503,
    message: /takes 3/,
  });
  await Promise.all(others.map(({ id }) => api.delete(id)));
  await api.call('POST', `/snapshots/${snapshot.id}/fork?count=2`);
  t.equal((await api.list()).length, 3, 'what was given back is there again');
  for (const { id } of await api.list()) await api.delete(id);
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
  t.same(await leftovers(directories, { isRunning: true }), []);
});

t.test('a guest that hangs is named within the time, and used again when it answers', async (t) => {
  const daemon = await startDaemon(t, { flags: ['--watchdog-timeout-s', '2'] });
  const { api } = daemon;
  const [hanging, other] = await Promise.all([
    api.create({ memory_mib: 128 }),
    api.create({ memory_mib: 128 }),
  ]);
  const [pid] = await vmmPids(hanging!.id);
  process.kill(pid!, 'SIGSTOP');
  t.teardown(() => {
    try {
      process.kill(pid!, 'SIGCONT');
    } catch {}
  });
  const isNamed = () =>
    daemon.log.some(({ msg, sandbox }) => msg === 'a sandbox hangs' && sandbox === hanging!.id);
  for (let waitedMs = 0; waitedMs < scaled(30_000) && !isNamed(); waitedMs += 100) await sleep(100);
  await t.rejects(api.exec(hanging!.id, ['true']), {
    status: 502,
    message: /hangs: the VMM, and so its guest, has not answered for 2 s/,
  });
  t.equal(await api.sh(other!.id, 'echo well'), 'well');
  process.kill(pid!, 'SIGCONT');
  const use = () =>
    api.sh(hanging!.id, 'echo again').catch((error) => {
      if (error instanceof ApiError && error.status === 502) return undefined;
      throw error;
    });
  let said: string | undefined;
  for (let waitedMs = 0; waitedMs < scaled(30_000) && said === undefined; waitedMs += 100) {
    said = await use();
    if (said === undefined) await sleep(100);
  }
  t.equal(said, 'again');
  process.kill(pid!, 'SIGSTOP');
  await api.delete(hanging!.id);
  await api.delete(other!.id);
  t.same(await leftovers(daemon.directories, { isRunning: true }), [], 'also one that hangs can be deleted');
});
