// The environment of a VMM process: it inherits nothing of the daemon except what it is given.
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { FIRST_INHERITED_FD, spawnVmm } from '../../../../host-agent/src/engines/vmm-process.ts';
import { listInheritable } from '../../../../host-agent/src/lib/proc.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

t.test('a VMM has no descriptor of the store', async (t) => {
  const dir = await mkdtemp('/tmp/vmm-process-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(() => store.close());
  t.ok(listInheritable().length > 0, 'or this test could not fail');
  await using zero = await open('/dev/zero', 'r');
  await using full = await open('/dev/full', 'r');
  for (const inheritedFds of [[], [zero.fd], [full.fd, zero.fd]]) {
    const logPath = join(dir, `log-${inheritedFds.length}`);
    const { ended } = await spawnVmm('/bin/ls', ['-l', '/proc/self/fd'], logPath, { inheritedFds });
    // The child alone does not keep the event loop alive.
    const waiting = setTimeout(() => undefined, 10_000);
    t.match(await ended, { exitCode: 0 });
    clearTimeout(waiting);
    const log = await readFile(logPath, 'utf8');
    t.notMatch(log, /state\.lmdb/);
    t.match(log, / 0 -> \/dev\/null/);
    const given = [...log.matchAll(/ (\d+) -> (\/dev\/(?:zero|full))/g)].map(
      ([, fd, path]) => `${fd} ${path}`,
    );
    const wanted = [[], ['3 /dev/zero'], ['3 /dev/full', '4 /dev/zero']];
    t.same(given, wanted[inheritedFds.length], 'in the order of the list');
  }
  t.equal(FIRST_INHERITED_FD, 3);
});
