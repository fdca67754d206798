// What a client sends to its command: input, sizes and signals.
import { EXEC_FRAME, encodeExecFrame, MAX_TTY_CELLS } from '@sandboxd/api';
import t from 'tap';
import { decodeFrames, summarize } from '../../../../http/support.ts';
import { drain, start } from './started-run.ts';

t.test(
  'frames of the client become input, sizes and signals; what makes no sense is an error frame',
  async (t) => {
    const { run, exec, seen } = start();
    const send = (type: number, payload: string): boolean =>
      run.push(encodeExecFrame(type, Buffer.from(payload)));
    t.ok(send(EXEC_FRAME.stdin, 'hello'));
    t.ok(send(EXEC_FRAME.stdin, ''));
    t.same(exec.stdin.map(String), ['hello']);
    for (const payload of [
      '{"signal":"SIGINT"}',
      '{"signal":"\\ud800"}',
      '{"signal":"SIGRTMIN+31"}',
      '{"signal":"int"}',
      '{"signal":7}',
      '{"signal"',
      'null',
      '"signal"',
      '7',
      '{}',
    ])
      t.ok(send(EXEC_FRAME.signal, payload));
    for (const [cols, rows] of [
      [80, 24],
      [1, MAX_TTY_CELLS],
      [0, 24],
      [80, 0],
      [MAX_TTY_CELLS + 1, 24],
      [80, MAX_TTY_CELLS + 1],
      [1.5, 24],
      ['80', 24],
      [80, null],
    ])
      t.ok(send(EXEC_FRAME.resize, JSON.stringify({ cols, rows })));
    t.ok(send(99, '{"signal":"SIGTERM","cols":1,"rows":1}'));
    t.ok(send(EXEC_FRAME.stdinClose, ''));
    t.same(exec.calls, ['signal SIGINT', 'resize 80x24', `resize 1x${MAX_TTY_CELLS}`, 'closeStdin']);
    exec.isStdinFull = true;
    const full = Buffer.concat([
      encodeExecFrame(EXEC_FRAME.stdin, Buffer.from('a')),
      encodeExecFrame(EXEC_FRAME.resize, Buffer.from('{"cols":2,"rows":3}')),
    ]);
    t.notOk(run.push(full), 'the client waits');
    t.equal(exec.calls.at(-1), 'resize 2x3');
    t.equal(seen.drains, 0);
    exec.events.drain?.();
    t.equal(seen.drains, 1);
    exec.exit();
    t.ok(send(EXEC_FRAME.stdin, 'late'), 'thrown away');
    t.equal(exec.stdin.length, 2);
    const errors = errorsOf(await drain(run));
    t.equal(errors.length, 9 + 7);
    t.match(errors, [
      /^signal must be a Linux signal, such as SIGTERM, got "\\ud800"$/,
      /got "SIGRTMIN\+31"$/,
      /got "int"; did you mean SIGINT\?$/,
      /got 7$/,
      /got nothing$/,
    ]);
    t.equal(errors.at(-1), `cols and rows must be integers from 1 to ${MAX_TTY_CELLS}, got 80 and null`);
  },
);

t.test('error frames are few, whatever a client sends', async (t) => {
  const { run, exec } = start();
  for (let at = 0; at < 1000; at++) run.push(encodeExecFrame(EXEC_FRAME.signal, Buffer.from('{}')));
  exec.exit();
  const bytes = await drain(run);
  t.equal(errorsOf(bytes).length, 100);
  t.match(summarize(decodeFrames(bytes)), { stdout: '', result: { exit_code: 0 } });
});

function errorsOf(bytes: Buffer): string[] {
  return decodeFrames(bytes)
    .filter(({ type }) => type === EXEC_FRAME.error)
    .map(({ payload }) => JSON.parse(payload.toString()).error);
}
