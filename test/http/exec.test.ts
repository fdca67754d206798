// Exec whose output is streamed one way, without sockets: validation, frames, pace, results, a client that leaves.
import t from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { until } from '../support/until.ts';
import type { FakeExec } from './fake-sandboxes.ts';
import { ask, decodeFrames, makeApp, summarize } from './support.ts';

const USAGE = {
  cpuUserMs: 1,
  cpuSysMs: 2,
  peakMemoryBytes: 3,
  pageFaultsMajor: 4,
  contextSwitchesInvoluntary: 5,
  ioReadBytes: 6,
  ioWriteBytes: 7,
};

async function run(script: (exec: FakeExec) => void, body: unknown = { cmd: ['x'] }) {
  const fixture = makeApp();
  const { id } = fixture.sandboxes.add();
  fixture.sandboxes.script = script;
  const response = await fixture.app.request(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const exec = fixture.sandboxes.execs[0]!;
  return { ...fixture, response, exec, frames: response.ok ? decodeFrames(bytes) : [], bytes };
}

t.test('output comes as frames, the result last', async (t) => {
  const { response, frames, exec, lines } = await run((exec) => {
    exec.events.started?.(1);
    exec.output('stdout', 'hello ');
    exec.output('stderr', 'oops');
    exec.output('stdout', 'world');
    exec.exit({ exitCode: 3, durationMs: 12, usage: USAGE });
  });
  t.equal(response.status, 200);
  t.equal(response.headers.get('content-type'), 'application/octet-stream');
  t.ok(response.headers.get('x-request-id'));
  t.same(
    frames.map(({ type }) => type),
    [1, 2, 1, 3],
  );
  t.same(summarize(frames), {
    stdout: 'hello world',
    stderr: 'oops',
    result: {
      exit_code: 3,
      duration_ms: 12,
      usage: {
        cpu_user_ms: 1,
        cpu_sys_ms: 2,
        peak_memory_bytes: 3,
        page_faults_major: 4,
        context_switches_involuntary: 5,
        io_read_bytes: 6,
        io_write_bytes: 7,
      },
    },
  });
  t.equal(exec.consumedBytes, exec.sentBytes, 'all of the output was given back');
  await new Promise((resolve) => setImmediate(resolve));
  const ended = lines.find(({ msg }) => msg === 'exec ended');
  t.match(ended, { sandbox: /^sbx_/, requestId: /^req_/, exec: { exitCode: 3 } });
});

t.test('each form of the answer has the id of the command', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => {
    exec.id = 'cmd_0123456789abc';
    exec.exit();
  };
  for (const accept of ['application/json', 'application/x-ndjson', '*/*']) {
    const body = JSON.stringify({ cmd: ['x'] });
    const response = await app.request(`/sandboxes/${id}/exec`, {
      method: 'POST',
      body,
      headers: { accept },
    });
    t.equal(response.headers.get('x-command-id'), 'cmd_0123456789abc', accept);
    await response.arrayBuffer();
  }
});

t.test('the result says only what there is to say', async (t) => {
  const plain = await run((exec) =>
    exec.exit({ exitCode: 0, durationMs: 0, signal: '', error: '', timedOut: false }),
  );
  t.same(summarize(plain.frames).result, { exit_code: 0, duration_ms: 0 });
  const killed = await run((exec) =>
    exec.exit({
      exitCode: -1,
      durationMs: 1.6,
      signal: 'SIGKILL',
      timedOut: true,
      oomKilled: true,
      error: 'no',
    }),
  );
  t.same(summarize(killed.frames).result, {
    exit_code: -1,
    duration_ms: 2,
    signal: 'SIGKILL',
    timed_out: true,
    oom_killed: true,
    error: 'no',
  });
  const long = await run((exec) => exec.exit({ exitCode: -1, error: 'é'.repeat(100_000) }));
  t.ok(long.frames[0]!.payload.length <= 65_536, 'an endless error still fits a frame');
});

