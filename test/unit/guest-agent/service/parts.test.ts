// The parts of the service around its process: output, memory, and responses to calls.
import '../support/addon-dir.ts';
import {
  MAX_SERVICE_RECORD_BYTES,
  SERVICE_VERB,
  type ServiceControl,
  type ServiceOutput,
  ServiceRecordDecoder,
  type ServiceSpec,
  type Stream,
} from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { readMemory } from '../../../../guest-agent/src/machine/stats.ts';
import { NOT_NOW } from '../../../../guest-agent/src/native/addon.ts';
import type { Poller } from '../../../../guest-agent/src/native/poller.ts';
import { controlService, streamOutput, toStatus } from '../../../../guest-agent/src/service/calls.ts';
import { OutputTap } from '../../../../guest-agent/src/service/output-tap.ts';
import { OutputRing } from '../../../../guest-agent/src/service/ring.ts';
import { checkSpec, toExec } from '../../../../guest-agent/src/service/spec.ts';
import { isSettled, SERVICE_STATES } from '../../../../guest-agent/src/service/states.ts';
import { Supervisor } from '../../../../guest-agent/src/service/supervisor.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';

/** A tap whose pipe returns the test's reads, one after another. */
function startTap(t: Test, reads: (number | Error)[], limitBytes = 10_000_000) {
  const calls: string[] = [];
  let fill = 0;
  replaceInAddon(t, {
    read: (_fd, buffer) => {
      const got = reads.shift() ?? NOT_NOW;
      if (typeof got !== 'number') throw got;
      if (got > 0) buffer.fill(++fill, 0, got);
      return got;
    },
    close: (fd) => void calls.push(`close ${fd}`),
  });
  let wake = (): void => {};
  const poller = {
    watch: (_fd: number, _mask: number, callback: () => void) => {
      wake = callback;
      return { id: 1, update: () => {}, close: () => void calls.push('unwatch') };
    },
  };
  const ring = new OutputRing('b'.repeat(16), limitBytes);
  const tap = new OutputTap(poller as unknown as Poller, 5_000_000, 'stderr', ring);
  return { tap, ring, calls, wake: () => wake(), records: () => ring.counts.nextSeq };
}

t.test('what is there is read until there is no more, in turns', async (t) => {
  const KIB = 1024;
  const few = startTap(t, [10, 20, NOT_NOW, 30, 0]);
  few.wake();
  t.same([few.records(), few.calls], [2, []]);
  t.equal(few.tap.drain(), true);
  t.same([few.records(), few.calls], [3, ['unwatch', 'close 5000000']]);
  few.tap.close();
  few.wake();
  t.same([few.tap.drain(), few.calls.length], [true, 2], 'once');

  const reads = Array.from({ length: 20 }, () => 64 * KIB - 100);
  const many = startTap(t, reads, 2 ** 24);
  many.wake();
  t.equal(reads.length, 11, 'half a megabyte, and then it is the turn of others');
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(reads.length, 2);
  many.tap.close();
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(reads.length, 2, 'nor does it read what it has closed');

  const broken = startTap(t, [5, new Error('EIO')]);
  t.equal(broken.tap.drain(), true);
  t.same([broken.records(), broken.calls.length], [1, 2]);
  const open = startTap(t, [5]);
  t.equal(open.tap.drain(), false, 'its writers are not gone');
});

t.test('a record is as long as the ring takes at most', async (t) => {
  const { ring, wake } = startTap(t, [250], 100);
  wake();
  t.equal(ring.counts.nextSeq, 3);
  const exact = startTap(t, [MAX_SERVICE_RECORD_BYTES, 200, NOT_NOW], 1_000_000);
  exact.wake();
  t.equal(exact.records(), 2);
  const twice = startTap(t, [200], 100);
  twice.wake();
  t.same(twice.ring.counts, { firstSeq: 1, nextSeq: 2, droppedRecords: 1, droppedBytes: 100 });
});

t.test('memory is summed up over the first of very many processes', async (t) => {
  let reads = 0;
  replaceInAddon(t, {
    readText: (_directory, name) => {
      reads += 1;
      return name === '/proc/7/status' ? 'Name:\tx\nVmHWM:\t      30 kB\nVmRSS:\t      20 kB\n' : '';
    },
  });
  t.same(readMemory([7, 8, 7]), { liveRssBytes: 40 * 1024, livePeakRssBytes: 60 * 1024 });
  reads = 0;
  t.same(readMemory(Array(600).fill(7)), {
    liveRssBytes: 512 * 20 * 1024,
    livePeakRssBytes: 512 * 30 * 1024,
  });
  t.equal(reads, 512);
});

/** A supervisor with an operation in progress, and the responses to its calls. */
function ask(verb: number, graceMs?: number) {
  const calls: string[] = [];
  const answers: object[] = [];
  const waiting = new Set<() => void>();
  const service = {
    state: 'restarting',
    restarts: 0,
    start: () => void calls.push('start'),
    stop: (ms?: number) => void calls.push(`stop ${ms}`),
    restart: () => void calls.push('restart'),
    whenSettled: (callback: () => void) => {
      waiting.add(callback);
      return () => void waiting.delete(callback);
    },
  };
  const stream = { finish: (answer: { serviceStatus: object }) => void answers.push(answer.serviceStatus) };
  controlService(
    service as unknown as Supervisor,
    stream as unknown as Stream,
    { verb, graceMs } as ServiceControl,
  );
  return { service, calls, answers, waiting };
}

