// The parts of the service supervisor: state table, restart policy, and the supervisor with a fake clock.
import '../support/addon-dir.ts';
import assert from 'node:assert/strict';
import type { ExecResultInput, ServiceSpec } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { toStatus } from '../../../../guest-agent/src/service/calls.ts';
import type { Launcher, RunEvents, ServiceRun } from '../../../../guest-agent/src/service/process.ts';
import { RestartBudget } from '../../../../guest-agent/src/service/restart-policy.ts';
import type { OutputRing } from '../../../../guest-agent/src/service/ring.ts';
import {
  isSettled,
  nextStep,
  SERVICE_EVENTS,
  SERVICE_STATES,
} from '../../../../guest-agent/src/service/states.ts';
import { Supervisor } from '../../../../guest-agent/src/service/supervisor.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

t.test('the table: every event in every state', async (t) => {
  // Columns in the order of SERVICE_EVENTS; "." means no change.
  const expected: Record<string, string> = {
    idle: 'starting:launch idle:refuse . idle:refuse . . . . . . .',
    starting: '. . . . running failed . . . . .',
    running:
      'restarting:terminate . stopping:terminate restarting:terminate . . stopped failed backing_off:pause . .',
    stopping: 'restarting restarting stopping:regrace restarting . . stopped stopped stopped stopping:kill .',
    restarting:
      'restarting . stopping:regrace . . . starting:launch starting:launch starting:launch restarting:kill .',
    backing_off:
      'starting:cancel_pause,launch starting:cancel_pause,launch stopped:cancel_pause starting:cancel_pause,launch . . . . . . starting:launch',
    stopped: 'starting:launch starting:launch . starting:launch . . . . . . .',
    failed: 'starting:launch starting:launch stopped starting:launch . . . . . . .',
  };
  for (const state of SERVICE_STATES) {
    const row = SERVICE_EVENTS.map((event) => {
      const step = nextStep(state, event);
      if (step === undefined) return '.';
      return step.actions.length === 0 ? step.to : `${step.to}:${step.actions.join(',')}`;
    });
    t.equal(row.join(' '), expected[state], state);
  }
});

t.test('back-off doubles to a minute, and ten seconds of life begin it again', async (t) => {
  const budget = new RestartBudget();
  const always = { policy: 'always', maxRetries: 0 } as const;
  const pauses = Array.from({ length: 12 }, () => {
    t.equal(budget.judge(always, true, 5), 'ended_for_now');
    return budget.pauseMs;
  });
  t.same(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]);
  budget.judge(always, false, 9_999);
  t.equal(budget.pauseMs, 60_000);
  budget.judge(always, false, 10_000);
  t.equal(budget.pauseMs, 100);
  for (let retries = 0; retries < 2000; retries++) budget.judge(always, false, 1);
  t.equal(budget.pauseMs, 60_000, 'however often');
  t.equal(budget.judge({ policy: 'never', maxRetries: 0 }, true, 1), 'ended_well');
  t.equal(budget.judge({ policy: 'never', maxRetries: 0 }, false, 1), 'ended_badly');
  const onFailure = { policy: 'on-failure', maxRetries: 2 } as const;
  budget.reset();
  t.equal(budget.judge(onFailure, true, 1), 'ended_well');
  t.same(
    [1, 2, 3].map(() => budget.judge(onFailure, false, 1)),
    ['ended_for_now', 'ended_for_now', 'ended_badly'],
  );
  t.equal(budget.judge(onFailure, false, 10_000), 'ended_for_now', 'a long life pays the retries back');
  const verdicts = [1, 2, 3].map(() => budget.judge({ policy: 'always', maxRetries: 2 }, false, 1));
  t.same(new Set(verdicts), new Set(['ended_for_now']), 'always has no limit');
});

/** A supervisor whose processes and clock the test controls. */
function makeSupervisor(clock: FakeClock) {
  const runs: {
    cmd: string[];
    calls: string[];
    ring: OutputRing;
    end: (result?: ExecResultInput) => void;
  }[] = [];
  const world = { launchError: '' };
  const launch: Launcher = ({ cmd }, ring, events: RunEvents): ServiceRun => {
    if (world.launchError !== '') throw new Error(world.launchError);
    const calls: string[] = [];
    runs.push({ cmd, calls, ring, end: (result = { exitCode: 1 }) => events.ended(result) });
    const pid = runs.length;
    return {
      pid,
      signal: (number) => void calls.push(`signal ${number}`),
      kill: () => void calls.push('kill'),
      pids: () => [pid],
    };
  };
  const supervisor = new Supervisor(launch);
  const pass = (ms: number): void => clock.tick(ms);
  return { supervisor, runs, pass, world, timersLeft: () => clock.count };
}