t.test('a chunk over 64 KiB is split, an empty one is harmless', async (t) => {
  const big = Buffer.alloc(200_000, 'ab');
  const { frames } = await run((exec) => {
    exec.output('stdout', big);
    exec.output('stderr', '');
    exec.exit();
  });
  t.ok(frames.every(({ payload }) => payload.length <= 65_536));
  t.equal(summarize(frames).stdout, big.toString());
});

t.test('the request reaches the sandbox with what stands for absent left out', async (t) => {
  const finish = (exec: FakeExec) => exec.exit();
  const bare = await run(finish, {
    cmd: ['a', ''],
    cwd: '',
    user: '',
    env: null,
    timeout_s: null,
    tty: null,
  });
  t.same(bare.exec.request, { cmd: ['a', ''], env: {}, timeout_s: 0 });
  t.equal(bare.exec.hasStdin, false);
  const full = await run(finish, {
    cmd: ['a'],
    cwd: '/x',
    env: { A: '1', 'B.c': '' },
    timeout_s: 2,
    user: '1000:10',
    tty: { cols: 80, rows: 24 },
    other: 1,
  });
  t.same(full.exec.request, {
    cmd: ['a'],
    cwd: '/x',
    env: { A: '1', 'B.c': '' },
    timeout_s: 2,
    user: '1000:10',
    tty: { cols: 80, rows: 24 },
  });
  for (const stdin of ['0', 'true', '', '11']) {
    const { app, sandboxes } = makeApp();
    const { id } = sandboxes.add();
    const { status } = await ask(app, 'POST', `/sandboxes/${id}/exec?stdin=${stdin}`, '{"cmd":["x"]}');
    t.equal(status, 200);
    t.equal(sandboxes.execs[0]!.hasStdin, false, `stdin=${stdin} is not interactive`);
  }
});

t.test('bad exec bodies are refused by field, value and expectation', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const cases: [string | undefined, RegExp][] = [
    [undefined, /^cmd must be a non-empty array of strings, the program first, got nothing$/],
    ['{}', /^cmd must be/],
    ['null', /^cmd must be/],
    ['{"cmd":null}', /^cmd must be .*, got null$/],
    ['{"cmd":[]}', /^cmd must be .*, got \[\]$/],
    ['{"cmd":"ls -l"}', /^cmd must be .*, got "ls -l"$/],
    ['{"cmd":[1]}', /^cmd\[0\] must be a string, got 1$/],
    ['{"cmd":[""]}', /^cmd must name a program first, got \[""\]$/],
    ['{"cmd":["a\\u0000b"]}', /^cmd\[0\] must be a string without a NUL/],
    ['{"cmd":["x"],"cwd":"tmp"}', /^cwd must be an absolute path, got "tmp"$/],
    ['{"cmd":["x"],"cwd":7}', /^cwd must be an absolute path, got 7$/],
    ['{"cmd":["x"],"env":["A=1"]}', /^env must be an object of strings, got \["A=1"\]$/],
    ['{"cmd":["x"],"env":{"A":1}}', /^env.A must be a string, got 1$/],
    ['{"cmd":["x"],"env":{"A=B":"1"}}', /^env must have names that are not empty, hold no = and no NUL/],
    ['{"cmd":["x"],"env":{"":"1"}}', /^env must have names/],
    ['{"cmd":["x"],"timeout_s":"5"}', /^timeout_s must be an integer of seconds, 0 for none, got "5"$/],
    ['{"cmd":["x"],"timeout_s":0.5}', /^timeout_s must/],
    ['{"cmd":["x"],"user":0}', /^user must be name\|uid\[:group\|gid\], got 0$/],
    ['{"cmd":["x"],"tty":true}', /^tty must be an object of cols and rows, got true$/],
    ['{"cmd":["x"],"tty":{"cols":0,"rows":1}}', /^tty.cols must be an integer from 1 to 65535, got 0$/],
    ['{"cmd":["x"],"tty":{"cols":1}}', /^tty.rows must be an integer .*, got nothing$/],
    ['{"cmd"', /^the body is not valid JSON: unexpected end at line 1, column 7$/],
  ];
  for (const [body, pattern] of cases) {
    const { status, error } = await ask(app, 'POST', `/sandboxes/${id}/exec`, body);
    t.equal(status, 400, body ?? 'no body');
    t.match(error, pattern);
  }
  const large = JSON.stringify({ cmd: ['x', 'a'.repeat(2 ** 20)] });
  t.equal((await ask(app, 'POST', `/sandboxes/${id}/exec`, large)).status, 413);
  t.same(sandboxes.execs, [], 'nothing was started');
});

