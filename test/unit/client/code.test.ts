// The library's side of the code interpreter: what it runs in the sandbox, and what it makes of any answer.
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api/exec-frames';
import t from 'tap';
import { Code } from '../../../client/src/code.ts';
import type { Requests } from '../../../client/src/connection/requests.ts';

type Call = { readonly body: { readonly cmd: readonly string[]; readonly timeout_s?: number } };

const FRAME_BYTES = 60_000;

/** A sandbox whose commands have this output and result. */
function answering(output: string, result: object = { exit_code: 0 }) {
  const calls: Call['body'][] = [];
  const bytes = Buffer.from(output);
  const frames = [
    ...Array.from({ length: Math.ceil(bytes.length / FRAME_BYTES) }, (_, at) =>
      encodeExecFrame(EXEC_FRAME.stdout, bytes.subarray(at * FRAME_BYTES, (at + 1) * FRAME_BYTES)),
    ),
    encodeExecFrame(EXEC_FRAME.exit, Buffer.from(JSON.stringify({ duration_ms: 1, ...result }))),
  ];
  const written: Buffer[] = [];
  const requests = {
    stream: async (_: string, { body }: Call) => {
      calls.push(body);
      return { body: toBytes(frames), header: () => undefined };
    },
    open: async (_: string, { body }: Call) => {
      calls.push(body);
      const write = async (bytes: Uint8Array) => void written.push(Buffer.from(bytes));
      return { output: toBytes(frames), write, close: () => undefined };
    },
  };
  return { code: new Code(requests as unknown as Requests, 'sbx_1'), calls, written };
}

async function* toBytes(frames: readonly Uint8Array[]) {
  yield* frames;
}

