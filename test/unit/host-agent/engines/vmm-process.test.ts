// What a VMM finds when it starts: nothing of ours but what it is given.
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { INHERITED_FD, spawnVmm } from '../../../../host-agent/src/engines/vmm-process.ts';
import { listInheritable } from '../../../../host-agent/src/lib/proc.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

t.test('a VMM has no descriptor of the store', async (t) => {
  const dir = await mkdtemp('/tmp/vmm-process-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(() => store.close());
  t.ok(listInheritable().length > 0, 'or this test could not fail');
  await using given = await open('/dev/zero', 'r');
  for (const inheritedFd of [undefined, given.fd]) {
    const logPath = join(dir, `log-${inheritedFd}`);
    const { ended } = await spawnVmm('/bin/ls', ['-l', '/proc/self/fd'], logPath, { inheritedFd });
    // The child by itself keeps nobody waiting.
    const waiting = setTimeout(() => undefined, 10_000);
    t.match(await ended, { exitCode: 0 });
    clearTimeout(waiting);
    const log = await readFile(logPath, 'utf8');
    t.notMatch(log, /state\.lmdb/);
    t.match(log, / 0 -> \/dev\/null/);
    t.equal(/ 3 -> \/dev\/zero/.test(log), inheritedFd !== undefined);
  }
  t.equal(INHERITED_FD, 3);
});
