// A thousand sandboxes one after the other (twenty unless SOAK=1) leave the daemon as it was.
import t from 'tap';
import { readDaemonLevels, runCycles } from '../support/cycles.ts';
import {
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { findViolations } from '../support/invariants.ts';
import type { LogPageJson } from '../support/service.ts';
import { scaled } from '../support/time-scale.ts';

const CYCLES = process.env.SOAK === '1' ? 1000 : 20;
const WARM_UP = Math.max(10, CYCLES / 5);
/** More is no noise of a collector any more. */
const MAX_GROWTH_MIB = 32;
const MAX_GROWTH_DESCRIPTORS = 3;

t.setTimeout(scaled(CYCLES * 6000 + 120_000));

t.test(`${CYCLES} cycles of create, exec and delete`, async (t) => {
  const daemon = await startDaemon(t);
  await runCycles(daemon, WARM_UP);
  const before = await readDaemonLevels(daemon);
  const startedAt = performance.now();
  await runCycles(daemon, CYCLES);
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await readDaemonLevels(daemon);
  t.comment(`${CYCLES} cycles in ${seconds.toFixed(0)} s, ${(CYCLES / seconds).toFixed(1)} a second`);
  t.comment(`before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`);
  t.ok(after.descriptors - before.descriptors <= MAX_GROWTH_DESCRIPTORS, `${after.descriptors} descriptors`);
  t.ok(after.anonymousMib - before.anonymousMib <= MAX_GROWTH_MIB, `${after.anonymousMib} MiB`);
  t.same(await findViolations(daemon), []);
  t.same(await leftovers(daemon.directories, { isRunning: true }), []);
});

t.test('a daemon that is killed after the response to a delete', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const daemon = await spawnDaemon(directories, { onExit: 'keep' });
  const [kept, ...deleted] = await Promise.all([1, 2, 3].map(() => daemon.api.create({ memory_mib: 128 })));
  for (const { id } of deleted) await daemon.api.sh(id, 'head -c 10000000 /dev/urandom > /root/fill');
  await Promise.all(deleted.map(({ id }) => daemon.api.delete(id)));
  await daemon.end('SIGKILL');
  const next = await spawnDaemon(directories, { onExit: 'keep' });
  t.same(
    (await next.api.list()).map(({ id }) => id),
    [kept?.id],
  );
  for (const { id } of deleted) {
    await t.rejects(next.api.call('GET', `/sandboxes/${id}`), {
      status: 404,
      message: /does not exist/,
    });
    const { records } = await next.api.call<LogPageJson>('GET', `/sandboxes/${id}/logs?since=0`);
    t.match(records[0]?.text, /^exec: sh /, 'its log is kept');
  }
  t.same(await leftovers(directories, { isRunning: true, ignore: [kept?.id ?? 'none'] }), []);
  await next.api.delete(kept?.id ?? '');
  t.equal(await next.end(), 0, 'a daemon that stops waits for what is behind its answers');
  t.same(await leftovers(directories), []);
});
