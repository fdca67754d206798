// What a client without a decoder of frames gets of a command: its result, its output as one JSON or as lines.
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import t from 'tap';
import { collectOutput, OutputLines } from '../../../../../host-agent/src/http/exec/command-output.ts';
import { toExecResultBody } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { toExecForm } from '../../../../../host-agent/src/http/routes/exec.ts';
import type { PullStream } from '../../../../../host-agent/src/lib/byte-queue.ts';

t.test('a result says what there is to say, an error no more than fits', async (t) => {
  const plain = { exitCode: 0, durationMs: 1.6 };
  t.same(toExecResultBody(plain), { exit_code: 0, duration_ms: 2 });
  t.same(toExecResultBody({ ...plain, timedOut: false, oomKilled: false, error: '', signal: '' }), {
    exit_code: 0,
    duration_ms: 2,
  });
  const usage = {
    cpuUserMs: 1.4,
    cpuSysMs: 2.6,
    peakMemoryBytes: 3,
    pageFaultsMajor: 4,
    contextSwitchesInvoluntary: 5,
    ioReadBytes: 6,
    ioWriteBytes: 7,
  };
  t.same(toExecResultBody({ ...plain, timedOut: true, oomKilled: true, signal: 'SIGKILL', usage }), {
    exit_code: 0,
    duration_ms: 2,
    signal: 'SIGKILL',
    timed_out: true,
    oom_killed: true,
    usage: {
      cpu_user_ms: 1,
      cpu_sys_ms: 3,
      peak_memory_bytes: 3,
      page_faults_major: 4,
      context_switches_involuntary: 5,
      io_read_bytes: 6,
      io_write_bytes: 7,
    },
  });
  t.equal(toExecResultBody({ ...plain, error: 'e'.repeat(5000) }).error?.length, 4096);
});

/** Frames of a command as they come, and what is released of them. */
function framesOf(...pieces: readonly Buffer[]) {
  const seen = { released: 0, cancels: 0, pokes: 0 };
  const rest = [...pieces];
  const flow: PullStream = {
    next: async () => {
      const bytes = rest.shift();
      return bytes === undefined ? undefined : { bytes, release: () => void seen.released++ };
    },
    cancel: () => void seen.cancels++,
    keepalive: () => void seen.pokes++,
  };
  return { flow, seen };
}
const out = (data: string | Buffer) => encodeExecFrame(EXEC_FRAME.stdout, Buffer.from(data));
const err = (data: string | Buffer) => encodeExecFrame(EXEC_FRAME.stderr, Buffer.from(data));
const EXIT = encodeExecFrame(EXEC_FRAME.exit, Buffer.from('{"exit_code":0,"duration_ms":1}'));
const RESULT = { exit_code: 0, duration_ms: 1 };

t.test('as one JSON: the beginning of each stream, cut between two characters', async (t) => {
  const { flow, seen } = framesOf(out('ab'), Buffer.concat([err('x'), out('cd')]), EXIT);
  t.same(await collectOutput(flow, 10), { stdout: 'abcd', stderr: 'x', ...RESULT });
  t.equal(seen.released, 3);
  const collect = (max: number, ...pieces: Buffer[]) => collectOutput(framesOf(...pieces, EXIT).flow, max);
  t.same(await collect(4, out('abc'), out('d'), out('')), { stdout: 'abcd', stderr: '', ...RESULT });
  t.same(await collect(4, out('abc'), out('de'), out('f')), {
    stdout: 'abcd',
    stderr: '',
    stdout_truncated: true,
    ...RESULT,
  });
  t.same(await collect(2, err('aä'), out('ä')), {
    stdout: 'ä',
    stderr: 'a',
    stderr_truncated: true,
    ...RESULT,
  });
  t.same(await collect(2, out(Buffer.of(0x61, 0xc3)), err(Buffer.of(0xff))), {
    stdout: 'YcM=',
    stderr: '/w==',
    stdout_base64: true,
    stderr_base64: true,
    ...RESULT,
  });
  t.same(await collect(0, out('a')), { stdout: '', stderr: '', stdout_truncated: true, ...RESULT });
  const { concat } = Buffer;
  let most = 0;
  Buffer.concat = (list, ...rest) => {
    most = Math.max(most, list.length);
    return concat(list, ...rest);
  };
  await collect(
    2,
    ...Array.from({ length: 50 }, (_, at) => out(at === 0 ? 'ab' : 'c')),
    ...Array(50).fill(err('')),
  );
  Buffer.concat = concat;
  t.ok(most < 50, 'of what is forgotten nothing is kept');
  const lent = out('lent');
  const later = framesOf(lent, EXIT);
  const { next } = later.flow;
  later.flow.next = () => {
    if (later.seen.released > 0) lent.fill(0);
    return next();
  };
  t.equal((await collectOutput(later.flow, 10)).stdout, 'lent', 'what is released is used again');
});

t.test('as lines: characters whole, each with its stream, the result last', async (t) => {
  const { flow, seen } = framesOf(
    Buffer.concat([out(Buffer.of(0x61, 0xc3)), err('e')]),
    err(Buffer.of(0xe2, 0x82)),
    out(Buffer.of(0xa4, 0x62)),
    out(''),
    err(Buffer.of(0xff, 0x62)),
    err(Buffer.of(0xc3)),
    EXIT,
  );
  const lines = new OutputLines(flow);
  const pieces: unknown[][] = [];
  for (let chunk = await lines.next(); chunk !== undefined; chunk = await lines.next()) {
    pieces.push(
      String(chunk.bytes)
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    );
    const before = seen.released;
    chunk.release();
    t.equal(seen.released, before + 1);
  }
  t.same(pieces, [
    [
      { stream: 'stdout', data: 'a' },
      { stream: 'stderr', data: 'e' },
    ],
    [{ stream: 'stdout', data: 'äb' }],
    [{ stream: 'stdout', data: '' }],
    [{ stream: 'stderr', data: '4oL/Yg==', base64: true }],
    [{ stream: 'stderr', data: 'ww==', base64: true }, { result: RESULT }],
  ]);
  t.equal(seen.released, 7, 'also of what made no line');
  lines.keepalive();
  lines.cancel();
  t.match(seen, { cancels: 1, pokes: 1 });
  const { keepalive: _, ...silent } = flow;
  new OutputLines(silent).keepalive();
});

t.test('frames, unless only JSON is asked for', async (t) => {
  const [json, lines, frames] = ['application/json', 'application/x-ndjson', 'application/octet-stream'];
  for (const [accept, form] of [
    [undefined, frames],
    ['', frames],
    ['*/*', frames],
    ['application/json', json],
    ['APPLICATION/JSON ; q=1', json],
    ['text/html, application/x-ndjson', lines],
    ['application/json, */*;q=0.1', frames],
    ['application/json, application/*', frames],
    ['application/octet-stream', frames],
    ['text/html', frames],
    ['text/html;application/json', frames],
  ])
    t.equal(toExecForm(accept), form, String(accept));
});