const SPEC: ServiceSpec = {
  cmd: ['run'],
  env: [],
  baseEnv: [],
  makeCwd: false,
  cwd: '',
  user: '',
  stopSignal: 'SIGINT',
  stopGraceMs: 5000,
  restartPolicy: 'never',
  maxRetries: 0,
  logBufferBytes: 1000,
};

t.test('stopping asks, waits for the grace, then kills; another stop may shorten the grace', async (t) => {
  const { supervisor, runs, pass } = makeSupervisor(new FakeClock(t));
  t.throws(() => supervisor.start(), { code: 'conflict', message: /no service/ });
  supervisor.configure(SPEC);
  supervisor.stop();
  t.same(runs[0]?.calls, ['signal 2']);
  pass(4999);
  t.same(runs[0]?.calls, ['signal 2']);
  pass(1);
  t.same(runs[0]?.calls, ['signal 2', 'kill']);
  let settled = 0;
  supervisor.whenSettled(() => settled++);
  supervisor.whenSettled(() => t.fail('it gave up'))();
  t.equal(settled, 0, 'it has not ended yet');
  runs[0]?.end({ exitCode: 137, signal: 'SIGKILL' });
  t.same([supervisor.state, settled, supervisor.lastExit?.isRequested], ['stopped', 1, true]);
  supervisor.whenSettled(() => settled++);
  t.equal(settled, 2, 'nothing is under way');

  supervisor.start();
  supervisor.stop(60_000);
  supervisor.stop(10);
  pass(10);
  t.same(runs[1]?.calls, ['signal 2', 'kill']);
});

t.test('the grace of a process that is gone is not that of the next', async (t) => {
  const { supervisor, runs, pass, timersLeft } = makeSupervisor(new FakeClock(t));
  supervisor.configure(SPEC);
  const before = timersLeft();
  supervisor.stop(60_000);
  supervisor.stop(20_000);
  runs[0]?.end();
  t.equal(timersLeft(), before, 'nothing waits for it any more');
  supervisor.start();
  supervisor.stop(100_000);
  pass(99_999);
  t.same(runs[1]?.calls, ['signal 2']);
  pass(1);
  t.same(runs[1]?.calls, ['signal 2', 'kill']);
  runs[1]?.end();
  supervisor.start();
  supervisor.restart();
  pass(5000);
  t.same(runs[2]?.calls, ['signal 2', 'kill'], 'and a grace that was named for one stop is for no other');
  runs[2]?.end();
  supervisor.stop();
  pass(4000);
  supervisor.stop();
  pass(1000);
  t.same(runs[3]?.calls, ['signal 2', 'kill'], 'nor does one that names none begin it again');
});

t.test('a status says when the process began for as long as there is one', async (t) => {
  const clock = new FakeClock(t);
  const { supervisor, runs, pass } = makeSupervisor(clock);
  const firstUnixMs = clock.nowMs;
  supervisor.configure({ ...SPEC, restartPolicy: 'always' });
  pass(10);
  t.match(toStatus(supervisor), { state: 'running', pid: 1, startedUnixMs: firstUnixMs, uptimeMs: 10 });
  runs[0]?.end();
  const { state, startedUnixMs, uptimeMs } = toStatus(supervisor);
  t.same([state, startedUnixMs, uptimeMs], ['backing_off', undefined, undefined]);
  pass(100);
  t.match(toStatus(supervisor), { state: 'running', pid: 2, startedUnixMs: firstUnixMs + 110 });
});

t.test(
  'a new spec stops the old process in the old way, and begins a ring that readers go on to',
  async (t) => {
    const { supervisor, runs } = makeSupervisor(new FakeClock(t));
    supervisor.configure(SPEC);
    const first = supervisor.ring;
    supervisor.configure({ ...SPEC });
    t.equal(supervisor.ring, first, 'the same spec keeps its ring');
    supervisor.configure({ ...SPEC, cmd: ['other'], stopSignal: 'SIGTERM' });
    const second = supervisor.ring;
    t.not(second, first);
    t.same(runs[0]?.calls, ['signal 2']);
    first.append(1, Buffer.from('last words'), 0);
    t.notOk(first.isSealed, 'what still runs still speaks');
    supervisor.configure({ ...SPEC, cmd: ['third'] });
    runs[0]?.end();
    t.ok(first.isSealed && second.isSealed);
    t.equal(supervisor.findRing(first.id), undefined);
    t.equal(runs[1]?.ring, supervisor.ring);
    t.equal(first.next?.next, supervisor.ring);
    t.equal(first.counts.droppedRecords, 0, 'the earlier run keeps its output');
  },
);

