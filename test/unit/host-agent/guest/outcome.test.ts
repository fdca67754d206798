// A guest's result of a command, and its refusals, as clients get them.
import { AgentError, type ExecResult, type Result } from '@sandboxd/proto';
import t from 'tap';
import {
  causeOf,
  refusalOf,
  toCallError,
  toLossError,
} from '../../../../host-agent/src/guest/agent-errors.ts';
import { failedOutcome, toExecOutcome } from '../../../../host-agent/src/guest/exec.ts';

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
  const { exitCode, durationMs, error } = failedOutcome(
    'gone',
    'guest_unreachable',
    performance.now() - 5000,
  );
  t.same([exitCode, error], [-1, 'gone']);
  t.ok(durationMs >= 5000 && durationMs < 60_000);
});

t.test('a failure means to a client what it is for that kind of call', async (t) => {
  const far = 'the guest agent cannot be reached: ';
  for (const [error, kind, code, message] of [
    [new AgentError('busy', 'full'), 'exec', 'exhausted', 'full; try again when some have ended'],
    [new AgentError('internal', 'odd'), 'exec', 'guest_unreachable', `${far}odd`],
    [new AgentError('busy', 'full'), 'files', 'exhausted', 'full'],
    [new AgentError('cancelled', 'enough'), 'push', 'cancelled', 'enough'],
    [new AgentError('conflict', 'none'), 'service', 'conflict', 'none'],
    [new AgentError('invalid', 'bad'), 'service', 'invalid_argument', 'bad'],
    [
      new AgentError('busy', 'later'),
      'service',
      'guest_unreachable',
      'the guest agent could not do it: later',
    ],
    [new RangeError('9 bytes'), 'exec', 'invalid_argument', 'cmd and env are too long: 9 bytes'],
    [new RangeError('9 bytes'), 'push', 'invalid_argument', 'the path is too long: 9 bytes'],
    [new RangeError('9 bytes'), 'service', 'invalid_argument', 'the service is too long: 9 bytes'],
    ['gone', 'files', 'guest_unreachable', `${far}gone`],
  ] as const)
    t.match(toCallError(error, kind), { code, message }, message);
  const ours = toCallError('gone', 'exec');
  t.equal(toCallError(ours, 'files'), ours);
});

t.test('a refusal has a reason, and a loss a cause', async (t) => {
  const refusal = (error: object | null) => refusalOf({ error } as unknown as Result);
  t.equal(refusal(null), undefined);
  t.match(refusal({}), { code: 'internal', message: 'no reason given' });
  t.match(refusal({ code: 'busy', message: '' }), { code: 'busy', message: 'no reason given' });
  t.match(refusal({ code: 'busy', message: 'a\u001bb' }), { message: 'a b' });
  t.equal(causeOf({ kind: 'detached' }).message, 'its connection was detached');
  const lost = { kind: 'lost', cause: new Error('cut') } as const;
  t.equal(causeOf(lost), lost.cause);
  t.match(await toLossError(lost, 'it ran', async () => undefined), {
    code: 'guest_unreachable',
    message: 'the guest agent was lost while it ran: cut',
  });
});
