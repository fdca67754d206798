// Timeouts that scale with the host's load, with an upper bound.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { loadScaledTimeout, parseTasksPerCpu } from '../../../../host-agent/src/lib/load-scaled-timeout.ts';
import { raceSignal } from '../../../../host-agent/src/lib/wait.ts';

t.test('how crowded a host is', async (t) => {
  t.equal(parseTasksPerCpu('0.10 0.20 0.30 1/160 31891\n', 2), 1);
  t.equal(parseTasksPerCpu('25.10 9.00 3.00 2/160 31891\n', 2), 12.55, 'for the last minute');
  t.equal(parseTasksPerCpu('0.10 9.00 3.00 26/160 31891\n', 2), 13, 'now');
  t.equal(parseTasksPerCpu('4000.00 0.20 0.30 1/160 31891\n', 1), 30, 'not without end');
  t.equal(parseTasksPerCpu('', 2), 1, 'a host that does not tell');
});

/** Ticks until a timeout of `timeoutMs` fired; a tick is 250 ms or the timeout, whichever is less. */
async function ticksUntilOver(timeoutMs: number, tasksPerCpu: number): Promise<number> {
  let ticks = 0;
  const count = (): number => {
    ticks += 1;
    return tasksPerCpu;
  };
  using limit = loadScaledTimeout({ timeoutMs, reason: () => new Error('over'), runnableTasksPerCpu: count });
  await sleep(60_000, undefined, { signal: limit.signal }).catch(() => undefined);
  return ticks;
}

t.test('a limit counts by the host’s load, whatever the time', async (t) => {
  t.equal(await ticksUntilOver(10, 1), 1);
  t.equal(await ticksUntilOver(10, 8), 8);
  t.equal(await ticksUntilOver(10, 16), 16);
});

t.test('an answer that comes late on a crowded host is in time', async (t) => {
  const late = (ms: number) => sleep(ms, 'the answer', { ref: false });
  const limited = async (ms: number, tasksPerCpu: number) => {
    const reason = (waitedMs: number) => new Error(`over after ${waitedMs} ms`);
    using limit = loadScaledTimeout({ timeoutMs: 100, reason, runnableTasksPerCpu: () => tasksPerCpu });
    return await raceSignal(late(ms), limit.signal);
  };
  t.equal(await limited(500, 30), 'the answer');
  await t.rejects(limited(5000, 1), { message: /^over after \d+ ms$/ });
});

t.test('it ends with the outer signal, and counts no more when it was given up', async (t) => {
  const outer = AbortSignal.abort(new Error('enough'));
  using limit = loadScaledTimeout({ timeoutMs: 60_000, reason: () => new Error('over'), outer });
  t.match(limit.signal.reason, { message: 'enough' });
  const given = loadScaledTimeout({ timeoutMs: 10, reason: () => new Error('over') });
  given[Symbol.dispose]();
  await sleep(60);
  t.equal(given.signal.aborted, false);
});