t.test('an unreachable guest is 502 until the response has begun', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.exec = () => {
    throw new AppError('guest_unreachable', 'the guest agent does not answer');
  };
  const answer = await ask(app, 'POST', `/sandboxes/${id}/exec`, '{"cmd":["x"]}');
  t.match(answer, { status: 502, body: { error: 'the guest agent does not answer' } });

  const before = await run((exec) => exec.exit({ exitCode: -1, error: 'the guest was lost', isLost: true }));
  t.equal(before.response.status, 502);
  t.same(JSON.parse(Buffer.from(before.bytes).toString()), {
    error: 'the guest was lost',
    code: 'guest_unreachable',
  });
  const after = await run((exec) => {
    exec.events.started?.(1);
    exec.exit({ exitCode: -1, error: 'the guest was lost', isLost: true });
  });
  t.same(summarize(after.frames).result, { exit_code: -1, duration_ms: 1, error: 'the guest was lost' });
});

t.test('the answer waits for the first sign of life', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.script = () => {};
  let isAnswered = false;
  const asked = Promise.resolve(
    app.request(`/sandboxes/${id}/exec`, { method: 'POST', body: '{"cmd":["x"]}' }),
  );
  void asked.then(() => {
    isAnswered = true;
  });
  await until(() => sandboxes.execs.length === 1, 'the exec');
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(isAnswered, false);
  sandboxes.execs[0]!.events.started?.(1);
  const response = await asked;
  t.equal(response.status, 200);
  await response.body?.cancel();
  t.equal(sandboxes.execs[0]!.isCancelled, true);
});

t.test('output is not read from the guest while no client reads it', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => {
    exec.events.started?.(1);
    for (let i = 0; i < 16; i++) exec.output('stdout', Buffer.alloc(65_536));
  };
  const response = await app.request(`/sandboxes/${id}/exec`, { method: 'POST', body: '{"cmd":["x"]}' });
  const exec = sandboxes.execs[0]!;
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(exec.consumedBytes, 0, 'before the first read');
  const reader = response.body!.getReader();
  await reader.read();
  t.ok(
    exec.consumedBytes > 0 && exec.consumedBytes <= exec.sentBytes / 4,
    'what one read gave, a block at most',
  );
  await reader.cancel();
  t.equal(exec.isCancelled, true, 'a reader that leaves ends the command');
  t.equal(exec.consumedBytes, exec.sentBytes, 'what waited was given back');
  exec.output('stdout', 'more');
  t.equal(exec.consumedBytes, exec.sentBytes, 'and what still comes is');
  exec.exit();
});

t.test('a client that leaves before the answer ends the command', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const client = new AbortController();
  sandboxes.script = (exec) => {
    exec.on('cancel', () => exec.exit({ exitCode: -1, signal: 'SIGKILL' }));
    client.abort();
  };
  await app.request(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: '{"cmd":["x"]}',
    signal: client.signal,
  });
  t.equal(sandboxes.execs[0]!.isCancelled, true);
});

t.test('a client that leaves before its command begins ends the command as well', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => exec.exit();
  await app.request(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: '{"cmd":["x"]}',
    signal: AbortSignal.abort(),
  });
  t.equal(sandboxes.execs[0]?.isCancelled, true);
});

t.test('GET without an upgrade is 426, interactive POST without a connection 501', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const { status, headers, error } = await ask(app, 'GET', `/sandboxes/${id}/exec`);
  t.equal(status, 426);
  t.equal(headers.get('upgrade'), 'websocket');
  t.equal(headers.get('sec-websocket-version'), '13');
  t.match(error, 'speaks WebSocket');
  t.equal((await ask(app, 'POST', `/sandboxes/${id}/exec?stdin=1`, '{"cmd":["x"]}')).status, 501);
});
