// A command's environment, and the search path of its program.
import '../support/addon-dir.ts';
import fc from 'fast-check';
import t from 'tap';
import {
  completeEnvironment,
  DEFAULT_PATH,
  environmentValue,
  programCandidates,
} from '../../../../guest-agent/src/exec/environment.ts';

t.test('a program is looked for where the shell would', async (t) => {
  t.strictSame(programCandidates('ls', '/a:/b'), ['/a/ls', '/b/ls']);
  t.strictSame(programCandidates('ls', '/a::'), ['/a/ls', './ls', './ls']);
  t.strictSame(programCandidates('./ls', '/a'), ['./ls']);
  t.strictSame(programCandidates('', '/a'), []);
});

t.test('an environment is completed, never changed', async (t) => {
  const nameless = { user: { home: '/h' }, hasTerminal: false, isExact: false };
  const inTerminal = { ...nameless, hasTerminal: true };
  t.strictSame(completeEnvironment([], nameless), [`PATH=${DEFAULT_PATH}`, 'HOME=/h']);
  t.strictSame(completeEnvironment(['PATH=', 'HOME=/x', 'TERM=vt100'], inTerminal), [
    'PATH=',
    'HOME=/x',
    'TERM=vt100',
  ]);
  t.strictSame(completeEnvironment(['PATH=/a', 'HOME=/b'], inTerminal), ['PATH=/a', 'HOME=/b', 'TERM=xterm']);
  t.strictSame(completeEnvironment(['PATH=/a', 'HOME=/b'], nameless), ['PATH=/a', 'HOME=/b']);
  t.equal(environmentValue(['A=1', 'AB=2', 'A=3=4'], 'A'), '3=4');
  t.equal(environmentValue(['B=A='], 'A'), undefined);
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[A-Z]{1,3}=[a-z=]{0,3}$/)), (env) =>
      completeEnvironment(env, { user: { home: '/h', name: 'ada' }, hasTerminal: true, isExact: false })
        .slice(0, env.length)
        .every((entry, i) => entry === env[i]),
    ),
  );
});

t.test('a command knows who runs it, unless its environment is exact or says otherwise', async (t) => {
  const user = { home: '/home/ada', name: 'ada' };
  const complete = (env: string[], isExact = false) =>
    completeEnvironment(env, { user, hasTerminal: false, isExact });
  t.strictSame(complete(['PATH=/a']), ['PATH=/a', 'HOME=/home/ada', 'USER=ada', 'LOGNAME=ada']);
  t.strictSame(complete(['PATH=/a', 'USER=x', 'LOGNAME=', 'HOME=/y']), [
    ...['PATH=/a', 'USER=x', 'LOGNAME=', 'HOME=/y'],
  ]);
  t.strictSame(complete(['PATH=/a'], true), ['PATH=/a', 'HOME=/home/ada']);
});
