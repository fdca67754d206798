// Commands through the library, over the daemon's real server.
import { Client, CommandError, ConnectionError, type Exec, NotFoundError } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { serveCat } from '../cat.ts';
import type { FakeExec } from '../fake-sandboxes.ts';
import { serve } from '../support.ts';

async function connect(t: Test, script: (exec: FakeExec) => void) {
  const served = await serve(t);
  served.sandboxes.script = script;
  const sandbox = await new Client({ host: served.url }).sandboxes.create();
  return { ...served, sandbox };
}

const talk = (exec: FakeExec): void => {
  exec.output('stdout', 'one ');
  exec.output('stderr', 'oops\n');
  exec.output('stdout', 'two');
  exec.exit({ exitCode: 0, durationMs: 5 });
};

t.test('output is a loop of chunks, or one text, or both streams and the result', async (t) => {
  const { sandbox, sandboxes } = await connect(t, talk);
  const chunks: [string, string][] = [];
  for await (const { stream, text } of sandbox.exec(['x'])) chunks.push([stream, text]);
  t.same(chunks, [
    ['stdout', 'one '],
    ['stderr', 'oops\n'],
    ['stdout', 'two'],
  ]);
  t.equal(await sandbox.exec(['x']).text(), 'one two');
  t.match(await sandbox.exec(['x']).output(), {
    stdout: 'one two',
    stderr: 'oops\n',
    result: { exit_code: 0, duration_ms: 5 },
  });
  const options = { env: { A: 'b' }, cwd: '/tmp', user: 'nobody', timeoutS: 3 };
  t.match(await sandbox.exec(['x', 'y'], options).result(), { exit_code: 0 });
  t.match(sandboxes.execs.at(-1), {
    request: { cmd: ['x', 'y'], env: { A: 'b' }, cwd: '/tmp', user: 'nobody', timeout_s: 3 },
    hasStdin: false,
  });
});

t.test('a command says its id while it runs', async (t) => {
  const { sandbox } = await connect(t, (exec) => {
    exec.id = 'cmd_0123456789abc';
    talk(exec);
  });
  for (const options of [{}, { stdin: true }] as const) {
    const exec = sandbox.exec(['x'], options);
    t.equal(await exec.id, 'cmd_0123456789abc');
    t.match(await exec.output(), { stdout: 'one two' });
  }
  const old = await connect(t, talk);
  const exec = old.sandbox.exec(['x']);
  await exec.result();
  t.equal(await exec.id, undefined);
  const refused = old.sandbox.exec([]);
  t.equal(await refused.id, undefined);
});

t.test('text() of a failed command throws its output and exit code, result() does not', async (t) => {
  const { sandbox } = await connect(t, (exec) => {
    exec.output('stderr', 'line\nno such file\n');
    exec.exit({ exitCode: 2 });
  });
  const error = await sandbox
    .exec(['make', 'it'])
    .text()
    .catch((reason: unknown) => reason);
  t.ok(error instanceof CommandError);
  t.match(error, {
    message: 'make exited with 2: no such file',
    result: { exit_code: 2 },
    stderr: 'line\nno such file\n',
  });
  t.match(await sandbox.exec(['make']).result(), { exit_code: 2 });
});

t.test('stdin is a text, bytes, a stream, or written piece by piece', async (t) => {
  const { url, id } = await serveCat(t);
  const sandbox = new Client({ host: url }).sandboxes.get(id);
  const big = new Uint8Array(200_000).fill(65);
  async function* stream() {
    yield Buffer.from('a');
    yield Buffer.from('b');
  }
  t.match(await sandbox.exec(['cat'], { stdin: 'text' }).output(), { stdout: 'text' });
  t.equal((await sandbox.exec(['cat'], { stdin: big }).output()).stdout.length, 200_000);
  t.match(await sandbox.exec(['cat'], { stdin: stream() }).output(), { stdout: 'ab' });
  const cat: Exec = sandbox.exec(['cat'], { stdin: true });
  await cat.write('hello ');
  await cat.write('world');
  const seen: string[] = [];
  for await (const { text } of cat) {
    seen.push(text);
    if (seen.join('') === 'hello world') await cat.closeStdin();
  }
  t.equal(seen.join(''), 'hello world');
  t.match(await cat.result(), { exit_code: 4 });
  await t.rejects(sandbox.exec(['cat']).write('x'), { message: /stdin: true/ });
});

t.test('a terminal has a size, another one, and signals', async (t) => {
  const { url, id, sandboxes } = await serveCat(t);
  const sandbox = new Client({ host: url }).sandboxes.get(id);
  const refused: string[] = [];
  const onRefused = (problem: string) => void refused.push(problem);
  await using terminal = sandbox.terminal({ size: { cols: 100, rows: 30 }, onRefused });
  await terminal.resize({ cols: 90, rows: 20 });
  await terminal.signal('SIGINT');
  const exec = () => sandboxes.execs[0];
  await until(() => exec()?.calls.length === 2, 'resize and signal');
  t.match(exec()?.request, { cmd: ['bash'], tty: { cols: 100, rows: 30 } });
  t.same(exec()?.calls, ['resize 90x20', 'signal SIGINT']);
  await terminal.signal('INT');
  await terminal.closeStdin();
  await terminal.result();
  t.match(refused, [/got "INT"; did you mean SIGINT\?$/]);
});

t.test('leaving a command ends it: a loop, a signal, a block, kill', async (t) => {
  const { sandbox, sandboxes } = await connect(t, (exec) => exec.output('stdout', 'begun'));
  const gone = (at: number) =>
    until(() => sandboxes.execs[at]?.isCancelled === true, `the end of command ${at}`);
  for await (const _ of sandbox.exec(['a'])) break;
  await gone(0);
  const leave = new AbortController();
  const ended = sandbox.exec(['b'], { signal: leave.signal }).result();
  await until(() => sandboxes.execs.length === 2, 'the second command');
  leave.abort(new Error('enough'));
  await t.rejects(ended, { message: 'enough' });
  await gone(1);
  {
    await using exec = sandbox.exec(['c'], { stdin: true });
    await exec.write('x');
  }
  await gone(2);
  const killed = sandbox.exec(['d']);
  await until(() => sandboxes.execs.length === 4, 'the fourth command');
  killed.kill();
  await t.rejects(killed.result(), ConnectionError);
  await gone(3);
});

t.test(
  'a command in a sandbox that is not there fails when it is read, one-way and with stdin',
  async (t) => {
    const { url } = await serve(t);
    const sandbox = new Client({ host: url }).sandboxes.get('sbx_0123456789abc');
    await t.rejects(sandbox.exec(['x']).text(), NotFoundError);
    await t.rejects(sandbox.exec(['x'], { stdin: 'y' }).text(), NotFoundError);
    await t.rejects(sandbox.terminal().write('y'), NotFoundError);
  },
);

t.test('a connection that breaks off is an error, not an end', async (t) => {
  const { sandbox, server, sandboxes } = await connect(t, (exec) => exec.output('stdout', 'begun'));
  const result = sandbox.exec(['x']).result();
  result.catch(() => undefined);
  await until(() => sandboxes.execs.length === 1, 'the command');
  await server.close();
  await t.rejects(result, ConnectionError);
});
