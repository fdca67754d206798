// One-way exec for clients without a decoder of frames: one object, or lines.

import { toOpenApi } from '@sandboxd/api';
import t from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { problemOf } from '../support/answers.ts';
import type { FakeExec } from './fake-sandboxes.ts';
import { makeApp } from './support.ts';

const { ExecPiece } = toOpenApi().components.schemas;

async function run(accept: string, script: (exec: FakeExec) => void, query = '') {
  const fixture = makeApp();
  const { id } = fixture.sandboxes.add();
  fixture.sandboxes.script = script;
  const response = await fixture.app.request(`/sandboxes/${id}/exec${query}`, {
    method: 'POST',
    headers: { accept },
    body: '{"cmd":["x"]}',
  });
  const text = await response.text();
  return { response, text, exec: fixture.sandboxes.execs[0] };
}

const twoStreams = (exec: FakeExec): void => {
  exec.output('stdout', 'hel');
  exec.output('stderr', 'oops\n');
  exec.output('stdout', 'lo\n');
  exec.exit({ exitCode: 3, durationMs: 12 });
};

t.test('one object has the output and the fields of the result', async (t) => {
  const { response, text, exec } = await run('application/json', twoStreams);
  t.equal(response.headers.get('content-type'), 'application/json');
  t.same(JSON.parse(text), { stdout: 'hello\n', stderr: 'oops\n', exit_code: 3, duration_ms: 12 });
  t.equal(exec?.consumedBytes, exec?.sentBytes, 'all of the output was given back');
});

t.test('without such a header, or with one that frames satisfy, the response is frames', async (t) => {
  for (const accept of [
    '',
    '*/*',
    'application/json, text/plain, */*',
    'application/octet-stream, application/json',
    'text/html',
  ]) {
    const { response, text } = await run(accept, twoStreams);
    t.equal(response.headers.get('content-type'), 'application/octet-stream', accept);
    t.equal(text.charCodeAt(0), 1, accept);
  }
  const { response } = await run('Application/JSON;q=0.5', twoStreams);
  t.equal(response.headers.get('content-type'), 'application/json');
});

t.test('output that is not UTF-8 is in base64 and marked so', async (t) => {
  const bytes = Buffer.of(0, 0xff, 0x80);
  const { text } = await run('application/json', (exec) => {
    exec.output('stdout', bytes);
    exec.output('stderr', 'ä');
    exec.exit();
  });
  t.match(JSON.parse(text), { stdout: bytes.toString('base64'), stdout_base64: true, stderr: 'ä' });
  t.notHas(JSON.parse(text), { stderr_base64: true });
});

t.test('max_output_bytes cuts each stream, not within a character, and says so', async (t) => {
  const script = (exec: FakeExec): void => {
    exec.output('stdout', 'aä');
    exec.output('stdout', 'äää');
    exec.output('stderr', '1234');
    exec.exit();
  };
  const cut = JSON.parse((await run('application/json', script, '?max_output_bytes=4')).text);
  t.match(cut, { stdout: 'aä', stdout_truncated: true, stderr: '1234' });
  t.notHas(cut, { stderr_truncated: true });
  t.notHas(cut, { stdout_base64: true });
  const whole = JSON.parse((await run('application/json', script, '?max_output_bytes=9')).text);
  t.match(whole, { stdout: 'aääää' });
  t.notHas(whole, { stdout_truncated: true });
  for (const bad of ['0', '-1', 'x', String(2 ** 24 + 1)]) {
    const { response, text } = await run('application/json', script, `?max_output_bytes=${bad}`);
    t.equal(response.status, 400, bad);
    t.match(text, 'max_output_bytes', bad);
  }
});

t.test('by default 1 MiB of each stream is kept, and the command runs on', async (t) => {
  const { text, exec } = await run('application/json', (exec) => {
    for (let n = 0; n < 20; n++) exec.output('stdout', 'x'.repeat(65_536));
    exec.exit({ exitCode: 7 });
  });
  const { stdout, ...rest } = JSON.parse(text);
  t.equal(stdout.length, 2 ** 20);
  t.match(rest, { stdout_truncated: true, exit_code: 7 });
  t.equal(exec?.consumedBytes, exec?.sentBytes, 'what is not kept is given back as well');
});

t.test('lines: a piece each, the result last', async (t) => {
  const { response, text } = await run('application/x-ndjson', twoStreams);
  t.equal(response.headers.get('content-type'), 'application/x-ndjson');
  t.ok(text.endsWith('\n'));
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.same(lines, [
    { stream: 'stdout', data: 'hel' },
    { stream: 'stderr', data: 'oops\n' },
    { stream: 'stdout', data: 'lo\n' },
    { result: { exit_code: 3, duration_ms: 12 } },
  ]);
  for (const line of lines) t.equal(problemOf(ExecPiece ?? {}, line), undefined, JSON.stringify(line));
  t.ok(problemOf(ExecPiece ?? {}, { stream: 'stdin', data: '' }), 'the document would refuse another');
});

t.test('a character that comes in two pieces is shown whole, half of one at the end in base64', async (t) => {
  const smile = Buffer.from('😀');
  const { text } = await run('application/x-ndjson', (exec) => {
    exec.output('stdout', smile.subarray(0, 2));
    exec.output('stderr', 'e');
    exec.output('stdout', smile.subarray(2));
    exec.output('stdout', smile.subarray(0, 3));
    exec.exit();
  });
  t.same(
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .slice(0, -1),
    [
      { stream: 'stderr', data: 'e' },
      { stream: 'stdout', data: '😀' },
      { stream: 'stdout', data: smile.subarray(0, 3).toString('base64'), base64: true },
    ],
  );
});

t.test('what fails before the command is an HTTP error in every form', async (t) => {
  for (const accept of ['application/json', 'application/x-ndjson']) {
    const { app, sandboxes } = makeApp();
    const { id } = sandboxes.add();
    sandboxes.exec = () => {
      throw new AppError('guest_unreachable', 'the guest does not answer');
    };
    const response = await app.request(`/sandboxes/${id}/exec`, {
      method: 'POST',
      headers: { accept },
      body: '{"cmd":["x"]}',
    });
    t.equal(response.status, 502);
    t.same(await response.json(), { error: 'the guest does not answer', code: 'guest_unreachable' });
  }
});

t.test('a client that leaves ends the command in every form', async (t) => {
  for (const accept of ['application/json', 'application/x-ndjson']) {
    const { app, sandboxes } = makeApp();
    const { id } = sandboxes.add();
    sandboxes.script = (exec) => exec.output('stdout', 'begun');
    const leave = new AbortController();
    const request = app.request(`/sandboxes/${id}/exec`, {
      method: 'POST',
      headers: { accept },
      body: '{"cmd":["x"]}',
      signal: leave.signal,
    });
    await new Promise((resolve) => setImmediate(resolve));
    leave.abort();
    await Promise.resolve(request).catch(() => undefined);
    t.ok(sandboxes.execs[0]?.isCancelled, accept);
  }
});
