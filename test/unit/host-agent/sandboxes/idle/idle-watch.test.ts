// The idle timeout: what is sampled, what counts as use, and what a later daemon restores.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import t, { type Test } from 'tap';
import type { ExecSession } from '../../../../../host-agent/src/guest/exec.ts';
import { readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';
import { trackExecUse } from '../../../../../host-agent/src/sandboxes/exec.ts';
import {
  type Counters,
  HOST_IDLE,
  IdleWatch,
} from '../../../../../host-agent/src/sandboxes/idle/idle-watch.ts';
import { trackTransferUse } from '../../../../../host-agent/src/sandboxes/idle/sandbox-use.ts';
import { forgetIdle, watchIdle } from '../../../../../host-agent/src/sandboxes/idle/timeouts.ts';
import { FakeClock } from '../../../../support/fake-clock.ts';

const MINUTE = 60_000;

async function makeScratch(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'idle-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** An idle watch, with recorded calls. */
async function watch(t: Test, changes: Partial<ConstructorParameters<typeof IdleWatch>[0]> = {}) {
  const clock = new FakeClock(t);
  const startedAtMs = clock.nowMs;
  const requests = { reads: 0, connections: 0 };
  const ends: number[] = [];
  const counters = { cpuMs: 0, networkBytes: 0 };
  const path = join(await makeScratch(t), 'times', 'sbx');
  const options = {
    idleMs: MINUTE,
    path,
    read: () => {
      requests.reads++;
      return { ...counters };
    },
    hasConnection: async () => {
      requests.connections++;
      return false;
    },
    onIdle: async () => void ends.push(clock.nowMs - startedAtMs),
    ...changes,
  };
  const idle = new IdleWatch(options);
  t.teardown(() => idle.stop(true));
  return { idle, clock, counters, requests, ends, path, options };
}

t.test('four samples are taken within the timeout, within bounds, until the watch is stopped', async (t) => {
  for (const [idleMs, ms] of [
    [100, 250],
    [20_000, 5000],
    [MINUTE, 15_000],
    [10 * MINUTE, 15_000],
  ] as const) {
    const { clock, idle } = await watch(t, { idleMs });
    t.same(clock.delays, [ms]);
    idle.stop(true);
    clock.restore();
  }
  const { idle, clock, requests, ends, path } = await watch(t);
  await clock.pass(45_000);
  t.same(requests, { reads: 4, connections: 0 }, 'connections are not counted before the timeout');
  idle.stop(false);
  const retained = JSON.parse(readFileSync(path, 'utf8'));
  t.match(retained, { lookedAt: retained.activeAt + 45_000, counters: { cpuMs: 0, networkBytes: 0 } });
  await clock.pass(10 * MINUTE);
  t.same([requests, ends], [{ reads: 4, connections: 0 }, []]);
  idle.touch();
  idle.stop(false);
  t.same(JSON.parse(readFileSync(path, 'utf8')), retained, 'it is the next daemon’s now');
  idle.stop(true);
  t.notOk(existsSync(dirname(path)));
});

t.test('activity between samples counts above a share of CPU and a number of bytes', async (t) => {
  const { clock, counters, ends } = await watch(t);
  const isKept = async (cpuMs: number, networkBytes: number): Promise<boolean> => {
    const before = ends.length;
    for (let looks = 0; looks < 4; looks++) {
      counters.cpuMs += cpuMs;
      counters.networkBytes += networkBytes;
      await clock.pass(15_000);
    }
    return ends.length === before;
  };
  t.same([await isKept(750, 256), await isKept(0, 0)], [false, false]);
  t.ok(await isKept(751, 0));
  t.ok(await isKept(0, 257));
  t.equal(ends[0], MINUTE);
  t.equal(ends[1], 2 * MINUTE, 'when it stayed, its idle time started again');
});

t.test('unreadable counters mean nothing', async (t) => {
  const { clock, ends, path } = await watch(t, { read: () => undefined });
  await clock.pass(30_000);
  t.notOk('counters' in JSON.parse(readFileSync(path, 'utf8')));
  await clock.pass(30_000);
  t.equal(ends.length, 1);
});

t.test(
  'a use during the count of connections keeps the sandbox, and a stopped watch ends nothing',
  async (t) => {
    for (const meanwhile of ['begin', 'touch', 'stop'] as const) {
      let idle: IdleWatch | undefined;
      const made = await watch(t, {
        hasConnection: async () => {
          if (meanwhile === 'begin') idle?.beginUse();
          else if (meanwhile === 'touch') idle?.touch();
          else idle?.stop(false);
          return false;
        },
      });
      idle = made.idle;
      await made.clock.pass(MINUTE);
      t.same(made.ends, [], meanwhile);
      t.equal(made.clock.count, meanwhile === 'stop' ? 0 : 1);
      made.clock.restore();
    }
  },
);

t.test('a use cancels the end, and uses before it do not', async (t) => {
  const signals: AbortSignal[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const { idle, clock } = await watch(t, {
    onIdle: (signal) => {
      signals.push(signal);
      return signals.length === 1 ? promise : Promise.resolve();
    },
  });
  await clock.pass(MINUTE);
  t.equal(signals[0]?.aborted, false);
  const end = idle.beginUse();
  t.match(signals[0]?.reason, { message: 'the sandbox is used again' });
  end();
  end();
  await clock.pass(MINUTE - 1);
  resolve();
  await new Promise(setImmediate);
  await clock.pass(MINUTE - 1);
  t.equal(signals.length, 1, 'its idle time starts when its end was cancelled');
  await clock.pass(1);
  t.equal(signals.length, 2);
  idle.touch();
  t.equal(signals[1]?.aborted, false, 'that one is over');
});

t.test('without a stored time of this boot the idle time starts again', async (t) => {
  const { idle, clock, path, options } = await watch(t);
  await clock.pass(30_000);
  idle.stop(false);
  const restart = async (text?: string): Promise<number> => {
    if (text !== undefined) writeFileSync(path, text);
    const began = clock.nowMs;
    const ends: number[] = [];
    const next = new IdleWatch({ ...options, onIdle: async () => void ends.push(clock.nowMs) });
    await clock.pass(MINUTE);
    next.stop(false);
    return (ends[0] ?? 0) - began;
  };
  const at = (activeAt: number, lookedAt: number) => JSON.stringify({ activeAt, lookedAt });
  t.equal(await restart(), 30_000, 'it goes on at the moment of the last look');
  const now = () => Number(process.hrtime.bigint() / 1_000_000n);
  t.equal(await restart(at(now() - 45_000, now())), 15_000);
  t.equal(await restart(at(now() - 45_000, now() + 1)), MINUTE);
  t.equal(await restart('no time'), MINUTE);
  t.equal(await restart('{}'), MINUTE);
  rmSync(dirname(path), { recursive: true });
  writeFileSync(dirname(path), 'where it cannot be written');
  t.equal(await restart(), MINUTE, 'it is watched all the same');
  rmSync(dirname(path));
});

t.test('counters are those of the VM while it runs', async (t) => {
  const root = await makeScratch(t);
  const clock = new FakeClock(t);
  const directories = { dataDir: root, runDir: root };
  const identity = { pid: process.pid, startTicks: readStartTicks(process.pid) };
  const keptOf = async (id: string, change: object, readCounters?: (sandbox: { id: string }) => Counters) => {
    const record = {};
    const sandbox = {
      id,
      record,
      paths: { layerPath: '/nothing' },
      running: { vm: { exit: undefined, identity } },
      ...change,
    };
    const context = { directories, idle: { ...HOST_IDLE, ...(readCounters && { readCounters }) } };
    const idle = watchIdle(
      sandbox as never,
      context,
      { timeoutS: 60, action: 'delete' },
      async () => undefined,
    );
    await clock.pass(15_000);
    idle.stop(false);
    return JSON.parse(readFileSync(join(root, 'idle', id), 'utf8')).counters;
  };
  t.match(await keptOf('plain', {}), { cpuMs: Number, networkBytes: 0 });
  t.ok((await keptOf('busy', {})).cpuMs > 0);
  t.match(await keptOf('linked', { record: { network: { tap: 'lo', guestIp: '10.0.0.2' } } }), {
    networkBytes: Number,
  });
  t.equal(await keptOf('dead', { running: { vm: { exit: {}, identity } } }), undefined);
  t.same(await keptOf('made', {}, ({ id }) => ({ cpuMs: id.length, networkBytes: 9 })), {
    cpuMs: 4,
    networkBytes: 9,
  });
  await forgetIdle(directories, new Set(['busy', 'made']));
  t.same(readdirSync(join(root, 'idle')).sort(), ['busy', 'made']);
  await forgetIdle({ ...directories, runDir: join(root, 'nowhere') }, new Set());
});

t.test('tracked uses pass on all calls and events', async (t) => {
  const { idle, clock, ends } = await watch(t);
  const received: string[] = [];
  trackExecUse(
    idle,
    {
      started: (pid) => received.push(`started ${pid}`),
      output: (stream, chunk) => received.push(`${stream} ${chunk}`),
      exit: ({ exitCode }) => received.push(`exit ${exitCode}`),
      drain: () => received.push('drain'),
    },
    (events) => {
      events.started?.(7);
      events.output('stderr', Buffer.from('x'));
      events.drain?.();
      events.exit({ exitCode: 3, durationMs: 1 });
      return {} as ExecSession;
    },
  );
  t.same(received, ['started 7', 'stderr x', 'drain', 'exit 3']);
  const outer = { output: () => undefined, exit: () => undefined };
  trackExecUse(idle, outer, (events) => {
    events.started?.(7);
    events.drain?.();
    events.exit({ exitCode: 0, durationMs: 1 });
    return {} as ExecSession;
  });
  const requests: unknown[][] = [];
  const calledOn: string[] = [];
  const failing = {
    next: () => Promise.reject(new Error('it broke')),
    cancel: () => calledOn.push('cancel'),
    keepalive: () => calledOn.push('keepalive'),
  };
  const files = trackTransferUse(idle, {
    pushFiles: (...all) => {
      requests.push(all);
      return Promise.reject(new Error('no room'));
    },
    pullFile: async (...all) => {
      requests.push(all);
      return { body: failing };
    },
    pullDirectory: async (...all) => {
      requests.push(all);
      return { body: { next: async () => undefined, cancel: () => undefined } };
    },
    call: (...all) => {
      requests.push(all);
      return Promise.reject(new Error('no such file'));
    },
    read: () => Promise.reject(new Error('no such file')),
    write: (...all) => {
      requests.push(all);
      return Promise.reject(new Error('no room'));
    },
    watch: () => ({ consumed: () => undefined, cancel: () => undefined }),
  });
  const { signal } = new AbortController();
  const read = async () => undefined;
  await t.rejects(files.pushFiles('/a', read, signal), { message: 'no room' });
  const { body } = await files.pullFile('/b', 5, signal);
  body.keepalive?.();
  await t.rejects(body.next(), { message: 'it broke' });
  body.cancel();
  const directory = await files.pullDirectory('/c', signal);
  t.notOk('keepalive' in directory.body);
  t.equal(await directory.body.next(), undefined);
  await t.rejects(files.call({ stat: {} }, signal), { message: 'no such file' });
  await t.rejects(files.read({}), { message: 'no such file' });
  await t.rejects(files.write({ parents: true }, read, signal), { message: 'no room' });
  t.same(requests, [
    ['/a', read, signal],
    ['/b', 5, signal],
    ['/c', signal],
    [{ stat: {} }, signal],
    [{ parents: true }, read, signal],
  ]);
  t.same(calledOn, ['keepalive', 'cancel']);
  await clock.pass(MINUTE);
  t.equal(ends.length, 1, 'none of them is a use that never ends');
});