t.test('a command is answered once it has settled, or after a second with what it has come to', async (t) => {
  const timers = new FakeClock(t);
  for (const [verb, call] of [
    [SERVICE_VERB.START, 'start'],
    [SERVICE_VERB.STOP, 'stop 5'],
    [SERVICE_VERB.RESTART, 'restart'],
  ] as const) {
    const settling = ask(verb, 5);
    t.same([settling.calls, settling.answers, timers.delays], [[call], [], [1000]]);
    settling.service.state = 'running';
    for (const settled of settling.waiting) settled();
    t.same([settling.answers, timers.delays], [[{ state: 'running' }], []]);
    const slow = ask(verb);
    timers.tick(timers.delays[0] ?? 0);
    t.same([slow.answers, slow.waiting.size], [[{ state: 'stopping' }], 0], 'a restart is shown as a stop');
  }
  const status = ask(SERVICE_VERB.STATUS);
  t.same([status.calls, status.answers], [[], [{ state: 'stopping' }]]);
  t.equal(toStatus({ state: 'idle' } as Supervisor).state, 'idle');
});

t.test(
  'output of no log in particular is that of the newest, from the record that was asked for',
  async (t) => {
    const ring = new OutputRing('c'.repeat(16), 1000);
    for (const text of ['a', 'b', 'c']) ring.append(1, Buffer.from(text), 0);
    const service = { state: 'running', ring, findRing: (id: string) => (id === ring.id ? ring : undefined) };
    const read = (request: object): string => {
      let source: (maxBytes: number) => Uint8Array | null = () => null;
      const stream = {
        setSource: (_flow: number, given: typeof source) => {
          source = given;
        },
        ready: () => {},
        finish: () => {},
      };
      const whole = { ring: '', fromSeq: 0, follow: false, wait: false, maxBytes: 0, ...request };
      streamOutput(service as unknown as Supervisor, stream as unknown as Stream, whole as ServiceOutput);
      const decoder = new ServiceRecordDecoder();
      let text = '';
      for (let bytes = source(1000); bytes !== null; bytes = source(1000))
        for (const record of decoder.push(Buffer.from(bytes)))
          if (record.kind === 'output') text += record.data;
      return text;
    };
    t.equal(read({ fromSeq: 1 }), 'bc');
    t.equal(read({ ring: ring.id, fromSeq: 2 }), 'c');
    t.equal(read({ ring: 'd'.repeat(16), fromSeq: 2 }), 'abc', 'of one that is gone there is no record');
    service.state = 'idle';
    t.throws(() => read({}), { code: 'conflict' });
    t.equal(read({ wait: true }), 'abc');
  },
);

const SPEC: ServiceSpec = {
  cmd: ['run'],
  env: ['A=own'],
  baseEnv: ['A=base', 'B=base'],
  makeCwd: false,
  cwd: '/srv',
  user: 'nobody',
  stopSignal: 'SIGTERM',
  stopGraceMs: 0,
  restartPolicy: 'on-failure',
  maxRetries: 2,
  logBufferBytes: 2 ** 24,
};

t.test('a spec is run without input or a limit, and its own environment comes last', async (t) => {
  checkSpec(SPEC);
  t.same(toExec(SPEC), {
    cmd: ['run'],
    env: ['A=base', 'B=base', 'A=own'],
    cwd: '/srv',
    user: 'nobody',
    timeoutMs: 0,
    stdin: false,
  });
  t.match(
    toExec({ ...SPEC, makeCwd: true, cwd: '/dev/null/none' }),
    { cwd: '/dev/null/none', isExact: true },
    'the launch says why not',
  );
  t.same(
    SERVICE_STATES.filter((state) => !isSettled(state)),
    ['starting', 'stopping', 'restarting'],
  );
});

/** A supervisor whose processes exit, or fail to start, as the test defines. */
function supervise(t: Test, launchError?: unknown) {
  const clock = new FakeClock(t);
  const ends: ((exitCode: number) => void)[] = [];
  const supervisor = new Supervisor((_exec, _ring, { ended }) => {
    clock.nowMs += 7;
    if (launchError !== undefined) throw launchError;
    ends.push((exitCode) => ended({ exitCode }));
    return { pid: ends.length, signal: () => {}, kill: () => {}, pids: () => [] };
  });
  return { supervisor, clock, end: (exitCode: number) => ends.at(-1)?.(exitCode) };
}

t.test('times are counted from the start of each run, however long the machine has been up', async (t) => {
  const { supervisor, clock, end } = supervise(t);
  supervisor.configure(SPEC);
  clock.nowMs += 5;
  t.equal(supervisor.live?.uptimeMs, 12);
  for (let retry = 0; retry < 2; retry++) {
    end(1);
    t.equal(supervisor.state, 'backing_off');
    clock.tick(1000);
    t.equal(supervisor.state, 'running');
  }
  end(1);
  t.equal(supervisor.state, 'failed', 'none of its lives was a long one');
  t.equal(supervisor.restarts, 2);
  supervisor.configure({ ...SPEC, cmd: ['other'] });
  t.equal(supervisor.restarts, 0, 'this one was not restarted');
});

t.test('any error of a launch is reported, with its duration', async (t) => {
  for (const [error, text] of [
    [new Error('no such program'), 'no such program'],
    ['no room', 'no room'],
  ]) {
    const { supervisor, clock } = supervise(t, error);
    supervisor.configure(SPEC);
    t.equal(supervisor.state, 'failed');
    t.same(supervisor.lastExit?.result, { exitCode: -1, durationUs: 7000, error: text });
    clock.restore();
  }
});
