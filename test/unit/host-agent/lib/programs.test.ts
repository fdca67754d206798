// The environment of the daemon's child processes.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { runProgram, startProgram } from '../../../../host-agent/src/lib/programs.ts';
import { NetHelper } from '../../../../host-agent/src/network/helper.ts';

process.env.SECRET_OF_THE_DAEMON = 'secret';
process.env.NODE_OPTIONS = '--no-warnings';
const PLAIN = [`LC_ALL=C.UTF-8`, `PATH=${process.env.PATH}`];
/** Without the variables that the shell itself sets. */
const variables = (said: string) =>
  said
    .trim()
    .split('\n')
    .filter((line) => !/^(?:PWD|OLDPWD|SHLVL|_)=/.test(line))
    .sort();

t.test('a program gets a PATH, a locale and its own variables', async (t) => {
  t.same(variables((await runProgram('env', [])).stdout), PLAIN);
  const told = await runProgram('env', [], { env: { NOTIFY_SOCKET: '/x' } });
  t.same(variables(told.stdout), [PLAIN[0], 'NOTIFY_SOCKET=/x', PLAIN[1]]);
  const child = startProgram('env', [], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.same(variables(await text(child.stdout)), PLAIN);
});

t.test('the program for networks gets no more', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'programs-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'netd');
  writeFileSync(
    program,
    `#!/bin/sh\nread -r id rest; said="$(env)"; printf '%s ok %d\\n%s' "$id" \${#said} "$said"; read -r end\n`,
  );
  chmodSync(program, 0o755);
  const helper = new NetHelper(program);
  t.teardown(() => helper.close());
  t.same(variables(await helper.request(['rules', '-'])), PLAIN);
});

t.test('a failing program rejects with its output, and one that reads no input is no error', async (t) => {
  await t.rejects(runProgram('sh', ['-c', 'echo out; echo err >&2; exit 3']), {
    code: 3,
    stdout: 'out\n',
    stderr: 'err\n',
  });
  t.match(await runProgram('cat', [], { input: 'given' }), { stdout: 'given' });
  t.match(await runProgram('true', [], { input: 'x'.repeat(1 << 20) }), { stdout: '' });
});
