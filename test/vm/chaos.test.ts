// A mixed load on a daemon that is killed with -9 at random moments (five, or fifty with SOAK=1) and started again.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ChaosLoad } from '../support/chaos.ts';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { findViolations } from '../support/invariants.ts';
import { scaled } from '../support/time-scale.ts';

const KILLS = process.env.SOAK === '1' ? 50 : 5;
const WORKERS = 4;
const MIN_LIFE_MS = 300;
const MAX_LIFE_MS = scaled(4000);

t.setTimeout(scaled(KILLS * 60_000 + 120_000));

t.test(`${KILLS} kills under a mixed load`, async (t) => {
  const directories = await makeDirectories();
  let daemon = await spawnDaemon(directories, { onExit: 'keep' });
  // The template is there before the first kill; making it takes longer than most lives.
  await daemon.api.delete((await daemon.api.create({ memory_mib: 128 })).id);
  const load = new ChaosLoad(daemon);
  for (let kill = 1; kill <= KILLS; kill++) {
    const stop = new AbortController();
    const workers = Array.from({ length: WORKERS }, () => load.work(stop.signal));
    await sleep(MIN_LIFE_MS + Math.random() * (MAX_LIFE_MS - MIN_LIFE_MS));
    await daemon.end('SIGKILL');
    stop.abort();
    await Promise.all(workers);
    daemon = await spawnDaemon(directories, { onExit: 'keep' });
    t.same(await load.resume(daemon), [], `kill ${kill}: every promise was kept`);
    t.same(await findViolations(daemon), [], `kill ${kill}: everything has its owner`);
    t.same(load.faults.splice(0), [], `kill ${kill}: nothing was refused`);
  }
  t.comment(`operations: ${JSON.stringify(load.done)}; ${load.logLines} log lines looked at`);
  await load.finish();
  t.same(await findViolations(daemon), []);
  await daemon.end('SIGTERM');
  t.same(await leftovers(directories), []);
  // On a busy host each snapshot may have been killed before its directory was made.
  t.same(await readdir(join(directories.dataDir, 'snapshots')).catch(() => []), []);
  await removeDirectories(directories);
});
