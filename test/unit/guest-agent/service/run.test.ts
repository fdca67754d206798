// One run of the service, with a simulated kernel: leftover processes, unkillable ones, and usage counts.
import '../support/addon-dir.ts';
import type { Exec, ExecResultInput } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import type { Cgroup, ExecCgroups } from '../../../../guest-agent/src/exec/cgroups.ts';
import { NOT_NOW } from '../../../../guest-agent/src/native/addon.ts';
import type { Poller } from '../../../../guest-agent/src/native/poller.ts';
import type { Exit, ProcessUsage, Reaper } from '../../../../guest-agent/src/reap/reaper.ts';
import { createLauncher } from '../../../../guest-agent/src/service/process.ts';
import { OutputRing } from '../../../../guest-agent/src/service/ring.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';

const EXEC: Exec = {
  cmd: ['run'],
  env: ['HOME=/'],
  cwd: '',
  user: '',
  timeoutMs: 0,
  stdin: false,
} as unknown as Exec;
const USAGE: ProcessUsage = {
  cpuUserUs: 1,
  cpuSystemUs: 2,
  majorFaults: 0,
  involuntarySwitches: 0,
  readBytes: 0,
  writtenBytes: 0,
};
const PID = 4_000_000;

/** A run of a process that does not exist. */
function startRun(t: Test, spawned = PID) {
  const calls: string[] = [];
  const world = { canKill: true, populated: 0, pids: [] as number[], output: '', hasEnded: true };
  const cgroup: Cgroup = { name: '1', fd: -1, processes: { ...USAGE } };
  const cgroups = {
    acquire: () => cgroup,
    release: () => void calls.push('release'),
    restock: () => void calls.push('restock'),
    kill: () => {
      calls.push('kill');
      return world.canKill;
    },
    isPopulated: () => world.populated-- > 0,
    pids: () => world.pids,
    readUsage: () => ({
      cpuStat: '',
      memoryPeak: '',
      memoryStat: '',
      memoryEvents: '',
      ioStat: '',
      processes: cgroup.processes,
    }),
  };
  let onExit: (exit: Exit, usage: ProcessUsage) => void = () => {};
  const open = new Set<number>();
  const real = replaceInAddon(t, {
    spawn: () => spawned,
    kill: (pid, signal) => {
      calls.push(`signal ${signal} to ${pid}`);
      return 0;
    },
    pipe: (...all) => {
      const ends = real.pipe(...all);
      for (const fd of ends) open.add(fd);
      return ends;
    },
    close: (fd) => {
      open.delete(fd);
      real.close(fd);
    },
    read: () => (world.hasEnded ? 0 : NOT_NOW),
  });
  const launch = createLauncher({
    poller: { watch: () => ({ id: 1, update: () => {}, close: () => {} }) } as unknown as Poller,
    reaper: {
      expect: (_pid: number, callback: typeof onExit) => {
        onExit = callback;
      },
    } as unknown as Reaper,
    cgroups: cgroups as unknown as ExecCgroups,
  });
  const results: ExecResultInput[] = [];
  const startedMs = performance.now();
  const run = launch(EXEC, new OutputRing('a'.repeat(16), 1000), {
    ended: (result) => void results.push(result),
  });
  const exit = (of: Partial<Exit> = {}): void => onExit({ exitCode: 0, signal: 0, ...of }, USAGE);
  return { run, exit, calls, world, results, open, cgroup, startedMs };
}

t.test(
  'a run that exits is killed with its remaining processes, and counted, before its end is reported',
  async (t) => {
    const timers = new FakeClock(t);
    const { run, exit, calls, world, results, open, cgroup, startedMs } = startRun(t);
    t.same([run.pid, calls.splice(0), open.size], [PID, ['restock'], 2]);
    run.signal(15);
    world.populated = 3;
    exit({ exitCode: 3 });
    t.same(calls.splice(0), [`signal 15 to -${PID}`, 'kill']);
    for (let polls = 0; polls < 3; polls++) {
      t.same([results, timers.delays], [[], [5]]);
      timers.tick(timers.delays[0] ?? 0);
    }
    t.same([calls.splice(0), timers.delays, open.size], [['release'], [], 0]);
    t.match(results, [{ exitCode: 3, signal: '', oomKilled: false }]);
    const durationUs = results[0]?.durationUs ?? -1;
    t.ok(durationUs >= 0 && durationUs <= (performance.now() - startedMs) * 1000 + 1, `${durationUs} µs`);
    t.same([cgroup.processes.cpuUserUs, cgroup.processes.cpuSystemUs], [2, 4]);
    run.signal(15);
    world.canKill = false;
    run.kill();
    t.same(calls, ['kill'], 'its number may be that of another process by now');
  },
);

t.test('what cannot be killed, or keeps the output open, is waited for five seconds', async (t) => {
  const timers = new FakeClock(t);
  const { exit, world, results, open } = startRun(t);
  world.hasEnded = false;
  exit({ exitCode: -1, signal: 9 });
  let waitedMs = 0;
  for (; timers.delays.length > 0 && waitedMs < 10_000; timers.tick(timers.delays[0] ?? 0))
    waitedMs += timers.delays[0] ?? 0;
  t.equal(waitedMs, 5000);
  t.match(results, [{ exitCode: 137, signal: 'SIGKILL' }]);
  t.equal(open.size, 0, 'and then it has no reader any more');
});

t.test(
  'a process is killed with its group where there is no control group, and listed by itself',
  async (t) => {
    const { run, exit, calls, world } = startRun(t);
    calls.length = 0;
    run.kill();
    t.same(calls.splice(0), ['kill']);
    world.canKill = false;
    run.kill();
    t.same(calls, ['kill', `signal 9 to -${PID}`]);
    t.same(run.pids(), [PID]);
    world.pids = [PID, PID + 1];
    t.same(run.pids(), [PID, PID + 1]);
    world.pids = [];
    exit();
    t.same(run.pids(), []);
  },
);

t.test('one that could not start gives its control group back', async (t) => {
  const calls: string[] = [];
  replaceInAddon(t, { spawn: () => -1 });
  const launch = createLauncher({
    poller: {} as Poller,
    reaper: {} as Reaper,
    cgroups: {
      acquire: () => ({ name: '', fd: -1, processes: USAGE }),
      release: () => void calls.push('release'),
      restock: () => void calls.push('restock'),
    } as unknown as ExecCgroups,
  });
  t.throws(() => launch(EXEC, new OutputRing('a'.repeat(16), 1000), { ended: () => {} }), {
    name: 'LaunchError',
  });
  t.same(calls, ['release', 'restock']);
});
