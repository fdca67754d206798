// A thousand sandboxes one after the other (fifty unless SOAK=1) leave the daemon as it was.
import t from 'tap';
import { readDaemonLevels, runCycles } from '../support/cycles.ts';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { findViolations } from '../support/invariants.ts';
import { scaled } from '../support/time-scale.ts';

const CYCLES = process.env.SOAK === '1' ? 1000 : 50;
const WARM_UP = CYCLES / 5;
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
