// One user for each VMM of the host, whichever daemon started it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { giveBackUid, UidLeases } from '../../../../../host-agent/src/engines/jail/uid-leases.ts';
import { readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';

const RANGE = { base: 5000, count: 4 };

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/uid-leases-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const listLeases = async (dir: string) => (await readdir(dir)).filter((name) => /^\d+$/.test(name));

t.test('two daemons never have the same user, and know when all are taken', async (t) => {
  const dir = await makeDir(t);
  const daemons = [await UidLeases.open(RANGE, dir), await UidLeases.open(RANGE, dir)];
  const taken: number[] = [];
  for (const index of [0, 1, 0, 1]) taken.push(await daemons[index]!.take());
  t.same(taken.toSorted(), [5000, 5001, 5002, 5003]);
  await t.rejects(daemons[0]!.take(), {
    code: 'exhausted',
    message: 'all 4 user ids for VMMs are taken; raise --jail-uid-count',
  });
  await giveBackUid(5002, dir);
  t.equal(await daemons[1]!.take(), 5002, 'one that was given back');
});

t.test('a user stays with its VMM without the daemon, and is free when that is gone', async (t) => {
  const dir = await makeDir(t);
  const leases = await UidLeases.open(RANGE, dir);
  const vmm = spawn('sleep', ['600']);
  t.teardown(() => vmm.kill());
  await once(vmm, 'spawn');
  const pid = vmm.pid ?? 0;
  const uid = await leases.take();
  await leases.handOver(uid, { pid, startTicks: readStartTicks(pid) ?? 0 });
  await UidLeases.open(RANGE, dir);
  t.same(await listLeases(dir), [String(uid)], 'another daemon leaves it alone');
  vmm.kill();
  await once(vmm, 'exit');
  t.same((await UidLeases.open(RANGE, dir)).freed, [uid]);
  t.same(await listLeases(dir), [], 'the next start finds that it is gone');
});

t.test('a lease that is just being written is left alone', async (t) => {
  const dir = await makeDir(t);
  await writeFile(join(dir, '5001'), '');
  await UidLeases.open(RANGE, dir);
  t.same(await listLeases(dir), ['5001']);
});