const END = '{"type": "end_of_execution"}\n';
const lines = (...values: readonly object[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join('') + END;

t.test('a cell is one command, and its lines become a result', async (t) => {
  const { code, calls } = answering(
    lines(
      { type: 'number_of_executions', execution_count: 3 },
      { type: 'stdout', text: 'a\n', timestamp: 1 },
      { type: 'stdout', text: 'b\n' },
      { type: 'stderr', text: 'c' },
      { type: 'keepalive' },
      { type: 'result', is_main_result: false, png: 'iVBO', text: 7, chart: { type: 'line' }, json: null },
      { type: 'result', is_main_result: true, text: '4', data: { a: [1] }, extra: { 'x/y': 1 } },
      { type: 'error', name: 'E', value: 'v', traceback: 't' },
      { type: 'something new' },
    ),
  );
  const heard: unknown[] = [];
  const execution = await code.run('2+2', {
    context: { id: 'c' },
    timeoutS: 5,
    onStdout: (text) => heard.push(text),
    onStderr: (text) => heard.push(text),
    onResult: ({ isMain }) => heard.push(isMain),
  });
  t.same(execution, {
    text: '4',
    results: [
      { isMain: false, png: 'iVBO', chart: { type: 'line' }, json: null },
      { isMain: true, text: '4', data: { a: [1] }, extra: { 'x/y': 1 } },
    ],
    stdout: 'a\nb\n',
    stderr: 'c',
    error: { name: 'E', value: 'v', traceback: 't' },
    executionCount: 3,
  });
  t.same(heard, ['a\n', 'b\n', 'c', false, true]);
  const [{ cmd, timeout_s } = { cmd: [] }] = calls;
  t.equal(timeout_s, 5);
  t.equal(cmd[cmd.indexOf('--data-binary') + 1], '{"code":"2+2","context_id":"c"}');
  t.equal(cmd.at(-1), 'http://127.0.0.1:49999/execute');
});

t.test('what is long or secret is no argument', async (t) => {
  for (const [source, options] of [
    ['x'.repeat(120_000), {}],
    ['1', { env: { TOKEN: 'secret' } }],
  ] as const) {
    const { code, calls, written } = answering(END);
    await code.run(source, options);
    t.ok(calls[0]?.cmd.includes('@-'));
    t.notMatch(calls[0]?.cmd.join(' '), /secret|xxx/);
    t.match(Buffer.concat(written).toString('latin1'), source === '1' ? /"TOKEN":"secret"/ : /xxx/);
  }
});

t.test('refusals, timeouts, and answers of a hostile guest', async (t) => {
  const refused = answering('{"code": 404, "message": "there is no context x"}', { exit_code: 22 });
  await t.rejects(refused.code.run('1', { context: 'x' }), {
    name: 'CodeError',
    status: 404,
    message: 'there is no context x',
  });
  const none = /no code interpreter answers/;
  await t.rejects(answering('', { exit_code: 7 }).code.run('1'), { name: 'CodeError', message: none });
  await t.rejects(answering('', { exit_code: -1, error: 'no curl' }).code.contexts(), { message: none });
  const slow = answering('', { exit_code: -1, timed_out: true });
  await t.rejects(slow.code.run('1', { timeoutS: 2 }), { name: 'TimeoutError', message: /after 2 s/ });
  await t.rejects(answering('', { exit_code: 56 }).code.run('1'), { message: /curl exited with 56/ });
  for (const [output, message] of [
    ['', /ended before/],
    ['{"type": "stdout", "text": "a"}\n', /ended before/],
    ['no json\n', /invalid/],
    ['7\n', /invalid/],
    [`{"type"x\n${END}`, /invalid/],
    ['[]\n', /invalid/],
    [lines({ type: 'stdout' }), /invalid/],
    [lines({ type: 'stderr', text: { toString: 1 } }), /invalid/],
    [lines({ type: 'error', name: 'E', value: null, traceback: '' }), /invalid/],
    [lines(...Array(10_001).fill({ type: 'result' })), /more than 10000 results/],
    [`{"type": "result", "json": [${'[],'.repeat(2_000_000)}0]}\n${END}`, /more than 2000000 values/],
    [`{"type": "result", "json": [${',0'.repeat(1_500_000)}`.repeat(2), /invalid|values/],
    [`{"type": "result", "json": ${'['.repeat(5000)}${']'.repeat(5000)}}\n${END}`, /invalid/],
  ] as const)
    await t.rejects(answering(output).code.run('1'), { name: 'SandboxdError', message });
  const much = lines({ type: 'stdout', text: 'y'.repeat(5000) });
  await t.rejects(answering(much).code.run('1', { maxOutputBytes: 1000 }), /more than 1000/);
  await t.rejects(answering('{"code": "x"}', { exit_code: 22 }).code.run('1'), /invalid/);
  for (const text of ['null', '7', '[]', '"x"', '{"code": 1, "message": {"toString": 1}}', 'x', ''])
    await t.rejects(answering(text, { exit_code: 22 }).code.run('1'), {
      name: 'SandboxdError',
      message: /invalid/,
    });
  const odd = [
    { data: 'x', png: {} },
    { data: [1], chart: [], extra: [[]], text: null },
    { data: { a: 1 }, chart: 'x' },
  ];
  const { results } = await answering(lines(...odd.map((each) => ({ type: 'result', ...each })))).code.run(
    '1',
  );
  t.same(results, Array(3).fill({ isMain: false }));
  const quotes = ['"[,[,', '\\', '\\"', '[{,'.repeat(700_000)].join('');
  const long = await answering(lines({ type: 'result', text: quotes })).code.run('1');
  t.ok(long.results[0]?.text === quotes, 'what is in a text counts once');
});

t.test('contexts', async (t) => {
  const context = { id: 'a/b', language: 'python', cwd: '/tmp' };
  const one = answering(JSON.stringify(context));
  t.same(await one.code.createContext({ cwd: '/tmp' }), context);
  t.same(await answering(JSON.stringify([context])).code.contexts(), [context]);
  await t.rejects(answering('{"id": 1}').code.createContext(), /invalid/);
  await t.rejects(answering('{}').code.contexts(), /invalid/);
  const other = answering('null');
  await other.code.restartContext('a/b');
  await other.code.deleteContext('a/b');
  t.match(
    other.calls.map(({ cmd }) => cmd.at(-1)),
    [/\/contexts\/a%2Fb\/restart$/, /\/contexts\/a%2Fb$/],
  );
});
