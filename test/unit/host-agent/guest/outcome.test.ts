// What a guest says of a command's end, in the units and within the bounds that clients get.
import type { ExecResult } from '@sandboxd/proto';
import t from 'tap';
import { failedOutcome, toExecOutcome } from '../../../../host-agent/src/guest/outcome.ts';

const PLAIN = {
  exitCode: 3,
  durationUs: 1_234_567,
  signal: '',
  timedOut: false,
  oomKilled: false,
  error: '',
  agentUs: 0,
  usage: null,
} as unknown as ExecResult;

t.test('a plain end says no more than there is to say', async (t) => {
  t.same(toExecOutcome(PLAIN), { exitCode: 3, durationMs: 1235 });
});

t.test('everything there is', async (t) => {
  const usage = {
    cpuUserUs: 1500,
    cpuSysUs: 2499,
    peakMemoryBytes: 4096,
    pageFaultsMajor: 5,
    contextSwitchesInvoluntary: 6,
    ioReadBytes: 7,
    ioWriteBytes: 8,
  };
  const result = {
    ...PLAIN,
    exitCode: -1,
    signal: 'SIGKILL',
    timedOut: true,
    oomKilled: true,
    error: 'why',
    agentUs: 77,
    usage,
  } as unknown as ExecResult;
  t.same(toExecOutcome(result), {
    exitCode: -1,
    durationMs: 1235,
    signal: 'SIGKILL',
    timedOut: true,
    oomKilled: true,
    error: 'why',
    agentUs: 77,
    usage: {
      cpuUserMs: 2,
      cpuSysMs: 2,
      peakMemoryBytes: 4096,
      pageFaultsMajor: 5,
      contextSwitchesInvoluntary: 6,
      ioReadBytes: 7,
      ioWriteBytes: 8,
    },
  });
});

t.test('a hostile guest’s numbers and texts have bounds', async (t) => {
  const wild = (exitCode: number, number: number): ExecResult =>
    ({
      ...PLAIN,
      exitCode,
      durationUs: number,
      signal: 'S'.repeat(100),
      error: 'e'.repeat(10_000),
    }) as unknown as ExecResult;
  const low = toExecOutcome(wild(-1000, -5));
  t.same([low.exitCode, low.durationMs, low.signal?.length, low.error?.length], [-1, 0, 32, 4096]);
  const high = toExecOutcome(wild(1000, Number.POSITIVE_INFINITY));
  t.same([high.exitCode, high.durationMs], [255, 0]);
  t.ok(Number.isSafeInteger(toExecOutcome(wild(0, 1e300)).durationMs));
  t.equal(toExecOutcome(wild(0, Number.NaN)).durationMs, 0);
});

t.test('one that never ran says how long was waited for it', async (t) => {
  const { exitCode, durationMs, error } = failedOutcome('gone', performance.now() - 5000);
  t.same([exitCode, error], [-1, 'gone']);
  t.ok(durationMs >= 5000 && durationMs < 60_000);
});