t.test('the ring before is kept for a minute, an older one only while its process runs', async (t) => {
  const { supervisor, runs, pass } = makeSupervisor(new FakeClock(t));
  const rings = ['a', 'b', 'c'].map((cmd) => {
    supervisor.configure({ ...SPEC, cmd: [cmd] });
    runs.at(-1)?.ring.append(1, Buffer.from(cmd), 0);
    runs.at(-1)?.end();
    pass(30_000);
    return supervisor.ring;
  });
  const isKnown = () => rings.map((ring) => supervisor.findRing(ring.id) === ring);
  const droppedRecords = () => rings.map(({ counts }) => counts.droppedRecords);
  t.same(isKnown(), [false, true, true]);
  pass(29_999);
  t.same(isKnown(), [false, true, true]);
  pass(1);
  t.same(isKnown(), [false, false, true]);
  t.same(droppedRecords(), [1, 0, 0], 'and what is forgotten holds no memory');
});

t.test('a pause that was cut short starts nothing later', async (t) => {
  const { supervisor, runs, pass } = makeSupervisor(new FakeClock(t));
  supervisor.configure({ ...SPEC, restartPolicy: 'always' });
  runs[0]?.end();
  pass(50);
  supervisor.start();
  runs[1]?.end();
  pass(99);
  t.same([supervisor.state, supervisor.restarts, runs.length], ['backing_off', 0, 2]);
  pass(1);
  t.same([supervisor.state, supervisor.restarts, runs.length], ['running', 1, 3]);
});

t.test('retries come after their pauses and are counted; a start that fails is final', async (t) => {
  const { supervisor, runs, pass, world } = makeSupervisor(new FakeClock(t));
  supervisor.configure({ ...SPEC, restartPolicy: 'on-failure', maxRetries: 2 });
  runs[0]?.end();
  t.equal(supervisor.state, 'backing_off');
  pass(99);
  t.equal(runs.length, 1);
  pass(1);
  t.same([runs.length, supervisor.restarts, supervisor.state], [2, 1, 'running']);
  runs[1]?.end();
  pass(200);
  runs[2]?.end();
  t.same([supervisor.state, supervisor.restarts, runs.length], ['failed', 2, 3]);
  supervisor.start();
  runs[3]?.end();
  t.equal(supervisor.state, 'backing_off', 'a start gives all retries back');
  world.launchError = 'no such program';
  supervisor.restart();
  t.same([supervisor.state, supervisor.lastExit?.result.error], ['failed', 'no such program']);
  t.notOk(supervisor.lastExit?.isRequested);
  pass(100_000);
  t.equal(supervisor.state, 'failed', 'no pause is left over');
});

/** The state after an exit that no client requested. */
const AFTER_END: Record<string, Record<number, string>> = {
  never: { 0: 'stopped', 1: 'failed' },
  'on-failure': { 0: 'stopped', 1: 'backing_off' },
  always: { 0: 'backing_off', 1: 'backing_off' },
};

t.test('whatever is done to it, it ends as the last command wants', (t) => {
  const step = fc.constantFrom('configure', 'start', 'stop', 'restart', 'end', 'crash', 'time');
  const policy = fc.constantFrom('never', 'on-failure', 'always');
  const clock = new FakeClock(t);
  fc.assert(
    fc.property(policy, fc.array(step, { maxLength: 60, size: 'max' }), (restartPolicy, steps) => {
      const { supervisor, runs, pass } = makeSupervisor(clock);
      const ended = new Set<number>();
      const live = (): number[] => [...runs.keys()].filter((run) => !ended.has(run));
      const end = (exitCode: number): void => {
        const [run] = live();
        if (run === undefined) return;
        ended.add(run);
        runs[run]?.end({ exitCode });
      };
      let wanted = 'run';
      let cmd = 'run0';
      supervisor.configure({ ...SPEC, restartPolicy, cmd: [cmd] });
      for (const [number, action] of steps.entries()) {
        if (action === 'configure') {
          cmd = `run${number + 1}`;
          supervisor.configure({ ...SPEC, restartPolicy, cmd: [cmd] });
        } else if (action === 'end') end(0);
        else if (action === 'crash') end(1);
        else if (action === 'time') pass(70_000);
        else supervisor[action]();
        if (['configure', 'start', 'restart'].includes(action)) wanted = 'run';
        if (action === 'stop') wanted = 'stop';
        assert.ok(live().length <= 1, 'never two at once');
        assert.equal(live().length === 1, ['running', 'stopping', 'restarting'].includes(supervisor.state));
      }
      // A process that was stopped exits now.
      if (!isSettled(supervisor.state)) end(0);
      const [running] = live();
      if (wanted === 'stop') assert.deepEqual([supervisor.state, running], ['stopped', undefined]);
      else if (running !== undefined)
        assert.deepEqual([supervisor.state, runs[running]?.cmd], ['running', [cmd]]);
      else {
        const { result, isRequested } = supervisor.lastExit ?? {};
        assert.equal(isRequested, false, 'only by itself may it be away');
        assert.equal(supervisor.state, AFTER_END[restartPolicy]?.[result?.exitCode ?? -1]);
      }
    }),
    { numRuns: 500 },
  );
  t.end();
});
