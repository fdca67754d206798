// Scheduling policies of threads, set without another process.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { hostAddon } from '../../../../rootfs-builder/src/index.ts';

const SCHED_OTHER = 0;
const SCHED_BATCH = 3;

/** The 41st field of /proc/<pid>/stat. */
function policyOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]);
}

t.test('a process becomes a batch process and back', async (t) => {
  const child = spawn('sleep', ['600']);
  const ended = new Promise((resolve) => child.once('exit', resolve));
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const pid = child.pid ?? 0;
  t.equal(policyOf(pid), SCHED_OTHER);
  hostAddon().setBatch(pid, true);
  t.equal(policyOf(pid), SCHED_BATCH);
  hostAddon().setBatch(pid, false);
  t.equal(policyOf(pid), SCHED_OTHER);
});

t.test('a thread that does not exist is the system error ESRCH', async (t) => {
  t.throws(() => hostAddon().setBatch(2 ** 30, true), { code: 'ESRCH', syscall: 'sched_setscheduler' });
  t.throws(() => hostAddon().setBatch('1' as never, true), TypeError);
});
