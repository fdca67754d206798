// Error texts of commands that did not start.
import '../support/addon-dir.ts';
import t from 'tap';
import { describeSpawnFailure, parseSpawnFailure } from '../../../../guest-agent/src/exec/spawn-failure.ts';

t.test('a failed start is explained', async (t) => {
  const attempt = { program: 'x', cwd: '/w', path: '/p' };
  const explain = (result: number) => describeSpawnFailure(parseSpawnFailure(result), attempt);
  t.strictSame(parseSpawnFailure(-7002), { stage: 'program', code: 'ENOENT' });
  t.match(explain(-7002), /^command not found: "x" is not in PATH \(\/p\)/);
  t.match(explain(-7008), /exec format error, and no \/bin\/sh/);
  t.match(explain(-7007), /^argument list too long/);
  t.match(explain(-7040), /"x" cannot be executed: ELOOP/);
  t.match(explain(-6013), /^working directory "\/w" is not accessible/);
  t.match(explain(-6002), /^working directory "\/w" does not exist/);
  t.match(explain(-6020), /^working directory "\/w" is not a directory/);
  t.equal(explain(-6040), 'working directory "/w" cannot be used: ELOOP');
  t.match(explain(-7020), /^command not found/);
  t.match(explain(-7013), /^"x" is not executable: permission denied/);
  const byPath = describeSpawnFailure({ stage: 'program', code: 'ENOENT' }, { ...attempt, program: './x' });
  t.equal(byPath, 'command not found: "./x" does not exist');
  t.match(explain(-1012), /^not enough memory in the guest/);
  t.equal(explain(-1022), 'the command could not be started (process): EINVAL');
  t.equal(explain(-5011), 'the command could not be started (user): EAGAIN');
  t.equal(explain(-2038), 'the command could not be started (session): ENOSYS');
  t.strictSame(parseSpawnFailure(-99_999), { stage: '', code: 'errno 999' });
  t.match(explain(-1011), /no more processes/);
  t.match(explain(-1038), /clone3/);
  t.match(explain(-5001), /\(user\): EPERM/);
});
